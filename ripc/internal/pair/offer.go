package pair

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/squall-go/squall/fabric"
)

// Purpose says what a long message is.
type Purpose uint8

// Purposes.
const (
	LongMessage Purpose = 1 + iota
	LongRequest
	LongReply
)

// Way says how the bytes of a long message come.
type Way uint8

// Ways.
const (
	Asked  Way = iota // on the connection for long messages, when a window is granted
	Direct            // the same, without being asked for: a reply that fits its return buffer
	Placed            // they lie in memory of the sender, where the receiver looks at them
)

// Offer announces a long message. The bytes of a frame that offers one are an offer and the head of
// the message:
//
//	0         1     2             3   8         16        24         32                          48           56
//	┌─────────┬─────┬─────────────┬───┬─────────┬─────────┬──────────┬ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┬ ─ ─ ─ ─ ─ ─┬ ─ ─ ─ ─ ┐┌──────┐
//	│ purpose │ way │ len(Owner)  │ 0 │ Size    │ Call    │ Room     │ Segment                     │ Offset     │ Owner   ││ head │
//	└─────────┴─────┴─────────────┴───┴─────────┴─────────┴──────────┴ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┴ ─ ─ ─ ─ ─ ─┴ ─ ─ ─ ─ ┘└──────┘
//
// What stands between 32 and the head is there if the way is Placed.
type Offer struct {
	Purpose Purpose
	Way     Way
	Size    uint64 // bytes of the body
	Call    uint64 // of a request or a reply
	Room    uint64 // of a request: bytes of its return buffer

	// Of the way Placed.
	Segment [16]byte
	Offset  uint64
	Owner   string // the socket that gives the segment
}

// Sizes of an offer.
const (
	offerBytes = 32
	placeBytes = 16 + 8
	maxOwner   = 64

	// MaxOfferBytes is the size of the longest offer.
	MaxOfferBytes = offerBytes + placeBytes + maxOwner
)

// Append appends the offer in the format of a frame.
func (o *Offer) Append(b []byte) []byte {
	b = append(b, byte(o.Purpose), byte(o.Way), byte(len(o.Owner)), 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, o.Size)
	b = binary.LittleEndian.AppendUint64(b, o.Call)
	b = binary.LittleEndian.AppendUint64(b, o.Room)
	if o.Way != Placed {
		return b
	}
	b = append(b, o.Segment[:]...)
	b = binary.LittleEndian.AppendUint64(b, o.Offset)
	return append(b, o.Owner...)
}

// ParseOffer reads what Append wrote, and returns the head behind it. What a peer may not say is a
// violation.
func ParseOffer(b []byte) (o Offer, head []byte, err error) {
	fault := func(what string) (Offer, []byte, error) {
		return Offer{}, nil, fmt.Errorf("%w: RP14: an offer of %d bytes: %s", fabric.ErrViolation, len(b), what)
	}
	if len(b) < offerBytes {
		return fault("it is too short")
	}
	o.Purpose, o.Way = Purpose(b[0]), Way(b[1])
	owner := int(b[2])
	o.Size, o.Call, o.Room = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])
	switch {
	case o.Purpose < LongMessage || o.Purpose > LongReply || o.Way > Placed:
		return fault("it is of no kind that there is")
	case o.Size > math.MaxInt64/2 || o.Room > math.MaxInt64/2:
		return fault("nothing is that large")
	case o.Way == Direct && o.Purpose != LongReply:
		return fault("only replies come without being asked for")
	case o.Way == Placed && o.Size == 0:
		return fault("nothing lies nowhere")
	}
	b = b[offerBytes:]
	switch {
	case o.Way == Placed:
	case owner != 0:
		return fault("it has an owner and no place")
	default:
		return o, b, nil
	}
	if owner > maxOwner || len(b) < placeBytes+owner {
		return fault("its place is cut")
	}
	o.Offset = binary.LittleEndian.Uint64(b[copy(o.Segment[:], b):])
	if o.Offset > math.MaxInt64/2 {
		return fault("nothing is that large")
	}
	o.Owner = string(b[placeBytes:][:owner])
	return o, b[placeBytes+owner:], nil
}

// Reason says why a long message is denied: the first byte of the frame, before a text.
type Reason uint8

// Reasons.
const (
	NoPlace Reason = 1 + iota
	TooLarge
	Unwanted // it is not received or awaited any more
	Failed   // it could not be brought here
	ServiceClosed
)

// MaxBlock is the largest block of a long message on its connection.
const MaxBlock = 1 << 20

// BlockBytes is the size of the header before a block: the id of its message in 8 bytes, its length
// in 4, and 4 zeros. A length of 0 says that the rest of the message does not come.
const BlockBytes = 16

// PutBlock writes the header of a block.
func PutBlock(b *[BlockBytes]byte, id uint64, n int) {
	binary.LittleEndian.PutUint64(b[:], id)
	binary.LittleEndian.PutUint64(b[8:], uint64(uint32(n)))
}

// ParseBlock reads a header of a block.
func ParseBlock(b *[BlockBytes]byte) (id uint64, n int, err error) {
	length := binary.LittleEndian.Uint64(b[8:])
	if length > MaxBlock {
		return 0, 0, fmt.Errorf("%w: RP14: a block of %d bytes", fabric.ErrViolation, length)
	}
	return binary.LittleEndian.Uint64(b[:]), int(length), nil
}
