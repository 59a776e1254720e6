package pair

import "github.com/squall-go/squall/internal/invariants"

// Queue is the queue of the senders that wait for buffer space in the ring of one Sender, in the
// order in which they came (RP16). A sender that is woken claims the room for its frame until the
// frame is in the ring or the sender gives up, so that room wakes as many senders as it has frames
// for. What is claimed of the window of one channel is not claimed of another. One goroutine at a
// time. The zero value is ready.
type Queue[T any] struct {
	entries []*Entry[T]
	woken   int           // of them
	ring    int           // bytes of the ring that are claimed
	windows [Channels]int // bytes of each channel's window that are claimed
}

// Entry is the place of one sender in a Queue. It may be used again when the sender has left.
type Entry[T any] struct {
	Sender  T
	kind    Kind
	channel int
	bytes   int
	woken   bool
}

// Woken reports whether the sender was woken, and has room for its frame unless another one took it
// meanwhile.
func (e *Entry[T]) Woken() bool { return e.woken }

// Join puts a sender at the end of the queue, which found no room for a frame with n bytes. Wake is
// called next: there may be room by now.
func (q *Queue[T]) Join(e *Entry[T], k Kind, channel, n int) {
	e.kind, e.channel, e.bytes, e.woken = k, channel, n, false
	q.entries = append(q.entries, e)
}

// Refused takes in that a sender that was woken found no room: its claim ends, and it sleeps again.
// Wake is called next: there may be room for the others.
func (q *Queue[T]) Refused(e *Entry[T]) {
	if e.woken {
		e.woken = false
		q.claim(e, -1)
	}
}

// Leave removes a sender: its frame is in the ring, or it gave up. Wake is called next: there may
// be room for the others.
func (q *Queue[T]) Leave(e *Entry[T]) {
	q.Refused(e)
	for i, o := range q.entries {
		if o == e {
			q.entries = append(q.entries[:i], q.entries[i+1:]...)
			q.entries[:len(q.entries)+1][len(q.entries)] = nil
			return
		}
	}
}

// claim adds the claim of an entry, or takes it back.
func (q *Queue[T]) claim(e *Entry[T], sign int) {
	need := sign * int(frameBytes(e.bytes))
	q.woken += sign
	q.ring += need
	if e.kind.Counted() {
		q.windows[e.channel] += need
	}
	if invariants.Enabled {
		invariants.Check(q.woken >= 0 && q.ring >= 0 && q.windows[e.channel] >= 0 && (q.woken > 0 || q.ring == 0), "RP16",
			"%d senders were woken, they claim %d bytes, of channel %d %d", q.woken, q.ring, e.channel, q.windows[e.channel])
	}
}

// Wake wakes the senders for whose frames there is room behind what is claimed, and appends them to
// a list.
func (q *Queue[T]) Wake(s *Sender, woken []T) []T {
	var none [Channels]int // bytes for which a channel has no room; 0: not known
	for _, e := range q.entries {
		if e.woken || none[e.channel] > 0 && e.kind.Counted() && e.bytes >= none[e.channel] {
			continue
		}
		if !s.roomBehind(e.kind, e.channel, e.bytes, q.ring, q.windows[e.channel]) {
			if e.kind.Counted() {
				none[e.channel] = max(e.bytes, 1)
			}
			continue
		}
		e.woken = true
		q.claim(e, 1)
		woken = append(woken, e.Sender)
	}
	return woken
}

// Len is how many senders wait, also those that were woken.
func (q *Queue[T]) Len() int { return len(q.entries) }

// All visits the senders in their order.
func (q *Queue[T]) All(visit func(channel int, sender T)) {
	for _, e := range q.entries {
		visit(e.channel, e.Sender)
	}
}
