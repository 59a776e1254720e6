package remote

import (
	"errors"
	"fmt"
	"time"
)

// Entry is a sample of a client's writer.
type Entry struct {
	Sequence  uint64 // from 1
	Operation uint8
	Set       uint64 // number of the coherent set; 0: none
	Source    int64
	Key, Data []byte
}

// Bytes is the size of the sample in an outbox.
func (e *Entry) Bytes() int { return sampleBytes + len(e.Key) + len(e.Data) }

// Outbox has the samples of one writer that are not known to be in the order. The zero value is
// that of a writer that begins.
type Outbox struct {
	waiting []Entry // in the order of their numbers
	unsent  int     // place of the first one that was not sent on this connection
	bytes   int
	last    uint64 // number of the last sample
	acked   uint64 // number of the last sample that is in the order
}

// ErrForgotten is returned when the members do not know any more which samples of the writer they
// have.
var ErrForgotten = errors.New("dds: the members have forgotten the writer: its last samples may be in the order, or not")

// Put adds a sample, and gives it its number.
func (o *Outbox) Put(e Entry) {
	o.last++
	e.Sequence = o.last
	o.waiting = append(o.waiting, e)
	o.bytes += e.Bytes()
}

// Bytes is the size of the samples that are not known to be in the order.
func (o *Outbox) Bytes() int { return o.bytes }

// Last is the number of the last sample, and Acknowledged that of the last one that is in the
// order.
func (o *Outbox) Last() uint64 { return o.last }

// Acknowledged is the number of the last sample that is in the order.
func (o *Outbox) Acknowledged() uint64 { return o.acked }

// Next returns samples to be sent, of about so many bytes at most, and takes them for sent. They
// end before a coherent set.
func (o *Outbox) Next(bytes int) []Entry {
	from := o.unsent
	for o.NextSet() == 0 && o.unsent < len(o.waiting) && (o.unsent == from || bytes > 0) {
		bytes -= o.waiting[o.unsent].Bytes()
		o.unsent++
	}
	return o.waiting[from:o.unsent:o.unsent]
}

// NextSet is the number of the coherent set of the next sample to be sent; 0: it is of none, or
// there is none.
func (o *Outbox) NextSet() uint64 {
	if o.unsent == len(o.waiting) {
		return 0
	}
	return o.waiting[o.unsent].Set
}

// NextOf returns the samples of a coherent set that are to be sent next, and takes them for sent.
func (o *Outbox) NextOf(set uint64) []Entry {
	from := o.unsent
	for o.NextSet() == set {
		o.unsent++
	}
	return o.waiting[from:o.unsent:o.unsent]
}

// Acknowledge drops the samples up to a number.
func (o *Outbox) Acknowledge(n uint64) {
	k := 0
	for k < len(o.waiting) && o.waiting[k].Sequence <= n {
		o.bytes -= o.waiting[k].Bytes()
		k++
	}
	clear(o.waiting[:k])
	o.waiting, o.unsent = o.waiting[k:], max(o.unsent-k, 0)
	o.acked = max(o.acked, min(n, o.last))
}

// Resume begins with another connection: last is the number of the last sample that the order has,
// acknowledged that of the last one known to be where it is to be, and away the time for which
// there was no connection. Memory is how long the members remember a writer that no member stands
// for.
func (o *Outbox) Resume(last, acknowledged uint64, away, memory time.Duration) error {
	switch {
	case last < o.acked || last > o.last:
		return fmt.Errorf("%w: they have number %d, of %d to %d", ErrForgotten, last, o.acked, o.last)
	case last == 0 && o.last > 0 && away >= memory/2: // the clock of the order may be ahead of this one
		return fmt.Errorf("%w: there was no connection for %v", ErrForgotten, away)
	}
	o.unsent = 0
	for o.unsent < len(o.waiting) && o.waiting[o.unsent].Sequence <= last { // it may be on its way to the disks
		o.unsent++
	}
	o.Acknowledge(acknowledged)
	return nil
}
