package relay

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Bounds of what is under way in one group.
const (
	// Window is how many messages may be announced and not over everywhere.
	Window = 16
	// AheadBytes is how many bytes of messages are announced ahead. Two messages always are, so
	// that one follows the other without a gap.
	AheadBytes = 64 << 20
	// MaxBlocks is how many blocks a message may have; larger messages get larger blocks.
	MaxBlocks = 1 << 16
	// MaxMessageBytes is the size of the largest message there can be.
	MaxMessageBytes = MaxBlocks * MaxBlockBytes
)

// Config describes a group. Nodes are known by their place: 0 is the root, the others come in an
// order that all members know.
type Config struct {
	Nodes      []order.NodeID
	Self       int
	Algorithm  schedule.Algorithm
	BlockBytes int
	Racks      []string // by place; nil: nothing is known
	MaxMessage int64
	InPlace    bool // what lies in shared memory is not copied: the application looks at it where it is
}

// Relay is one node's part in one group. It is driven by one goroutine at a time.
type Relay struct {
	cfg Config

	base      uint64           // messages [0, base) are over: here, and at the root everywhere
	next      uint64           // messages [0, next) are known. Invariant: base <= next <= base + Window
	msgs      [Window]*message // of [base, base + Window), by index modulo Window; nil: never heard of
	sending   uint64           // messages [0, sending) have no block left to send here. Invariant: sending <= next
	given     [8 * Window]bool // by index modulo its length: which of the messages before base were aborted
	withdrawn uint64           // a receiver's: messages before base that were aborted when they were over. Invariant: withdrawn <= base
	attached  []bool           // by place
	channels  []uint32         // by place: what frames carry there
	sees      []bool           // by place, see Sees
	looked    map[uint64]bool  // a receiver's: messages that the application looks at, and whether the root knows that
	piece     int64            // bytes that are fetched at a time
	touched   int              // blocks that are being read or sent
	failure   *Failure
	told      bool // of the failure
	leaving   bool // Close was called
	finished  bool // all messages are everywhere

	root root
}

// New makes a relay of a group to which no other node is attached yet.
func New(c Config) *Relay {
	r := &Relay{
		cfg: c, attached: make([]bool, len(c.Nodes)), channels: make([]uint32, len(c.Nodes)), sees: make([]bool, len(c.Nodes)),
		looked: map[uint64]bool{}, piece: PieceBytes,
	}
	r.attached[c.Self] = true
	r.root.acked = make([]uint64, len(c.Nodes))
	r.root.answered = make([]bool, len(c.Nodes))
	r.root.answered[c.Self] = true
	return r
}

// Failure is why the group failed, or nil.
func (r *Relay) Failure() *Failure { return r.failure }

// Finished reports whether every message is everywhere, and there will be no more: Close has
// succeeded, or will.
func (r *Relay) Finished() bool { return r.finished }

// LastWord is what a node has to hear before this one leaves: how the group ended. It is false
// before that.
func (r *Relay) LastWord() (c Control, ok bool) {
	switch {
	case r.failure != nil:
		return r.failure.Frame(), true
	case r.finished:
		return Control{Kind: Closed, Index: r.base}, true
	}
	return c, false
}

// Over reports whether nothing will happen any more, nor touch any memory.
func (r *Relay) Over() bool { return r.finished || r.told }

// Busy reports whether this node waits for others.
func (r *Relay) Busy() bool {
	return r.failure == nil && !r.finished && (r.next > r.base || r.touched > 0 || r.leaving)
}

// IsAttached reports whether the node at a place is attached.
func (r *Relay) IsAttached(place int) bool { return r.attached[place] }

// Attached takes the news that the node at a place has opened the group, too, and has another
// configuration of it if it differs. Frames can go there from now on, over a channel.
func (r *Relay) Attached(place int, channel uint32, differs bool, out *Effects) {
	r.attached[place], r.channels[place] = true, channel
	r.greet(place, out)
	if differs {
		r.violation(place, errDiffers, out)
	}
}

var errDiffers = errors.New("has other members, another root or other racks in the group")

// greet says what a node that has attached does not know yet.
func (r *Relay) greet(place int, out *Effects) {
	if c, ok := r.LastWord(); ok {
		r.frame(place, c, out)
		return
	}
	for i := r.base; i < r.next; i++ {
		m := r.at(i)
		if r.isRoot() && !(mutant.Enabled && mutant.On(mutant.OnlyOnce)) {
			r.frame(place, m.announcement(), out)
			if m.aborted != nil {
				r.frame(place, m.abort(), out)
			}
		}
		r.sayReady(m, out)
	}
	r.settle(out)
}

// Left takes the news that the node at a place will not say anything any more.
func (r *Relay) Left(place int, out *Effects) {
	r.lost(place, Discarded, "left without a word", out)
}

// Gone takes the news that a node cannot be reached any more.
func (r *Relay) Gone(place int, out *Effects) { r.lost(place, Gone, "is gone", out) }

// Silent takes the news that a node, which is attached or may be, has said nothing for too long.
func (r *Relay) Silent(place int, out *Effects) {
	r.lost(place, Silent, "has been silent for too long", out)
}

func (r *Relay) lost(place int, code Code, text string, out *Effects) {
	r.attached[place] = false
	if r.isRoot() && r.root.answered[place] {
		return
	}
	r.Fail(&Failure{r.cfg.Nodes[place], code, text}, out)
}

// Discard fails the group because this node does not want it any more.
func (r *Relay) Discard(out *Effects) {
	r.Fail(&Failure{r.cfg.Nodes[r.cfg.Self], Discarded, "discarded the group"}, out)
}

// Fail fails the group at every member. The first reason stays (R4).
func (r *Relay) Fail(f *Failure, out *Effects) {
	if r.failure != nil || r.finished {
		return
	}
	f.Text = clean(f.Text)
	r.failure = f
	r.broadcast(f.Frame(), out)
	r.settle(out)
}

// Close says that this node wants to leave once all is done. At the root it ends the group.
func (r *Relay) Close(out *Effects) {
	r.leaving = true
	r.settle(out)
}

// Step takes a control frame from the node at a place, and reports whether that is attached; if
// not, it takes nothing.
func (r *Relay) Step(place int, c *Control, out *Effects) (attached bool) {
	if !r.attached[place] || r.Over() || r.failure != nil {
		return r.attached[place]
	}
	if err := r.step(place, c, out); err != nil {
		r.violation(place, err, out)
		return true
	}
	r.settle(out)
	return true
}

func (r *Relay) violation(place int, err error, out *Effects) {
	r.Fail(&Failure{r.cfg.Nodes[place], Violation, err.Error()}, out)
}

func (r *Relay) step(place int, c *Control, out *Effects) error {
	fromRoot, toRoot := place == 0, r.isRoot()
	switch {
	case c.Kind == Fail:
		r.Fail(r.cfg.failure(place, c), out)
		return nil
	case c.Kind == Ready:
		return r.peerReady(place, c.Index)
	case c.Kind == Ack && toRoot:
		return r.ack(place, c)
	case c.Kind == Released && toRoot:
		return r.released(place, c.Index)
	case c.Kind == Closed && toRoot:
		return r.answer(place)
	case c.Kind == Announce && fromRoot:
		return r.announced(c, out)
	case c.Kind == Offer && fromRoot:
		return r.offered(c, out)
	case c.Kind == Filled && fromRoot:
		return r.moreFilled(c)
	case c.Kind == Abort && fromRoot:
		return r.aborted(c, out)
	case c.Kind == Closed:
		return r.closed(c, out)
	}
	return fmt.Errorf("%v is not for it to say to this node", c.Kind)
}

// failure is what another node tells of. A code or node that makes no sense is its own fault.
func (c *Config) failure(place int, f *Control) *Failure {
	for _, id := range c.Nodes {
		if id == order.NodeID(f.Tag) && f.Code > 0 && int(f.Code) < len(codeNames) {
			return &Failure{id, Code(f.Code), f.Text}
		}
	}
	return &Failure{c.Nodes[place], Violation, "told of a failure that makes no sense"}
}

// Frame tells another node of the failure.
func (f *Failure) Frame() Control {
	return Control{Kind: Fail, Code: uint8(f.Code), Tag: uint64(f.Node), Text: f.Text}
}

// broadcast sends a frame to every attached node.
func (r *Relay) broadcast(c Control, out *Effects) {
	for place := range r.attached {
		if place != r.cfg.Self {
			r.frame(place, c, out)
		}
	}
}

// frame sends a frame to a node, if it is attached.
func (r *Relay) frame(place int, c Control, out *Effects) {
	if r.attached[place] {
		c.Channel = r.channels[place]
		out.Frames = append(out.Frames, Outbound{place, c})
	}
}

func (r *Relay) isRoot() bool { return r.cfg.Self == 0 }

// at is a message within the window. It may be nil.
func (r *Relay) at(index uint64) *message { return r.msgs[index%Window] }

// peerReady notes that a node has room for a message; maybe before its announcement came here.
func (r *Relay) peerReady(place int, index uint64) error {
	if index < r.base && r.wasAborted(index) {
		return nil
	}
	if index < r.base || index >= r.base+Window || r.isRoot() && index >= r.next {
		return fmt.Errorf("ready for message %d, which is not one of [%d, %d)", index, r.base, r.base+Window)
	}
	m := r.hear(index)
	m.ready[place] = true
	return nil
}

// hear is a message within the window, which may have been unknown.
func (r *Relay) hear(index uint64) *message {
	m := r.at(index)
	if m == nil {
		m = &message{index: index, ready: make([]bool, len(r.cfg.Nodes))}
		r.msgs[index%Window] = m
	}
	return m
}

// wasAborted reports whether a message that is over was aborted, or is too long over to know.
func (r *Relay) wasAborted(index uint64) bool {
	return index+uint64(len(r.given)) < r.base || r.given[index%uint64(len(r.given))]
}

// Send is a block that has to leave.
type Send struct {
	To     int
	Header Header // all but the sum if NeedSum
	Number uint64 // the root's: of Start. Others go by Header.Message
	Offset int64
	// NeedSum asks for the checksum: the driver puts it into the header, before BlockSent.
	NeedSum bool
}

// Next is the block that has to leave now, if there is one. Until BlockSent there is no other (R2).
func (r *Relay) Next() (Send, bool) {
	for r.sending = max(r.sending, r.base); r.sending < r.next && r.failure == nil; r.sending++ {
		if m := r.at(r.sending); !m.allSent() {
			return r.begin(m)
		}
	}
	return Send{}, false
}

// begin takes the message's next block, if it is here and the target has room for it.
func (r *Relay) begin(m *message) (s Send, ok bool) {
	if m.sending {
		return s, false
	}
	move := m.sends[m.count]
	to, block := int(move.To), int(move.Block)
	if !m.has(block) || !m.ready[to] || !r.attached[to] {
		return s, false
	}
	m.sending = true
	r.touched++
	m.count++
	offset, length := m.span(block)
	s = Send{To: to, Offset: offset, Header: Header{
		Channel: r.channels[to], Message: m.index, Block: uint32(block), Length: uint32(length), Sum: m.sums[block],
	}}
	if m.started != nil {
		s.Number = m.started.Number
	}
	s.NeedSum = r.isRoot() && !m.summed[block]
	return s, true
}

// Wanted reports whether the block of Next still has to leave when its turn on the connection
// comes. A block of a message that was aborted, or of a group that failed, is left out: no receiver
// takes it, and the blocks behind it wait for the connection.
func (r *Relay) Wanted(s *Send) bool {
	return r.failure == nil && r.at(s.Header.Message).aborted == nil
}

// BlockSent takes the news that the block of Next was taken by the connection, that it was not
// wanted any more, or that the connection broke.
func (r *Relay) BlockSent(s *Send, out *Effects) {
	m := r.at(s.Header.Message)
	m.sending = false
	r.touched--
	if s.NeedSum {
		m.sums[s.Header.Block], m.summed[s.Header.Block] = s.Header.Sum, true
	}
	r.settle(out)
}

// settle does what the last input made possible.
func (r *Relay) settle(out *Effects) {
	switch {
	case r.finished:
	case r.failure != nil:
		r.giveUp(out)
	case r.isRoot():
		r.announce(out)
		r.conclude(out)
		r.finish(out)
	default:
		r.pass(out)
	}
	if invariants.Enabled {
		r.invariants()
	}
}

// giveUp tells the application of the failure, once nothing touches its memory any more.
func (r *Relay) giveUp(out *Effects) {
	if r.told || r.touched > 0 || r.asking() {
		return
	}
	r.told = true
	r.root.giveUp(r, out)
	out.call(Call{Kind: Failed, Err: r.failure})
}

// asking reports whether the application is being asked for room.
func (r *Relay) asking() bool {
	for _, m := range r.msgs {
		if m != nil && m.asked && !m.room {
			return true
		}
	}
	return false
}
