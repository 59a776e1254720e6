package pair

import (
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
)

// Channels is the number of channels in each direction.
const Channels = 64

// Words that one side reads again and again are on other lines than the words that the other side
// writes often.
const (
	sentOff     = 1 * fabric.LineBytes
	hungryOff   = 2 * fabric.LineBytes
	coreOff     = hungryOff + 8
	freedOff    = 3 * fabric.LineBytes
	windowOff   = 4 * fabric.LineBytes
	receivedOff = windowOff + 8*Channels

	// ControlBytes is the control part of a row.
	ControlBytes = receivedOff + 8*Channels

	// HeaderBytes is what a frame takes besides its bytes.
	HeaderBytes = 16
	align       = 16
)

// Limits of a ring.
const (
	MinRingBytes = 4 << 10
	MaxRingBytes = 1 << 28
)

// Shape is the shape of a row with a ring of that many bytes.
func Shape(ringBytes int) fabric.RowShape {
	return fabric.RowShape{ControlBytes: ControlBytes, RowBytes: ControlBytes + ringBytes}
}

// CheckRing reports a size that a ring cannot have.
func CheckRing(ringBytes int) error {
	if ringBytes < MinRingBytes || ringBytes > MaxRingBytes || ringBytes&(ringBytes-1) != 0 {
		return fmt.Errorf("a ring of %d bytes: it must be a power of two between %d and %d", ringBytes, MinRingBytes, MaxRingBytes)
	}
	return nil
}

// MaxMessage is the largest message that a ring takes: with a quarter of the ring and half a window
// there is room for it, whatever the position, as soon as what is before it is freed.
func MaxMessage(ringBytes int) int { return ringBytes/4 - HeaderBytes }

// window is how many bytes of a ring one channel may hold.
func window(ringBytes int) uint32 { return uint32(ringBytes / 2) }

// Kind says what a frame is.
type Kind uint8

// Kinds of frames.
const (
	none      Kind = iota // there is no frame yet
	skip                  // the rest of the ring is not used
	Message               // a message
	Request               // a message that wants a reply; its id is the call's
	Notice                // a notification; its id is the key
	Reply                 // of a call
	Refusal               // of a call: its bytes say why
	Open                  // asks for a channel; its bytes name the two services
	Opened                // the channel may be used
	Closed                // the channel is not served any more; its id is how many messages were received, its bytes say why it was not opened
	Offered               // a long message; its id is that of the message, its bytes are an Offer and the head
	Withdrawn             // the sender of a long message wants no answer any more
	Granted               // the bytes of a long message may come
	Denied                // a long message is not taken; its bytes say why
	Here                  // a long message is here; its byte says whether the memory of the sender is still looked at
	Freed                 // a long message was given back; its byte says whether it was received
	Ping                  // asks for an empty reply; its id is the call's
	Left                  // the sender gives a channel up, and sends nothing more on it
	kinds
)

func (k Kind) String() string {
	names := [kinds]string{"none", "skip", "message", "request", "notice", "reply", "refusal", "open", "opened", "closed", "offered", "withdrawn",
		"granted", "denied", "here", "freed", "ping", "left"}
	if k >= kinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// Counted reports whether frames of a kind belong to a window and are counted as received.
func (k Kind) Counted() bool { return k == Message || k == Request || k == Notice }

// needsChannel reports whether a frame is for the service of its channel, and is not sent when the
// use of the channel has ended.
func (k Kind) needsChannel() bool { return k.Counted() || k == Offered }

// head is the first word of a frame.
func head(k Kind, channel, n int) uint64 {
	return uint64(uint32(n)) | uint64(k)<<32 | uint64(uint16(channel))<<40
}

func unhead(w uint64) (k Kind, channel, n int) {
	return Kind(w >> 32), int(uint16(w >> 40)), int(uint32(w))
}

// frameBytes is what a message of n bytes takes in the ring.
func frameBytes(n int) uint64 { return (uint64(n) + HeaderBytes + align - 1) &^ (align - 1) }

// FrameBytes is what a message of n bytes takes in the ring.
func FrameBytes(n int) int { return int(frameBytes(n)) }

func load(row []byte, off int) uint64 { return atomic.LoadUint64(fabric.Word(row, off)) }

func store(row []byte, off int, v uint64) { atomic.StoreUint64(fabric.Word(row, off), v) }

// Core loads on which core a row's owner said that it runs, plus one; 0 is unknown.
func Core(row []byte) uint64 { return load(row, coreOff) }

// Hungry reports whether a row's owner waits for buffer space.
func Hungry(row []byte) bool { return load(row, hungryOff) != 0 }
