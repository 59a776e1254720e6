package pair

import (
	"fmt"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
)

// OpenLong is how many long messages of one channel may be on their way or not given back.
const OpenLong = 16

// maxDrained is how many messages that were denied may not have ended: the peer does not know yet,
// or does not care.
const maxDrained = 4096

// Aside copies a frame that belongs to no window out of the ring, and frees its room there. The
// copy is freed like any frame. Without memory for it, the frame stays where it is.
func (r *Receiver) Aside(f *Frame) *Frame {
	a := r.frame()
	if a == nil {
		return f
	}
	if !r.putAside(a, f.Data) {
		r.recycle(a)
		return f
	}
	a.Kind, a.Channel, a.ID, a.moved = f.Kind, f.Channel, f.ID, true
	r.Free(f)
	return a
}

// outState is where a long message is, as its sender knows.
type outState uint8

const (
	outOffered outState = iota // the peer was told of it
	outGranted                 // its bytes may go
	outHere                    // the peer has the message, and did not give it back
	outOver
)

// Outgoing is a long message that this side sends.
type Outgoing[T any] struct {
	Value   T
	ID      uint64
	Channel int
	Size    uint64
	way     Way
	state   outState
	sent    uint64 // bytes that went, or are about to go

	withdrawn bool // no bytes go, whatever the peer says
	owes      bool // the peer denied it, and waits for its end
}

// Outbox has the long messages that one side of a pair sends. One goroutine at a time. The zero
// value is ready.
type Outbox[T any] struct {
	open  Calls[*Outgoing[T]]
	count [Channels]int
}

// HasRoom reports whether a channel may have one more long message (RP11). Replies, on channel 0,
// are bounded by the requests.
func (b *Outbox[T]) HasRoom(channel int) bool { return channel == 0 || b.count[channel] < OpenLong }

// Begin opens a long message for which its channel has room. The caller offers it to the peer.
func (b *Outbox[T]) Begin(channel int, way Way, size uint64, value T) *Outgoing[T] {
	o := &Outgoing[T]{Value: value, Channel: channel, Size: size, way: way}
	if way == Direct {
		o.state = outGranted
	}
	o.ID = b.open.Begin(o)
	b.count[channel]++
	if invariants.Enabled {
		invariants.Check(channel == 0 || b.count[channel] <= OpenLong, "RP11", "channel %d has %d long messages", channel, b.count[channel])
	}
	return o
}

// End closes a message of which the peer was not told, or does not exist any more.
func (b *Outbox[T]) End(o *Outgoing[T]) {
	if _, ok := b.open.End(o.ID); ok {
		b.count[o.Channel]--
		o.state = outOver
	}
}

// Answer takes in what the peer says of a message: Granted, Denied, Here or Freed. What it cannot
// say now is a violation (RP14).
func (b *Outbox[T]) Answer(k Kind, id uint64) (*Outgoing[T], error) {
	o, ok := b.open.Find(id)
	if !ok {
		return nil, fmt.Errorf("%w: RP14: %v for a long message that is not open", fabric.ErrViolation, k)
	}
	possible := false
	switch k {
	case Granted:
		if possible = o.way == Asked && o.state == outOffered && o.Size > 0; possible {
			o.state = outGranted
		}
	case Here:
		if possible = o.state != outHere && o.IsSent(); possible {
			o.state = outHere
		}
	case Freed:
		possible = o.state == outHere || o.Size == 0
	case Denied:
		possible = o.state != outHere
		o.owes = o.state == outGranted && !o.withdrawn
	}
	if !possible {
		return nil, fmt.Errorf("%w: RP14: %v for a long message of %d bytes of which %d were sent (%d, %d)", fabric.ErrViolation, k, o.Size, o.sent, o.way, o.state)
	}
	if k == Freed || k == Denied {
		b.End(o)
	}
	return o, nil
}

// IsSent reports whether nothing of the message is left to send.
func (o *Outgoing[T]) IsSent() bool { return o.way == Placed || o.sent == o.Size }

// IsGranted reports whether bytes may go.
func (o *Outgoing[T]) IsGranted() bool { return o.state == outGranted && !o.withdrawn }

// IsOver reports whether the peer ended it.
func (o *Outgoing[T]) IsOver() bool { return o.state == outOver }

// IsHere reports whether the peer has the message, and did not give it back.
func (o *Outgoing[T]) IsHere() bool { return o.state == outHere }

// Block takes the next bytes to send, at most so many; none if all were taken, or the peer denied
// the message.
func (o *Outgoing[T]) Block(most int) (offset uint64, n int) {
	if !o.IsGranted() {
		return o.sent, 0
	}
	offset = o.sent
	n = int(min(uint64(most), o.Size-o.sent, MaxBlock))
	o.sent += uint64(n)
	return offset, n
}

// Withdraw takes a message back of which no bytes may go yet, and reports whether the peer has to
// be told. It answers once more.
func (o *Outgoing[T]) Withdraw() bool {
	if o.state != outOffered || o.withdrawn {
		return false
	}
	o.withdrawn = true
	return true
}

// Cut ends the sending before its end, and reports whether the peer has to be told with a block of
// no bytes: it waits for the others.
func (o *Outgoing[T]) Cut() bool {
	if !o.IsGranted() && !o.owes || o.sent == o.Size {
		return false
	}
	o.sent, o.owes = o.Size, false // nothing more goes
	return true
}

// inState is where a long message is, as its receiver knows.
type inState uint8

const (
	inWaiting inState = iota // for a place
	inGranted                // its bytes come
	inHere                   // all are here
	inDrained                // it was denied; what is on its way is not kept
	inOver
)

// Incoming is a long message that the peer sends.
type Incoming[T any] struct {
	Value   T
	ID      uint64
	Channel int
	Size    uint64
	way     Way
	state   inState
	got     uint64 // bytes that came, or are about to be read
}

// Inbox has the long messages that the peer sends. One goroutine at a time. The zero value is
// ready.
type Inbox[T any] struct {
	open    map[uint64]*Incoming[T]
	count   [Channels]int
	drained int // of open
}

// Offered opens a message that the peer offers.
func (b *Inbox[T]) Offered(id uint64, channel int, o *Offer, value T) (*Incoming[T], error) {
	switch {
	case b.open[id] != nil:
		return nil, fmt.Errorf("%w: RP14: long message %#x is offered again", fabric.ErrViolation, id)
	case (channel == 0) != (o.Purpose == LongReply):
		return nil, fmt.Errorf("%w: RP14: purpose %d on channel %d", fabric.ErrViolation, o.Purpose, channel)
	case channel != 0 && b.count[channel] >= OpenLong: // of replies, the calls are the limit
		return nil, fmt.Errorf("%w: RP11: channel %d has %d long messages", fabric.ErrViolation, channel, b.count[channel])
	case b.drained >= maxDrained:
		return nil, fmt.Errorf("%w: RP11: %d long messages were denied, and did not end", fabric.ErrViolation, b.drained)
	}
	m := &Incoming[T]{Value: value, ID: id, Channel: channel, Size: o.Size, way: o.Way}
	if o.Way == Direct {
		m.state = inGranted
	}
	if b.open == nil {
		b.open = map[uint64]*Incoming[T]{}
	}
	b.open[id] = m
	b.count[channel]++
	return m, nil
}

// Grant notes that a message has a window. The peer has to be told if the bytes have to be asked
// for.
func (m *Incoming[T]) Grant() (tell bool) {
	if m.way != Asked || m.state != inWaiting {
		return false
	}
	m.state = inGranted
	return true
}

// Block says where the next n bytes of a message belong. The offer of an unknown message is still
// on its way. Bytes that were not granted, or more bytes than the message has, are a violation
// (RP10).
func (b *Inbox[T]) Block(id uint64, n int) (m *Incoming[T], offset uint64, err error) {
	m = b.open[id]
	if m == nil {
		return nil, 0, nil
	}
	if m.way == Placed || m.state != inGranted && m.state != inDrained || uint64(n) > m.Size-m.got {
		return nil, 0, fmt.Errorf("%w: RP10: %d bytes of a long message of %d, of which %d came (%d, %d)", fabric.ErrViolation, n, m.Size, m.got, m.way, m.state)
	}
	offset = m.got
	m.got += uint64(n)
	if m.state == inDrained && (m.got == m.Size || n == 0) {
		b.forget(m)
	}
	return m, offset, nil
}

// IsWhole reports whether all bytes of a message that the peer sends came.
func (m *Incoming[T]) IsWhole() bool { return m.state == inGranted && m.got == m.Size }

// IsOpen reports whether the message is neither here nor over.
func (m *Incoming[T]) IsOpen() bool { return m.state == inWaiting || m.state == inGranted }

// IsDrained reports whether bytes of the message may still come, although it is not wanted any
// more.
func (m *Incoming[T]) IsDrained() bool { return m.state == inDrained }

// Here notes that all of a message is here. The peer is told.
func (b *Inbox[T]) Here(m *Incoming[T]) {
	if invariants.Enabled {
		invariants.Check(m.Size == 0 || m.way == Placed && m.state == inWaiting || m.IsWhole(), "RP12", "%d of %d bytes are here (%d, %d)", m.got, m.Size, m.way, m.state)
	}
	m.state = inHere
}

// Free ends a message that was here. The peer is told.
func (b *Inbox[T]) Free(m *Incoming[T]) {
	b.count[m.Channel]--
	b.forget(m)
}

// Deny ends a message that is not here. The peer is told. What it sent meanwhile still comes: until
// its end, or a block of no bytes. cut says that this block came.
func (b *Inbox[T]) Deny(m *Incoming[T], cut bool) {
	b.count[m.Channel]--
	if m.state == inGranted && m.got < m.Size && !cut {
		m.state = inDrained
		b.drained++
		return
	}
	b.forget(m)
}

// Withdrawn returns the message that the peer withdrew; nil if it was answered already, or its
// bytes come.
func (b *Inbox[T]) Withdrawn(id uint64) *Incoming[T] {
	m := b.open[id]
	if m == nil || m.way == Direct || m.got > 0 {
		return nil
	}
	switch m.state {
	case inDrained:
		b.forget(m)
	case inGranted:
		m.state = inWaiting // the peer sends none of it
		return m
	case inWaiting:
		return m
	}
	return nil
}

func (b *Inbox[T]) forget(m *Incoming[T]) {
	if m.state == inDrained {
		b.drained--
	}
	m.state = inOver
	delete(b.open, m.ID)
}

// Open returns the number of messages that are on their way, that are not given back, or of which
// unwanted bytes may still come.
func (b *Inbox[T]) Open() int { return len(b.open) }

// Replies is the number of replies that are in flight, or not given back.
func (b *Outbox[T]) Replies() int { return b.count[0] }

// Open is the number of messages that are in flight, or not given back.
func (b *Outbox[T]) Open() int { return b.open.Open() }
