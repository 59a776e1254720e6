package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind says what a control frame means.
type Kind uint8

// The kinds of control frames. Attach, Leave, Ping and Pong are the link's own affair, the others
// are a Relay's.
const (
	Attach   Kind = iota + 1 // the sender has the group Token open, and calls it Channel
	Leave                    // the sender will not use its Channel any more
	Ping                     // asks whether the peer is alive
	Pong                     // yes
	Announce                 // root to all: a message will come
	Ready                    // the sender has room for all blocks of a message
	Ack                      // to root: the messages [0, Index) are over at the sender
	Abort                    // root to all: a message is given up
	Fail                     // to all: the group failed
	Closed                   // root to all: the messages [0, Index) are everywhere, there will be no more; and the answer to that
	Offer                    // root to all: a message lies in memory that they see
	Filled                   // root to all: its bytes [0, Size) are there
	Released                 // to root: the sender does not look at a message any more
)

var kindNames = [...]string{"", "attach", "leave", "ping", "pong", "announce", "ready", "ack", "abort", "fail", "closed", "offer", "filled", "released"}

func (k Kind) String() string {
	if k > 0 && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// TokenBytes is the size of the name of a group on the wire.
const TokenBytes = 16

// Control is a control frame. Fields that a kind does not use are zero.
type Control struct {
	Kind    Kind
	Code    uint8  // Announce: the algorithm. Fail: the code. Offer: 1, every byte is there. Ack: 1, its sender looks at the last message
	Channel uint32 // the receiver's name for the group; Attach and Leave: the sender's
	Index   uint64 // a message, or a count of messages
	Tag     uint64 // Announce, Offer: the root's. Fail: the node
	Size    uint64 // Announce, Offer: of the message. Filled: bytes
	Word    uint32 // Announce: block bytes. Attach: a digest of the configuration
	Token   [TokenBytes]byte
	Text    string // Abort and Fail: why. Offer: where
}

// A control frame has 40 bytes, and a text behind it.
//
//	0      1      2           4          8        16             24             32        36        40
//	┌──────┬──────┬───────────┬──────────┬────────┬──────────────┬──────────────┬─────────┬─────────┬───────┐
//	│ kind │ code │ text, u16 │ channel  │ index  │ tag          │ size         │ word    │ zero    │ text  │
//	└──────┴──────┴───────────┴──────────┴────────┴──────────────┴──────────────┴─────────┴─────────┴───────┘
//	                                              └─ Attach: the token of 16 bytes ─┘
const (
	ControlBytes = 40
	MaxTextBytes = 512
)

// ErrMalformed says that bytes are no frame.
var ErrMalformed = errors.New("malformed frame")

// Append encodes a frame behind b.
func (c *Control) Append(b []byte) []byte {
	text := clean(c.Text)
	b = append(b, byte(c.Kind), c.Code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	b = binary.LittleEndian.AppendUint32(b, c.Channel)
	b = binary.LittleEndian.AppendUint64(b, c.Index)
	if c.Kind == Attach {
		b = append(b, c.Token[:]...)
	} else {
		b = binary.LittleEndian.AppendUint64(b, c.Tag)
		b = binary.LittleEndian.AppendUint64(b, c.Size)
	}
	b = binary.LittleEndian.AppendUint32(b, c.Word)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return append(b, text...)
}

// ParseControl decodes the first 40 bytes of a frame, and tells how many bytes of text follow. It
// judges nothing but the shape.
func ParseControl(b *[ControlBytes]byte) (c Control, textBytes int, err error) {
	c = Control{Kind: Kind(b[0]), Code: b[1], Channel: binary.LittleEndian.Uint32(b[4:]), Index: binary.LittleEndian.Uint64(b[8:])}
	if c.Kind == Attach {
		copy(c.Token[:], b[16:])
	} else {
		c.Tag, c.Size = binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	}
	c.Word = binary.LittleEndian.Uint32(b[32:])
	textBytes = int(binary.LittleEndian.Uint16(b[2:]))
	switch {
	case c.Kind == 0 || int(c.Kind) >= len(kindNames):
		return c, 0, fmt.Errorf("%w: %v", ErrMalformed, c.Kind)
	case binary.LittleEndian.Uint32(b[36:]) != 0:
		return c, 0, fmt.Errorf("%w: %v with bytes that must be zero", ErrMalformed, c.Kind)
	case textBytes > MaxTextBytes || textBytes > 0 && c.Kind != Abort && c.Kind != Fail && c.Kind != Offer:
		return c, 0, fmt.Errorf("%w: %v with %d bytes of text", ErrMalformed, c.Kind, textBytes)
	}
	return c, textBytes, nil
}

// SetText gives a frame the text that followed it.
func (c *Control) SetText(b []byte) { c.Text = clean(string(b)) }

// clean bounds a text, and leaves nothing in it that a terminal or a log would act upon. It changes
// nothing the second time, so that a reason reads the same at every node, however often it was
// passed on.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	for len(text) > MaxTextBytes {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}

// Header stands in front of each block.
//
//	0      1          4          8                16         20         24         28         32
//	┌──────┬──────────┬──────────┬────────────────┬──────────┬──────────┬──────────┬──────────┬─────────────┐
//	│ kind │ zero     │ channel  │ message, u64   │ block    │ length   │ crc32c   │ zero     │ length bytes│
//	└──────┴──────────┴──────────┴────────────────┴──────────┴──────────┴──────────┴──────────┴─────────────┘
type Header struct {
	Channel uint32 // the receiver's name for the group
	Message uint64
	Block   uint32
	Length  uint32
	Sum     uint32
}

// HeaderBytes is the size of a Header, and MaxBlockBytes that of the largest block.
const (
	HeaderBytes   = 32
	MaxBlockBytes = 16 << 20
	blockKind     = 0xb1
)

// Put encodes a header.
func (h *Header) Put(b *[HeaderBytes]byte) {
	*b = [HeaderBytes]byte{blockKind}
	binary.LittleEndian.PutUint32(b[4:], h.Channel)
	binary.LittleEndian.PutUint64(b[8:], h.Message)
	binary.LittleEndian.PutUint32(b[16:], h.Block)
	binary.LittleEndian.PutUint32(b[20:], h.Length)
	binary.LittleEndian.PutUint32(b[24:], h.Sum)
}

// ParseHeader decodes a header. A length that it lets pass is between 1 and MaxBlockBytes.
func ParseHeader(b *[HeaderBytes]byte) (Header, error) {
	h := Header{
		Channel: binary.LittleEndian.Uint32(b[4:]), Message: binary.LittleEndian.Uint64(b[8:]),
		Block: binary.LittleEndian.Uint32(b[16:]), Length: binary.LittleEndian.Uint32(b[20:]), Sum: binary.LittleEndian.Uint32(b[24:]),
	}
	switch {
	case b[0] != blockKind || b[1]|b[2]|b[3] != 0 || binary.LittleEndian.Uint32(b[28:]) != 0:
		return h, fmt.Errorf("%w: no block begins with % x", ErrMalformed, b[:4])
	case h.Length == 0 || h.Length > MaxBlockBytes:
		return h, fmt.Errorf("%w: a block of %d bytes", ErrMalformed, h.Length)
	}
	return h, nil
}
