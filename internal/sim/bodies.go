package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/courier"
	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/views"
)

// bodies is one process's end of what moves the large messages of a subgroup in a view: the Courier
// that ships, over groups of transfers that perform the relays that ship (transfers.go).
type bodies struct {
	*courier.Courier
	proc   *process
	record *viewRecord
	index  int
	groups []*transfers // by sender; none if the process is alone
	made   *memory      // the memory that was made last
	had    []had
	drop   func() // what the Courier does when its groups are over; nil: nothing, or it did
	closed bool
}

// had is a body that came here, or began to.
type had struct {
	sender order.SenderRank
	id     uint64
	size   int
	sum    uint32
	whole  bool
	counts bool // in what the sender may have under way: it comes, or is here and was not taken
}

// transfers is the member's Transfers.
func (p *process) transfers(v *views.View, index int) member.Transfers {
	d := p.world.plan.Decls[p.world.declaration(v.Subgroups[index])]
	if d.MaxMessageBytes == 0 {
		return nil
	}
	b := &bodies{proc: p, record: p.world.record(v), index: index}
	p.bodies = append(p.bodies, b)
	self, _ := v.RankOf(p.self.ID)
	var err error
	b.Courier, err = courier.New(courier.Config{
		Open: b.open, Self: self, View: v, Subgroup: index, MaxMessage: d.MaxMessageBytes, LargeMemory: d.LargeMemoryBytes,
		Room: b.room, InPlace: true, Go: b.later,
		Failed:  func(node order.NodeID, why error) { b.call(func() { p.member.Lost(node, why) }) },
		Refused: func(why error) { b.call(func() { p.member.Halt(why) }) },
	})
	if err != nil {
		p.world.fail(err)
	}
	return b
}

// call has the member do something, if the view is still in force there.
func (b *bodies) call(do func()) {
	b.proc.member.Call(func() {
		if b.proc.member.View().ID == b.record.view.ID {
			do()
		}
	})
	b.proc.wake()
}

// limits is the member's Limits.
func (p *process) limits(name string) member.Limits {
	i := slices.IndexFunc(p.world.plan.Decls, func(d views.Declaration) bool { return d.Name == name })
	d := p.world.plan.Decls[i]
	return member.Limits{MaxMessage: d.MaxMessageBytes, LargeMemory: d.LargeMemoryBytes}
}

// bodiesIn is the process's end in a view, or nil if it did not open that.
func (p *process) bodiesIn(r *viewRecord, index int) *bodies {
	for i := len(p.bodies) - 1; i >= 0; i-- {
		if b := p.bodies[i]; b.record == r && b.index == index {
			return b
		}
	}
	return nil
}

// open is the Courier's Open. It opens the groups by their senders.
func (b *bodies) open(c courier.GroupConfig) (courier.Group, error) {
	t := newTransfers(b, len(b.groups), c)
	b.groups = append(b.groups, t)
	t.begin()
	return t, nil
}

// later is the Courier's Go: it does something when all groups are over.
func (b *bodies) later(do func()) {
	b.drop = do
	b.tidy()
}

func (b *bodies) tidy() {
	if b.drop == nil || slices.ContainsFunc(b.groups, func(t *transfers) bool { return !t.over }) {
		return
	}
	do := b.drop
	b.drop = nil
	do()
}

// Take implements member.Transfers.
func (b *bodies) Take(sender order.SenderRank, id uint64) *multicast.Body {
	body := b.Courier.Take(sender, id)
	if body != nil {
		b.gone(sender, id)
	}
	return body
}

// Send implements member.Transfers.
func (b *bodies) Send(id uint64, body *multicast.Body, filled int, done func(error)) member.Transfer {
	b.proc.world.sometimes(LargeMovedAgain, filled > 0)
	return b.Courier.Send(id, body, filled, done)
}

// Close implements member.Transfers.
func (b *bodies) Close() {
	b.Courier.Close()
	b.closed = true
}

// find is what is known of a body that came here.
func (b *bodies) find(sender order.SenderRank, id uint64) *had {
	for i := range b.had {
		if h := &b.had[i]; h.sender == sender && h.id == id {
			return h
		}
	}
	return nil
}

func (b *bodies) gone(sender order.SenderRank, id uint64) {
	if h := b.find(sender, id); h != nil {
		h.counts = false
	}
}

// comes notes a body for which there is room here, or that is in view, and checks that its sender
// has not more under way than it may (B6).
func (b *bodies) comes(sender order.SenderRank, in rdmc.Incoming) {
	b.had = append(b.had, had{sender: sender, id: in.Tag, size: int(in.Size), counts: true})
	bytes := 0
	for _, h := range b.had {
		if h.sender == sender && h.counts {
			bytes += h.size
		}
	}
	w := b.proc.world
	if limit := w.plan.Decls[w.declaration(b.record.view.Subgroups[b.index])].LargeMemoryBytes; bytes > limit {
		w.judge("release", violated("B6", "node %d: %d bytes of large messages of sender %d", b.proc.self.ID, bytes, sender))
	}
}

// isWhole notes that a body is here.
func (b *bodies) isWhole(sender order.SenderRank, id uint64, data []byte) {
	h := b.find(sender, id)
	h.whole, h.sum = true, checksum(data)
}

// has reports whether a body came here whole.
func (b *bodies) has(sender order.SenderRank, size int, sum uint32) bool {
	return slices.ContainsFunc(b.had, func(h had) bool { return h.whole && h.sender == sender && h.size == size && h.sum == sum })
}

func checksum(data []byte) uint32 { return crc.Of(data) }

// memory is that of a body. At its sender others may look at it where it is.
type memory struct {
	proc   *process
	number uint64
	data   []byte
	used   bool // its user has not released it
	holds  int  // messages under way that lie in it
	seen   bool // a member may look at it for ever
}

// spoiled is what is in memory that was given back, or is not filled.
const spoiled = 0xee

func (p *process) newMemory(size int) *memory {
	p.world.memories++
	p.world.numbers++
	return &memory{proc: p, number: p.world.numbers, data: make([]byte, size), used: true}
}

// roomToSend is the member's Room.
func (p *process) roomToSend(size int) (*multicast.Body, error) {
	m := p.newMemory(size)
	for i := range m.data {
		m.data[i] = spoiled
	}
	p.memories = append(p.memories, m)
	return multicast.NewBody(m.data, "", m.release), nil
}

// room is the Courier's Room.
func (b *bodies) room(_ string, size int64) (*multicast.Body, error) {
	b.made = b.proc.newMemory(int(size))
	return multicast.NewBody(b.made.data, "", b.made.release), nil
}

func (m *memory) release() {
	m.used = false
	m.free()
}

// unhold is the end of a message that lay in it.
func (m *memory) unhold(seen bool) {
	m.holds--
	m.seen = m.seen || seen
	m.free()
}

// free spoils memory that is not needed any more, so that a process that still looks at it sees
// something else.
func (m *memory) free() {
	if m.used || m.holds > 0 {
		return
	}
	p := m.proc
	p.world.memories--
	p.memories = slices.DeleteFunc(p.memories, func(o *memory) bool { return o == m })
	if !m.seen {
		for i := range m.data {
			m.data[i] = spoiled
		}
	}
}

// memoryOf is the memory that a body to be sent lies in.
func (p *process) memoryOf(data []byte) *memory {
	i := slices.IndexFunc(p.memories, func(m *memory) bool { return &m.data[0] == &data[0] })
	return p.memories[i]
}

// checkEverywhere checks that every member has all of a body, as it was sent, when the sender's
// engine reports so.
func (t *transfers) checkEverywhere(s *sending) error {
	sum := s.sum
	if s.told == 1 { // Sent is told later
		sum = checksum(s.out.Data)
	}
	for place, p := range t.procs {
		if place == 0 || p.liar {
			continue
		}
		b := p.bodiesIn(t.bodies.record, t.bodies.index)
		if b == nil {
			return violated("B5", "a body of node %d is everywhere, and node %d has not begun the view", t.procs[0].self.ID, p.self.ID)
		}
		if h := b.find(order.SenderRank(t.sender), s.out.Tag); h == nil || !h.whole || h.sum != sum {
			return violated("B5", "body %d of node %d is everywhere, and node %d has not all of it", s.out.Tag, t.procs[0].self.ID, p.self.ID)
		}
	}
	return nil
}

// checkBodies checks that no memory of large messages is held when all are delivered. Memory of a
// process that ended is not given back.
func checkBodies(w *world) error {
	if len(w.history.byID) == 1 && w.memories != 0 {
		return violated("release", "%d bodies of large messages are held", w.memories)
	}
	for _, p := range w.procs {
		if p.over || p.told {
			continue
		}
		lingers := p.awaitsShard() // a view whose messages are awaited is not over
		for _, b := range p.bodies {
			last := b.record.view.ID == w.history.last.view.ID
			if !last && !b.closed && !lingers {
				return violated("release", "node %d has not closed the transfers of view %d", p.self.ID, b.record.view.ID)
			}
			if !last && b.drop != nil {
				return violated("CO3", "node %d still waits for transfers of view %d", p.self.ID, b.record.view.ID)
			}
			for _, h := range b.had {
				if last && h.counts {
					return violated("release", "node %d has a body that was not taken, or half of it", p.self.ID)
				}
			}
		}
	}
	return nil
}

// bulkTime is how long a body takes between two processes.
func (w *world) bulkTime(from, to *process) time.Duration {
	if w.plan.BulkTime == 0 {
		return bulkDelays * w.plan.Net.Delays[from.node.place][to.node.place].Base
	}
	return w.bulk.upTo(2 * w.plan.BulkTime)
}

// bulkDelays is what a body takes where the plan does not say it.
const bulkDelays = 8

var errGone = errors.New("the process at the other end is gone")
