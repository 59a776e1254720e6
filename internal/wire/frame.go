package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/squall-go/squall/internal/crc"
)

// A conversation is a sequence of frames in each direction:
//
//	0           4           8      9
//	┌───────────┬───────────┬──────┬──────────────┐
//	│ length u32│ crc32c u32│ kind │ length bytes │   the checksum is that of kind and bytes
//	└───────────┴───────────┴──────┴──────────────┘

// Kind says what a frame carries.
type Kind uint8

// Kinds that all protocols share.
const (
	Message Kind = iota + 1 // JSON: one thing that is said
	Pulse                   // nothing: the sender lives
	Bytes                   // the next bytes of a stream
	End                     // JSON, an Ending

	// FirstOwn is the first of the kinds that a protocol defines for itself.
	FirstOwn Kind = 16
)

// HeaderBytes is what precedes the bytes of a frame.
const HeaderBytes = 9

// MaxMessageBytes bounds the JSON of one message. It is far more than a view of the largest group
// takes.
const MaxMessageBytes = 1 << 20

// Errors, to be tested with errors.Is. What wraps them says where.
var (
	// ErrCorrupt says that bytes are not what the other side sent, or that it sends nonsense.
	ErrCorrupt = errors.New("the connection carries something else than was agreed")
	// ErrChecksum says that a frame changed on its way. It is an ErrCorrupt.
	ErrChecksum = fmt.Errorf("%w: a checksum is wrong", ErrCorrupt)
	// ErrTooLarge says that a frame, or the length that announces one, exceeds its bound. It is an
	// ErrCorrupt.
	ErrTooLarge = fmt.Errorf("%w: a frame is too large", ErrCorrupt)
	// ErrMalformed says that a message is not exactly one JSON value of the expected shape. It is an
	// ErrCorrupt.
	ErrMalformed = fmt.Errorf("%w: a message is malformed", ErrCorrupt)
)

// NewFrame is an empty frame with room for its header, and for some bytes.
func NewFrame(room int) []byte { return make([]byte, HeaderBytes, HeaderBytes+room) }

// seal fills in the header of a frame.
func seal(k Kind, frame []byte) {
	frame[8] = byte(k)
	binary.LittleEndian.PutUint32(frame, uint32(len(frame)-HeaderBytes))
	binary.LittleEndian.PutUint32(frame[4:], crc.Of(frame[8:]))
}

// header is what a peer announces. Nothing of it is believed before it was compared.
type header struct {
	kind   Kind
	length int
	sum    uint32
}

// parseHeader judges a length before anything is done about it (CV1).
func parseHeader(b []byte, most int) (h header, err error) {
	length := binary.LittleEndian.Uint32(b)
	if uint64(length) > uint64(most) {
		return h, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, length, most)
	}
	return header{Kind(b[8]), int(length), binary.LittleEndian.Uint32(b[4:])}, nil
}

// check compares the bytes of a frame with its header (CV1).
func (h header) check(bytes []byte) error {
	if have := crc.Add(crc.Of([]byte{byte(h.kind)}), bytes); have != h.sum {
		return fmt.Errorf("%w: %08x over %d bytes, announced %08x", ErrChecksum, have, h.length, h.sum)
	}
	if h.kind == Pulse && h.length > 0 {
		return fmt.Errorf("%w: a pulse of %d bytes", ErrCorrupt, h.length)
	}
	return nil
}

// frames takes a stream apart.
type frames struct {
	in     io.Reader
	most   int          // bytes of a frame
	before func() error // optional: called before the header and before the bytes of a frame are waited for
	head   [HeaderBytes]byte
	ahead  int    // bytes for which there may be memory before they arrive
	chunk  []byte // memory for the frames of a stream
}

// leastAhead is what the first frame of a connection may have in memory before its bytes arrive.
const leastAhead = 16 << 10

// next reads one frame. The bytes of a Bytes frame are valid until the next call, the bytes of
// other frames for ever. An end between frames is io.EOF, one within a frame io.ErrUnexpectedEOF.
func (f *frames) next() (Kind, []byte, error) {
	if err := f.fill(f.head[:]); err != nil {
		return 0, nil, err
	}
	h, err := parseHeader(f.head[:], f.most)
	if err != nil {
		return 0, nil, err
	}
	bytes, err := f.body(h)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return 0, nil, err
	}
	f.ahead = max(f.ahead, h.length)
	return h.kind, bytes, h.check(bytes)
}

// body reads what a header announces. Memory grows with the bytes that arrive (CV2).
func (f *frames) body(h header) (bytes []byte, err error) {
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, err
		}
	}
	if h.kind == Bytes {
		bytes = f.chunk[:0]
	}
	for len(bytes) < h.length {
		had := len(bytes)
		step := min(h.length-had, max(f.ahead, leastAhead, had))
		bytes = slices.Grow(bytes, step)[:had+step]
		if _, err := io.ReadFull(f.in, bytes[had:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	if h.kind == Bytes {
		f.chunk = bytes
	}
	return bytes, nil
}

func (f *frames) fill(p []byte) error {
	if f.before != nil {
		if err := f.before(); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(f.in, p)
	return err
}
