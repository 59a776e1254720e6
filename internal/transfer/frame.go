package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"runtime"
	"sync"
	"time"
)

// A stream is a sequence of frames, each with a header of 8 bytes:
//
//	0           4           8
//	┌───────────┬───────────┬─────────────────┐
//	│ length u32│ crc32c u32│ length bytes    │   a chunk
//	├───────────┼───────────┼─────────────────┘
//	│ 0         │ 0         │                     a pulse: the source is there, and has nothing to say yet
//	├───────────┼───────────┼─────────────────┐
//	│ 2³² − 1   │ crc32c u32│ total, u64      │   the end: checksum and number of all bytes
//	└───────────┴───────────┴─────────────────┘
const (
	headerBytes   = 8
	maxChunkBytes = 256 << 10
	endLength     = 1<<32 - 1
	totalBytes    = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCorrupt says that a stream is not what its source sent, or that the source sends nonsense.
var errCorrupt = errors.New("the stream is corrupt")

// stream makes frames of what an application writes. Write is called by one goroutine at a time; pulse by another one.
type stream struct {
	conn  net.Conn
	stall time.Duration

	mu    sync.Mutex
	frame []byte // room for the header, and the bytes that are gathered for the next chunk
	total uint64
	sum   uint32
	err   error // the first one stays
}

func newStream(conn net.Conn, stall time.Duration) *stream {
	return &stream{conn: conn, stall: stall, frame: make([]byte, headerBytes, headerBytes+maxChunkBytes)}
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 && s.err == nil {
		room := min(len(p), cap(s.frame)-len(s.frame))
		s.frame = append(s.frame, p[:room]...)
		p, n = p[room:], n+room
		if len(s.frame) == cap(s.frame) {
			s.flush()
			runtime.Gosched() // the group's loop may wait for the core
		}
	}
	return n, s.err
}

// flush sends what is gathered; if that is nothing, it is a pulse.
func (s *stream) flush() {
	bytes := s.frame[headerBytes:]
	s.total += uint64(len(bytes))
	s.sum = crc32.Update(s.sum, castagnoli, bytes)
	header(s.frame, uint32(len(bytes)), crc32.Checksum(bytes, castagnoli))
	s.send(s.frame)
	s.frame = s.frame[:headerBytes]
}

func header(frame []byte, length, sum uint32) {
	binary.LittleEndian.PutUint32(frame, length)
	binary.LittleEndian.PutUint32(frame[4:], sum)
}

// send bounds each write: a receiver that takes nothing must not keep the stream for ever.
func (s *stream) send(frame []byte) {
	if s.err == nil {
		s.err = s.conn.SetWriteDeadline(time.Now().Add(s.stall))
	}
	if s.err == nil {
		_, s.err = s.conn.Write(frame)
	}
}

// end sends the last frames.
func (s *stream) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.frame) > headerBytes {
		s.flush()
	}
	header(s.frame, endLength, s.sum)
	s.send(binary.LittleEndian.AppendUint64(s.frame, s.total))
	return s.err
}

// pulse shows, until stop, that the source is there, however long its application takes for the next bytes.
func (s *stream) pulse(every time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.mu.Lock()
			s.flush()
			s.mu.Unlock()
		case <-stop:
			return
		}
	}
}

// reader gives an application the bytes of a stream, each chunk when its checksum was found right (X3).
type reader struct {
	conn    net.Conn
	silence time.Duration
	chunk   []byte // grows to the largest one
	rest    []byte // of it
	total   uint64
	sum     uint32
	err     error // the first one stays; io.EOF: everything was read, and is right
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 && r.err == nil {
		r.err = r.next()
	}
	if len(r.rest) == 0 {
		return 0, r.err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next reads one frame.
func (r *reader) next() error {
	var head [headerBytes]byte
	if err := r.fill(head[:]); err != nil {
		return err
	}
	length, sum := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	switch {
	case length == endLength:
		return r.last(sum)
	case length > maxChunkBytes:
		return fmt.Errorf("%w: a chunk of %d bytes, at most %d", errCorrupt, length, maxChunkBytes)
	case int(length) > cap(r.chunk):
		r.chunk = make([]byte, length)
	}
	bytes := r.chunk[:length]
	if err := r.fill(bytes); err != nil {
		return err
	}
	if have := crc32.Checksum(bytes, castagnoli); have != sum {
		return fmt.Errorf("%w: chunk of %d bytes at %d: checksum %08x, announced %08x", errCorrupt, length, r.total, have, sum)
	}
	runtime.Gosched() // as at the source
	r.total += uint64(length)
	r.sum = crc32.Update(r.sum, castagnoli, bytes)
	r.rest = bytes
	return nil
}

// last judges the whole.
func (r *reader) last(sum uint32) error {
	var tail [totalBytes]byte
	if err := r.fill(tail[:]); err != nil {
		return err
	}
	if total := binary.LittleEndian.Uint64(tail[:]); total != r.total || sum != r.sum {
		return fmt.Errorf("%w: %d bytes with checksum %08x, announced %d with %08x", errCorrupt, r.total, r.sum, total, sum)
	}
	return io.EOF
}

func (r *reader) fill(p []byte) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(r.silence)); err != nil {
		return err
	}
	_, err := io.ReadFull(r.conn, p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the end has a frame of its own
	}
	return err
}

// finish reads what the application left, and reports what is wrong with the source, if anything is.
func (r *reader) finish() error {
	for r.err == nil {
		r.rest = nil
		r.err = r.next()
	}
	if r.err == io.EOF {
		return nil
	}
	return r.err
}
