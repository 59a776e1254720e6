package relay

import (
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/rdmc/schedule"
)

// announced takes a message that the root will send. Its bounds are judged before anything is
// allocated for it.
func (r *Relay) announced(c *Control, out *Effects) error {
	blockBytes := uint64(c.Word)
	switch {
	case c.Size > math.MaxInt64 || blockBytes == 0 || blockBytes > MaxBlockBytes || (c.Size+blockBytes-1)/blockBytes > MaxBlocks:
		return fmt.Errorf("announced message %d of %d bytes in blocks of %d", c.Index, c.Size, blockBytes)
	case schedule.Algorithm(c.Code) == schedule.Auto:
		return fmt.Errorf("announced message %d without an algorithm", c.Index)
	}
	if more, err := r.isNext(c, out); !more {
		return err
	}
	m := r.hear(c.Index)
	m.tag, m.known = c.Tag, true
	m.shape(int64(c.Size), int(blockBytes))
	if err := m.plan(&r.cfg, schedule.Algorithm(c.Code)); err != nil {
		return fmt.Errorf("announced message %d: %w", c.Index, err)
	}
	r.next++
	m.asked = true
	out.call(Call{Kind: MakeRoom, Index: m.index, Tag: m.tag, Size: m.size})
	return nil
}

// isNext judges what all announcements have in common; false: there is no such message, or the
// group failed.
func (r *Relay) isNext(c *Control, out *Effects) (bool, error) {
	switch {
	case c.Index != r.next:
		return false, fmt.Errorf("announced message %d instead of %d", c.Index, r.next)
	case c.Index >= r.base+Window:
		return false, fmt.Errorf("announced message %d while %d are in flight", c.Index, r.next-r.base)
	case int64(c.Size) > r.cfg.MaxMessage:
		r.noRoom(fmt.Sprintf("message %d of %d bytes is larger than %d", c.Index, c.Size, r.cfg.MaxMessage), out)
		return false, nil
	}
	return true, nil
}

func (r *Relay) noRoom(text string, out *Effects) {
	r.Fail(&Failure{r.cfg.Nodes[r.cfg.Self], NoRoom, text}, out)
}

// Room answers MakeRoom: there is memory for a message, or why there is none.
func (r *Relay) Room(index uint64, err error, out *Effects) {
	m := r.at(index)
	m.room = true
	switch {
	case m.aborted != nil || r.failure != nil:
	case err != nil:
		r.noRoom(fmt.Sprintf("no space for message %d: %v", index, err), out)
	default:
		r.sayReady(m, out)
	}
	if mutant.Enabled && mutant.On(mutant.EarlyAck) {
		r.frame(0, Control{Kind: Ack, Index: index + 1}, out)
	}
	r.settle(out)
}

// sayReady tells the nodes that send blocks of a message to this node that there is room for all of
// the blocks.
func (r *Relay) sayReady(m *message, out *Effects) {
	if m == nil || !m.room || m.aborted != nil || r.failure != nil {
		return
	}
	for i := range m.from {
		if s := &m.from[i]; !s.told && r.attached[s.place] {
			s.told = true
			r.frame(s.place, Control{Kind: Ready, Index: m.index}, out)
		}
	}
}

// aborted handles the root's frame that gives a message up. The application may have been told
// already that the message is complete here: other nodes may not have it.
func (r *Relay) aborted(c *Control, out *Effects) error {
	err := fmt.Errorf("%w: %s", ErrAborted, c.Text)
	switch {
	case c.Index >= r.next:
		return fmt.Errorf("aborted message %d of %d", c.Index, r.next)
	case c.Index < r.base:
		return r.withdraw(c, err, out)
	case r.at(c.Index).aborted == nil:
		r.at(c.Index).aborted = err
	}
	return nil
}

// withdraw takes the news that the root gave up a message that is over here, however many came
// since: the root's application may have had to wait long for what it does with it. No more are
// given up than there were; that bounds what the root can say.
func (r *Relay) withdraw(c *Control, reason error, out *Effects) error {
	note, known := &r.given[c.Index%uint64(len(r.given))], c.Index+uint64(len(r.given)) >= r.base
	if known && *note || r.withdrawn == r.base {
		return fmt.Errorf("aborted message %d once more", c.Index)
	}
	if r.withdrawn++; known {
		*note = true
	}
	out.call(Call{Kind: Withdrawn, Index: c.Index, Tag: c.Tag, Size: int64(c.Size), Err: reason})
	return nil
}

// closed handles the end of the group, which the root or another node reports. Every node passes it
// on once: a node that has learned of the end may be gone before the root's own frame arrives here,
// and that must not look like a failure.
func (r *Relay) closed(c *Control, out *Effects) error {
	if c.Index != r.base || r.base != r.next {
		return fmt.Errorf("says that %d messages are everywhere; here are %d of %d", c.Index, r.base, r.next)
	}
	r.finished = true
	r.broadcast(Control{Kind: Closed, Index: r.base}, out)
	return nil
}

// Verdict says what to do with the bytes of a block.
type Verdict uint8

// What to do with the bytes of a block.
const (
	Take Verdict = iota + 1 // read them to the offset of the message, then call Arrived
	Drop                    // read them and forget them
)

// Expect judges the header of a block that comes from the node at a place, before any of it is
// read. A block that is not the next one of that node by the schedule fails the group (R3).
func (r *Relay) Expect(place int, h *Header, out *Effects) (offset int64, v Verdict) {
	if r.failure != nil || r.finished {
		return 0, Drop
	}
	m, err := r.find(h)
	if err != nil {
		r.violation(place, err, out)
		return 0, Drop
	}
	if m == nil || m.aborted != nil {
		return 0, Drop
	}
	s, err := m.next(place, h)
	if err != nil {
		r.violation(place, err, out)
		return 0, Drop
	}
	s.count++
	m.reading++
	r.touched++
	m.sums[h.Block] = h.Sum
	if mutant.Enabled && mutant.On(mutant.EarlyBlock) {
		m.have[h.Block], m.left = true, m.left-1
	}
	offset, _ = m.span(int(h.Block))
	return offset, Take
}

// Sources is how many nodes send blocks of a message under way to this one.
func (r *Relay) Sources(index uint64) int { return len(r.at(index).from) }

// find is the message of a block; nil if it was aborted.
func (r *Relay) find(h *Header) (*message, error) {
	switch {
	case h.Message < r.base && r.wasAborted(h.Message):
		return nil, nil
	case h.Message < r.base || h.Message >= r.next || r.isRoot():
		return nil, fmt.Errorf("block %d of message %d: it is not one of [%d, %d)", h.Block, h.Message, r.base, r.next)
	}
	return r.at(h.Message), nil
}

// Arrival is how the reading of a block ended.
type Arrival uint8

// How the reading of a block ended.
const (
	Whole   Arrival = iota + 1 // it is here
	Damaged                    // its checksum is wrong
	Cut                        // its connection broke
)

// Arrived takes the end of a block that Expect said to take.
func (r *Relay) Arrived(place int, h *Header, a Arrival, out *Effects) {
	m := r.at(h.Message)
	m.reading--
	r.touched--
	switch {
	case r.failure != nil || a == Cut:
	case a == Damaged && m.aborted == nil:
		r.Fail(&Failure{r.cfg.Nodes[place], Corrupt, fmt.Sprintf("block %d of message %d: wrong checksum", h.Block, h.Message)}, out)
	case !m.have[h.Block]:
		m.have[h.Block] = true
		m.left--
	}
	r.settle(out)
}

// pass goes over the messages that are over here, in their order (R1).
func (r *Relay) pass(out *Effects) {
	for ; r.base < r.next && r.at(r.base).over(r.cfg.InPlace); r.base++ {
		m := r.at(r.base)
		c := Call{Kind: Completed, Index: m.index, Tag: m.tag, Size: m.size}
		if m.aborted != nil {
			c.Kind, c.Err = Aborted, m.aborted
		}
		if c.InView = m.shared != nil && r.cfg.InPlace && m.aborted == nil; c.InView {
			r.looked[m.index] = false
		}
		out.call(c)
		r.forget(m)
	}
}

// Heard says that the application was told of a message that is over, and has returned: now the
// root may know, and whether the application still looks at the message. What counts as being
// everywhere is with every application.
func (r *Relay) Heard(index uint64, out *Effects) {
	code := uint8(0)
	if _, looks := r.looked[index]; looks && !(mutant.Enabled && mutant.On(mutant.ViewUnsaid)) {
		r.looked[index], code = true, ackInView
	}
	if r.failure == nil && !r.finished {
		r.frame(0, Control{Kind: Ack, Index: index + 1, Code: code}, out)
	}
}
