package relay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/rdmc/schedule"
)

// What Start refuses.
var (
	// ErrNotRoot says that a node that is not the root wanted to send.
	ErrNotRoot = errors.New("only the root of a group sends")
	// ErrTooLarge says that a message is larger than the group allows.
	ErrTooLarge = errors.New("message too large")
	// ErrLeaving says that a message was to be sent after the group was told to close.
	ErrLeaving = errors.New("the group is closing")
	// ErrAborted is what receivers are told of a message that the root gave up.
	ErrAborted = errors.New("the root gave the message up")
)

// root is what only the root keeps.
type root struct {
	count    uint64     // messages started; the number of the next one
	waiting  []*message // started, not announced
	bytes    int64      // of the messages that are announced and not over
	acked    []uint64   // by place: messages [0, acked) are over there
	closed   bool       // Closed was said
	answered []bool     // by place: and answered
	viewed   []*message // messages that are everywhere, and that some node still looks at
}

// Started is a message that the root was given to send, for its driver. Its index is known only
// once it is announced, because one that is aborted before that never gets one.
type Started struct {
	Number    uint64   // of all that were started; it comes back in the calls
	message   *message // nil: it is over
	undo      Control  // of one that is everywhere: gives it up
	withdrawn bool
}

// Withdrawn reports whether the message was everywhere, and was given up then.
func (s *Started) Withdrawn() bool { return s.withdrawn }

// Start takes a message to send. Filled is how many of its bytes are there.
func (r *Relay) Start(size int64, tag uint64, filled int64, out *Effects) (*Started, error) {
	return r.start(&message{tag: tag, size: size, filled: min(max(filled, 0), size)}, out)
}

func (r *Relay) start(m *message, out *Effects) (*Started, error) {
	size := m.size
	switch {
	case !r.isRoot():
		return nil, ErrNotRoot
	case r.failure != nil:
		return nil, r.failure
	case r.leaving || r.finished:
		return nil, ErrLeaving
	case size < 0 || size > r.cfg.MaxMessage:
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, size, r.cfg.MaxMessage)
	}
	s := &Started{Number: r.root.count, message: m}
	m.started = s
	r.root.count++
	r.root.waiting = append(r.root.waiting, m)
	r.settle(out)
	return s, nil
}

// Fill says that the bytes [0, n) of a message are there.
func (r *Relay) Fill(s *Started, n int64, out *Effects) {
	if m := s.message; m != nil {
		m.filled = min(max(m.filled, n), m.size)
		r.tellFilled(m, out)
		r.settle(out)
	}
}

// Abort gives a message up at every member, once. Of one that is everywhere every member is told
// before it hears of any later message.
func (r *Relay) Abort(s *Started, reason error, out *Effects) {
	m := s.message
	switch {
	case r.failure != nil || r.finished:
	case m != nil && m.aborted == nil:
		m.aborted = reason
		r.abort(m, out)
		r.settle(out)
	case s.undo.Kind == Abort && !s.withdrawn:
		s.withdrawn, s.undo.Text = true, reason.Error()
		if !(mutant.Enabled && mutant.On(mutant.TakenBack)) {
			r.broadcast(s.undo, out)
		}
	}
}

func (r *Relay) abort(m *message, out *Effects) {
	switch {
	case m.known && mutant.Enabled && mutant.On(mutant.AbortUnsaid):
	case m.known:
		r.broadcast(m.abort(), out)
	default:
		r.root.waiting = slices.DeleteFunc(r.root.waiting, func(o *message) bool { return o == m })
		m.started.message = nil
		m.tell(out)
		m.tellAll(m.aborted, out)
	}
}

// announce tells all nodes of the messages that may be under way.
func (r *Relay) announce(out *Effects) {
	for len(r.root.waiting) > 0 && r.room(r.root.waiting[0].size) && r.decide(r.root.waiting[0]) {
		m := r.root.waiting[0]
		r.root.waiting = slices.Delete(r.root.waiting, 0, 1)
		if m.shared != nil {
			r.offer(m, out)
			continue
		}
		a, blockBytes := r.choose(m.size)
		m.index, m.known, m.ready = r.next, true, make([]bool, len(r.cfg.Nodes))
		m.shape(m.size, blockBytes)
		r.msgs[r.next%Window] = m
		r.next++
		r.root.bytes += m.size
		if err := m.plan(&r.cfg, a); err != nil {
			r.violation(r.cfg.Self, err, out)
			return
		}
		r.broadcast(m.announcement(), out)
	}
}

// room reports whether another message may be announced.
func (r *Relay) room(size int64) bool {
	count := r.next - r.base
	return count < 2 || count < Window && r.root.bytes+size <= AheadBytes
}

// choose is how a message travels.
func (r *Relay) choose(size int64) (schedule.Algorithm, int) {
	a, blockBytes := schedule.Choose(len(r.cfg.Nodes), size, r.cfg.Racks)
	if r.cfg.Algorithm != schedule.Auto {
		a = r.cfg.Algorithm
		blockBytes = schedule.BlockBytes(a, len(r.cfg.Nodes), size)
	}
	if r.cfg.BlockBytes > 0 {
		blockBytes = r.cfg.BlockBytes
	}
	return a, min(max(blockBytes, int((size+MaxBlocks-1)/MaxBlocks), 1), MaxBlockBytes)
}

func (m *message) announcement() Control {
	if m.shared != nil {
		return m.offering()
	}
	return Control{Kind: Announce, Code: uint8(m.algorithm), Index: m.index, Tag: m.tag, Size: uint64(m.size), Word: uint32(m.blockBytes)}
}

func (m *message) abort() Control {
	return Control{Kind: Abort, Index: m.index, Tag: m.tag, Size: uint64(m.size), Text: m.aborted.Error()}
}

// ack notes how many messages are over at a node.
func (r *Relay) ack(place int, c *Control) error {
	count, before := c.Index, r.root.acked[place]
	if count < before || count > r.next || c.Code > ackInView || c.Code == ackInView && count == before {
		return fmt.Errorf("acked %d messages of %d, after %d", count, r.next, before)
	}
	r.root.acked[place] = count
	if c.Code == ackInView {
		return r.viewedBy(place, count-1)
	}
	return nil
}

// answer notes that a node knows of the end.
func (r *Relay) answer(place int) error {
	if !r.root.closed {
		return errors.New("answered a close that was not sent")
	}
	r.root.answered[place] = true
	return nil
}

// conclude tells the application of messages whose memory is free, and of messages that are
// everywhere.
func (r *Relay) conclude(out *Effects) {
	for i := r.base; i < r.next; i++ {
		if m := r.at(i); !m.told && r.free(m) {
			m.tell(out)
		}
	}
	for ; r.base < r.next && r.everywhere(r.base) && r.at(r.base).leftOver(); r.base++ {
		m := r.at(r.base)
		m.tellAll(m.aborted, out)
		if !m.told {
			r.root.viewed = append(r.root.viewed, m)
		}
		r.root.bytes -= m.size
		m.started.message = nil
		r.forget(m)
	}
	r.concludeViewed(out)
	r.announce(out) // what was over made room
}

// free reports whether a message's memory may be used again.
func (r *Relay) free(m *message) bool {
	if m.shared != nil {
		return r.unseen(m)
	}
	return m.leftOver()
}

// leftOver reports whether this node has nothing to do any more for a message.
func (m *message) leftOver() bool {
	return m.allSent() && (m.aborted != nil || m.filled == m.size)
}

// tell tells that a message's memory is free.
func (m *message) tell(out *Effects) {
	m.told = true
	out.call(Call{Kind: Sent, Number: m.started.Number, Err: m.aborted})
}

func (m *message) tellAll(err error, out *Effects) {
	if !m.toldAll {
		m.toldAll = true
		if err == nil {
			m.started.undo = Control{Kind: Abort, Index: m.index, Tag: m.tag, Size: uint64(m.size)}
		}
		out.call(Call{Kind: Everywhere, Number: m.started.Number, Err: err})
	}
}

// everywhere reports whether a message is over at all receivers.
func (r *Relay) everywhere(index uint64) bool {
	if mutant.Enabled && mutant.On(mutant.FirstAck) {
		return len(r.cfg.Nodes) == 1 || slices.ContainsFunc(r.root.acked, func(count uint64) bool { return count > index })
	}
	for place := 1; place < len(r.cfg.Nodes); place++ {
		if r.root.acked[place] <= index {
			return false
		}
	}
	return true
}

// forget drops a message that is over. What is needed of it later is whether it was aborted: blocks
// may still be on their way.
func (r *Relay) forget(m *message) {
	r.msgs[m.index%Window] = nil
	r.given[m.index%uint64(len(r.given))] = m.aborted != nil
}

// finish ends the group: it tells all nodes, and the group is over once all nodes have answered.
func (r *Relay) finish(out *Effects) {
	if !r.leaving || len(r.root.waiting) > 0 || r.base < r.next {
		return
	}
	if !r.root.closed && !slices.Contains(r.attached, false) {
		r.root.closed = true
		r.broadcast(Control{Kind: Closed, Index: r.base}, out)
	}
	if r.finished = r.root.closed && !slices.Contains(r.root.answered, false); r.finished {
		r.dropViewed(ErrInView, out)
	}
}

// giveUp tells of the messages that will not be everywhere.
func (t *root) giveUp(r *Relay, out *Effects) {
	for i := r.base; r.isRoot() && i < r.next; i++ {
		t.drop(r.at(i), r.failure, out)
	}
	for _, m := range t.waiting {
		t.drop(m, r.failure, out)
	}
	t.waiting = nil
	r.dropViewed(r.failure, out)
}

func (t *root) drop(m *message, f *Failure, out *Effects) {
	if !m.told {
		m.told = true
		out.call(Call{Kind: Sent, Number: m.started.Number, Err: f, Seen: m.shared != nil && m.known})
	}
	m.tellAll(f, out)
}
