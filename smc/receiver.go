package smc

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// ErrBadRecord says that a sender's records are none, or do not lie in its ring.
var ErrBadRecord = errors.New("bad record")

// Receiver is the others' side of a ring: it finds the messages that a sender published. Loop.
type Receiver struct {
	area        []byte
	off         uint64      // of the next record in the area
	left        uint64      // bytes from there on that are known to be published
	limit       uint64      // the position of their end
	next        order.Index // that of the next record or, while none is known, the least that it can have
	head        header      // of the next record, if one is known, as it was read
	least, most uint64      // length of a message with its time
}

// NewReceiver lays the reader's side of a ring with a window on an area of a sender's row.
func NewReceiver(window int, area []byte) Receiver {
	return Receiver{area: area, most: uint64(MaxMessage(len(area) - window*HeaderBytes))}
}

// Timed says that the ring is Timed at its sender: the data of a small message ends with its time.
func (r *Receiver) Timed() { r.least = TimeBytes }

// Rebind goes on with another memory of the same content: the frozen row.
func (r *Receiver) Rebind(area []byte) { r.area = area }

// See takes note of the position up to which the sender published. It was loaded after the sent
// below which indexes are taken.
func (r *Receiver) See(position uint64) error {
	known, more := r.left, position-r.limit
	if position < r.limit || known+more > uint64(len(r.area)) || position%HeaderBytes != 0 { // S4
		return fmt.Errorf("%w: S4: position went from %d to %d, of an area of %d bytes of which %d are known", ErrBadRecord, r.limit, position, len(r.area), known)
	}
	r.limit, r.left = position, known+more
	if known == 0 && more > 0 {
		r.accept(load(r.area, r.off))
	}
	return nil
}

// Next is the index of the next record, or NoIndex if there is none: all indexes before it are
// nulls.
func (r *Receiver) Next() order.Index {
	if r.left == 0 {
		return NoIndex
	}
	return r.next
}

// accept goes on with the record of which this is the header, or with the one after it if it is a
// pad. A header is loaded before its record is needed: if the load misses the cache, it takes long.
func (r *Receiver) accept(h header) {
	if h.kind() == pad && r.off+h.size() == uint64(len(r.area)) && h.size() < r.left {
		r.left, r.off = r.left-h.size(), 0
		if mutant.Enabled && mutant.On(mutant.PadCounted) {
			r.next++
		}
		h = load(r.area, 0)
	}
	r.head = h
	if mutant.Enabled && mutant.On(mutant.GapLost) {
		return
	}
	r.next = min(r.next+h.gap(), NoIndex)
}

// Plain reports whether the next record, which there is, is a small message that lies in the ring
// (S4): then Fill takes it. The kind of a small message is 0: any other kind makes the length too
// large.
func (r *Receiver) Plain() bool {
	n := uint64(r.head) & (1<<gapShift - 1)
	return n-r.least <= r.most-r.least && sizeOf(n) <= min(r.left, uint64(len(r.area))-r.off)
}

// Fill takes small messages that follow each other without nulls, the next record first: n of them,
// or fewer if their records have more than so many bytes or other records come between. It stores
// their data at each stride-th byte from to on. Where a record is as long as the one before, the
// processor finds the next one without waiting for the header.
func (r *Receiver) Fill(to *[]byte, stride uintptr, n int, bytes uint64) (taken int) {
	area, off, left, h, at := unsafe.Pointer(unsafe.SliceData(r.area)), r.off, r.left, r.head&(1<<gapShift-1), uintptr(0)
	for taken < n {
		length, size, room := uint64(h), sizeOf(uint64(h)), min(left, uint64(len(r.area))-off)
		if length-r.least > r.most-r.least || size > room { // S4
			break
		}
		same, from, last, in := h, off, off+min(room-size, bytes), ^uint64(0)
		if length == 0 {
			in = 0 // what follows the header may be the end of the memory
		}
		for h == same && taken < n && off <= last {
			*(*plain)(unsafe.Add(unsafe.Pointer(to), at)) = plain{unsafe.Add(area, (off+HeaderBytes)&in), int(length), int(length)}
			taken, at, off = taken+1, at+stride, off+size
			if off <= last {
				h = header(atomic.LoadUint64((*uint64)(unsafe.Add(area, off))))
			}
		}
		used, loaded := off-from, off <= last
		if off == uint64(len(r.area)) {
			off = 0
		}
		if left -= used; left == 0 {
			break
		}
		if !loaded {
			h = load(r.area, off)
		}
		if used > bytes || h>>lengthBits != 0 {
			break
		}
		bytes -= used
	}
	if taken > 0 {
		r.off, r.left, r.next = off, left, r.next+order.Index(taken)
		if left > 0 {
			r.accept(h)
		}
	}
	return taken
}

// plain is a slice of bytes in memory. Its bounds were compared before.
type plain struct {
	data             unsafe.Pointer
	length, capacity int
}

// Refill makes a Receiver that is as it was before Fill what it would be if Fill had taken fewer
// messages, n. No header is loaded again.
func (r *Receiver) Refill(to *[]byte, stride uintptr, n int) {
	at := func(k int) uint64 { return uint64(len(*(*[]byte)(unsafe.Add(unsafe.Pointer(to), uintptr(k)*stride)))) }
	for k := range n {
		r.head = headerOf(int(at(k)), Small)
		r.skip()
	}
	r.head = headerOf(int(at(n)), Small)
}

// Take returns the data of the record of which Next returned the index, and what the record is. It
// stays the next one until Pass is called.
func (r *Receiver) Take() (data []byte, kind Kind, err error) {
	h, room := r.head, min(r.left, uint64(len(r.area))-r.off)
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
	return fmt.Errorf("%w: S4: index %d: kind %d, %d bytes at %d in an area of %d, of which %d are published", ErrBadRecord, r.next, r.head.kind(), r.head.length(), r.off, len(r.area), r.left)
}

// Pass goes on to the record after the one that was taken.
func (r *Receiver) Pass() {
	if r.skip(); r.left > 0 {
		r.accept(load(r.area, r.off))
	}
}

// skip goes to the end of the next record.
func (r *Receiver) skip() {
	size := r.head.size()
	r.left -= size
	if r.off += size; r.off == uint64(len(r.area)) {
		r.off = 0
	}
	r.next++
}

// NoIndex is beyond every index that a sender may use, and small enough to be turned into a Seq.
const NoIndex order.Index = 1 << 56
