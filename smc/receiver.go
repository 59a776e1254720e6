package smc

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/order"
)

// ErrBadDescriptor says that a sender's descriptor points outside its ring.
var ErrBadDescriptor = errors.New("bad descriptor")

// Receiver is the others' side of a ring: it finds the messages that a sender published. Loop.
type Receiver struct {
	window      uint64
	descriptors []byte
	bytes       []byte
	taken       uint64 // messages taken, nulls not counted: the number of the next descriptor
}

// NewReceiver lays the reader's side on two areas of a sender's row.
func NewReceiver(descriptors, bytes []byte) Receiver {
	return Receiver{window: uint64(len(descriptors) / DescriptorBytes), descriptors: descriptors, bytes: bytes}
}

// Rebind goes on with another memory of the same content: the frozen row.
func (r *Receiver) Rebind(descriptors, bytes []byte) { r.descriptors, r.bytes = descriptors, bytes }

// Kind is what an index stands for.
type Kind uint8

// Kinds of an index.
const (
	Null  Kind = iota
	Small      // a message
	Large      // the record of a large one
)

// Take returns the message of an index, and what it is. Indexes are taken in order, and lie below a
// sent that was loaded before.
func (r *Receiver) Take(i order.Index) (data []byte, kind Kind, err error) {
	d := descriptorAt(r.descriptors, r.taken&(r.window-1)*DescriptorBytes)
	if atomic.LoadUint64(&d.stamp) != uint64(i)+1 {
		return nil, Null, nil
	}
	place := atomic.LoadUint64(&d.place)
	kind = Small + Kind(place&largeBit)
	place &^= largeBit
	offset, end := place&(1<<32-1), place&(1<<32-1)+place>>32
	if end > uint64(len(r.bytes)) || place>>32 > uint64(MaxMessage(len(r.bytes))) || offset%align != 0 { // S4
		return nil, Null, fmt.Errorf("%w: S4: index %d: [%d, %d) in a ring of %d bytes", ErrBadDescriptor, i, offset, end, len(r.bytes))
	}
	r.taken++
	return r.bytes[offset:end:end], kind, nil
}

// Untake gives back what was taken last: it is no message after all, and nothing behind it may be
// taken.
func (r *Receiver) Untake() { r.taken-- }

// Next is the index of the first message from i on, or NoIndex if none is published: all indexes
// before it are nulls.
func (r *Receiver) Next(i order.Index) order.Index {
	d := descriptorAt(r.descriptors, r.taken&(r.window-1)*DescriptorBytes)
	if stamp := atomic.LoadUint64(&d.stamp); stamp > uint64(i) {
		return min(order.Index(stamp-1), NoIndex)
	}
	return NoIndex
}

// TakenFrom is how many of the messages that were taken have an index of from or more. Indexes
// below end were taken. No descriptor of such a message may have been stamped anew.
func (r *Receiver) TakenFrom(from, end order.Index) (n uint64) {
	for n < min(r.taken, r.window) && r.within(r.taken-1-n, from, end) {
		n++
	}
	return n
}

// Waiting is how many messages with an index from next, the first that was not taken, to below end
// there are. All of these indexes were published.
func (r *Receiver) Waiting(next, end order.Index) (n uint64) {
	for n < r.window && r.within(r.taken+n, next, end) {
		n++
	}
	return n
}

// within reports whether a descriptor is stamped with an index of [from, end). One that is of a
// later lap is not: no index of that lap was taken.
func (r *Receiver) within(number uint64, from, end order.Index) bool {
	stamp := order.Index(atomic.LoadUint64(&descriptorAt(r.descriptors, number&(r.window-1)*DescriptorBytes).stamp))
	return stamp > from && stamp <= end
}

// NoIndex is beyond every index that a sender may use, and small enough to be turned into a Seq.
const NoIndex order.Index = 1 << 56
