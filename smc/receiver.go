package smc

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// ErrBadRecord says that a sender's records are none, or do not lie in its ring.
var ErrBadRecord = errors.New("bad record")

// Receiver is the others' side of a ring: it finds the messages that a sender published. Loop.
type Receiver struct {
	area  []byte
	off   uint64      // of the next record in the area
	at    uint64      // its position
	limit uint64      // the end of what is known to be published
	index order.Index // that of the next record if no nulls come before it
	next  order.Index // that of the next record, or NoIndex if its header was not read yet
	head  header      // as it was read
	most  uint64      // length of the largest message
}

// NewReceiver lays the reader's side of a ring with a window on an area of a sender's row.
func NewReceiver(window int, area []byte) Receiver {
	return Receiver{area: area, next: NoIndex, most: uint64(MaxMessage(len(area) - window*HeaderBytes))}
}

// Rebind goes on with another memory of the same content: the frozen row.
func (r *Receiver) Rebind(area []byte) { r.area = area }

// See takes note of the position up to which the sender published. It was loaded after the sent
// below which indexes are taken.
func (r *Receiver) See(position uint64) error {
	if position < r.limit || position-r.at > uint64(len(r.area)) || position%HeaderBytes != 0 { // S4
		return fmt.Errorf("%w: S4: position went from %d to %d, of an area of %d bytes from %d on", ErrBadRecord, r.limit, position, len(r.area), r.at)
	}
	r.limit = position
	return nil
}

// Next is the index of the next record, or NoIndex if there is none: all indexes before it are
// nulls.
func (r *Receiver) Next() order.Index {
	if r.next == NoIndex && r.at != r.limit {
		r.read()
	}
	return r.next
}

// read loads the next header, behind a pad if there is one.
func (r *Receiver) read() {
	h := load(r.area, r.off)
	if h.kind() == pad && r.off+h.size() == uint64(len(r.area)) && h.size() < r.limit-r.at {
		r.at, r.off = r.at+h.size(), 0
		if mutant.Enabled && mutant.On(mutant.PadCounted) {
			r.index++
		}
		h = load(r.area, 0)
	}
	r.head = h
	gap := h.gap()
	if mutant.Enabled && mutant.On(mutant.GapLost) {
		gap = 0
	}
	r.next = min(r.index+gap, NoIndex)
}

// Take returns the data of the record of which Next returned the index, and what the record is. It
// stays the next one until Pass is called.
func (r *Receiver) Take() (data []byte, kind Kind, err error) {
	h, room := r.head, min(r.limit-r.at, uint64(len(r.area))-r.off)
	if mutant.Enabled && mutant.On(mutant.HeaderTwice) {
		h = load(r.area, r.off)
	}
	if n := h.length(); h.size() <= room && n <= r.most && h.kind() != pad || mutant.Enabled && mutant.On(mutant.LengthUnchecked) {
		data := r.off + HeaderBytes
		return r.area[data : data+n : data+n], h.kind(), nil
	}
	return nil, Void, r.bad() // S4
}

func (r *Receiver) bad() error {
	return fmt.Errorf("%w: S4: index %d: kind %d, %d bytes at %d in an area of %d, of which %d are published", ErrBadRecord, r.next, r.head.kind(), r.head.length(), r.off, len(r.area), r.limit-r.at)
}

// Pass goes on to the record after the one that was taken.
func (r *Receiver) Pass() {
	size := r.head.size()
	r.at += size
	if r.off += size; r.off == uint64(len(r.area)) {
		r.off = 0
	}
	r.index, r.next = r.next+1, NoIndex
}

// Waiting is how many messages that were not taken have an index below end. All of these indexes
// were published.
func (r Receiver) Waiting(end order.Index) (n uint64) {
	for r.Next() < end {
		_, kind, err := r.Take()
		if err != nil {
			break
		}
		if kind != Void {
			n++
		}
		r.Pass()
	}
	return n
}

// NoIndex is beyond every index that a sender may use, and small enough to be turned into a Seq.
const NoIndex order.Index = 1 << 56
