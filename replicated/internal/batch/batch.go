// Package batch decides which records of a member share a message, and when that is sent. It is
// pure: package member performs it with a goroutine that sends, and squalltest in virtual time.
//
// Life of a record: alone (nothing of this member waits: it is a message of its own, at once), or
// put (into the message that gathers, or, if there is no room, at the end of the queue) → sealed
// (with the others of its message, which takes the next place in the order of this member) →
// claimed (it has that place).
//
// Invariants:
//
//	BA1  a record that was put, and did not leave the queue, is sealed once
//	BA2  records are sealed in the order in which they were put
//	BA3  a record is alone only if all that were put before are claimed
//	BA4  a message of several records has at most as many bytes as the limit
//	BA5  a barrier is passed when all records that were put before it are claimed
package batch

import (
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Batch is the records of a member that wait to be sent. T is what the member keeps with each of
// them.
type Batch[T any] struct {
	limit   int
	open    message[T] // gathers
	sealed  message[T] // is being sent, or was; its memory is used again
	sending bool       // what is sealed is not claimed yet
	queue   []*Waiting[T]
}

// message is a message that gathers records.
type message[T any] struct {
	data []byte
	of   []T
	last int // where the last record begins, with mutants
}

// Waiting is a record for which there is no room, or a barrier.
type Waiting[T any] struct {
	Passed chan struct{} // is closed by the caller that learns that it waits no more
	record []byte        // nil: it is a barrier
	of     T
}

// Limit sets the most bytes that a message of several records has.
func (b *Batch[T]) Limit(bytes int) { b.limit = bytes }

// Fits reports whether a record of so many bytes may share a message. A larger record is sent by
// itself behind a barrier.
func (b *Batch[T]) Fits(bytes int) bool {
	return bytes <= b.limit-machine.SeveralBytes-machine.PartBytes
}

// Alone reports whether a record may be sent by itself now (BA3).
func (b *Batch[T]) Alone() bool {
	if mutant.Enabled && mutant.On(mutant.Overtaking) {
		return true
	}
	return !b.sending && len(b.open.of) == 0 && len(b.queue) == 0
}

// Put puts a record that fits, which is head and tail together. If it returns a Waiting, the record
// is in the queue. First says that there was nothing to send before: a message is to be sealed
// soon.
func (b *Batch[T]) Put(head, tail []byte, of T) (first bool, w *Waiting[T]) {
	overtakes := mutant.Enabled && mutant.On(mutant.RoomOvertaken)
	if len(b.queue) > 0 && !overtakes || !b.hasRoom(len(head)+len(tail)) {
		w = &Waiting[T]{Passed: make(chan struct{}), record: slices.Concat(head, tail), of: of}
		b.queue = append(b.queue, w)
		return false, w
	}
	b.open.put(head, tail, of)
	return len(b.open.of) == 1 && !b.sending, nil
}

// Barrier waits for all records that were put. It returns nil if there is nothing to wait for.
func (b *Batch[T]) Barrier() *Waiting[T] {
	if b.Alone() {
		return nil
	}
	w := &Waiting[T]{Passed: make(chan struct{})}
	b.queue = append(b.queue, w)
	return w
}

// Leave takes a record, or a barrier, out of the queue, and reports whether it was there.
func (b *Batch[T]) Leave(w *Waiting[T]) bool {
	i := slices.Index(b.queue, w)
	if i < 0 {
		return false
	}
	b.queue = slices.Delete(b.queue, i, i+1)
	return true
}

func (b *Batch[T]) hasRoom(bytes int) bool {
	return len(b.open.data)+machine.PartBytes+bytes <= b.limit
}

func (m *message[T]) put(head, tail []byte, of T) {
	if len(m.of) == 0 {
		m.data = machine.AppendSeveral(m.data[:0])
	}
	if mutant.Enabled {
		m.last = len(m.data)
	}
	m.data = machine.AppendPart(m.data, head, tail)
	m.of = append(m.of, of)
}

// Seal returns the next message, with its time, and what was put with its records, or no record;
// and what does not wait in the queue any more. The message takes the next place of this member;
// then Sent is called. It is valid until the next Seal.
func (b *Batch[T]) Seal(time uint64) (data []byte, of []T, passed []*Waiting[T]) {
	if b.sending || len(b.open.of) == 0 {
		return nil, nil, nil
	}
	b.sending = true
	b.open, b.sealed = b.sealed, b.open
	clear(b.open.of)
	b.open.data, b.open.of = b.open.data[:0], b.open.of[:0]
	data, of = b.sealed.data, b.sealed.of
	if n := len(of); mutant.Enabled && n > 1 {
		switch last := data[b.sealed.last:]; {
		case mutant.On(mutant.RecordDropped):
			data, of = data[:b.sealed.last], of[:n-1]
		case mutant.On(mutant.RecordDoubled):
			b.open.put(last[machine.PartBytes:], nil, of[n-1])
		}
	}
	if len(of) == 1 {
		data = data[machine.SeveralBytes+machine.PartBytes:]
	}
	machine.Stamp(data, time)
	return data, of, b.advance()
}

// Sent says that what Seal returned is claimed, or cannot be sent. It returns what does not wait in
// the queue any more.
func (b *Batch[T]) Sent() (passed []*Waiting[T]) {
	b.sending = false
	return b.advance()
}

// advance takes what does not have to wait out of the queue.
func (b *Batch[T]) advance() (passed []*Waiting[T]) {
	n := 0
	for ; n < len(b.queue); n++ {
		w := b.queue[n]
		if w.record == nil && (b.sending || len(b.open.of) > 0) || w.record != nil && !b.hasRoom(len(w.record)) {
			break
		}
		if w.record != nil {
			b.open.put(w.record, nil, w.of)
		}
	}
	if n == 0 {
		return nil
	}
	passed = slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	return passed
}

// Empty reports whether there is nothing to seal.
func (b *Batch[T]) Empty() bool { return len(b.open.of) == 0 }
