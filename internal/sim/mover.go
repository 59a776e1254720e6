package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// mover is one process's end of what moves large bodies in a subgroup of a view. It stands for package rdmc, whose own tests show that
// a body arrives whole or not at all, and is acknowledged only then; here it arrives at each member after a time of its own.
type mover struct {
	proc  *process
	view  *views.View
	sg    views.Subgroup
	index int
	here  []stored
	all   []stored // here, and those that were taken
	ended bool
}

// has reports whether a body came here.
func (m *mover) has(sender order.SenderRank, data []byte) bool {
	return slices.ContainsFunc(m.all, func(s stored) bool { return s.sender == sender && bytes.Equal(s.body.Data, data) })
}

// stored is a body that is here.
type stored struct {
	sender order.SenderRank
	id     uint64
	body   *multicast.Body
}

// transfers is the member's Transfers.
func (p *process) transfers(v *views.View, index int) member.Transfers {
	if p.world.plan.Decls[p.world.declaration(v.Subgroups[index])].MaxMessageBytes == 0 {
		return nil
	}
	m := &mover{proc: p, view: v, sg: v.Subgroups[index], index: index}
	p.movers = append(p.movers, m)
	return m
}

// limits is the member's Limits.
func (p *process) limits(name string) member.Limits {
	i := slices.IndexFunc(p.world.plan.Decls, func(d views.Declaration) bool { return d.Name == name })
	d := p.world.plan.Decls[i]
	return member.Limits{MaxMessage: d.MaxMessageBytes, LargeMemory: d.LargeMemoryBytes}
}

// mover is the process's end in a view, or nil if it did not open that.
func (p *process) mover(v *views.View, index int) *mover {
	for _, m := range p.movers {
		if m.view.ID == v.ID && m.view.Key() == v.Key() && m.index == index {
			return m
		}
	}
	return nil
}

func (m *mover) store(sender order.SenderRank, id uint64, b *multicast.Body) {
	bytes := len(b.Data)
	for _, s := range m.here {
		if s.sender == sender {
			bytes += len(s.body.Data)
		}
	}
	if w := m.proc.world; bytes > w.plan.Decls[w.declaration(m.sg)].LargeMemoryBytes {
		w.fail(violated("B6", "node %d: %d bytes of large messages of sender %d", m.proc.self.ID, bytes, sender))
	}
	m.here, m.all = append(m.here, stored{sender, id, b}), append(m.all, stored{sender, id, b})
}

// body makes one that the world counts.
func (w *world) body(data []byte) *multicast.Body {
	w.bodies++
	return multicast.NewBody(slices.Clone(data), "", func() { w.bodies-- })
}

// Take implements member.Transfers.
func (m *mover) Take(sender order.SenderRank, id uint64) *multicast.Body {
	i := slices.IndexFunc(m.here, func(s stored) bool { return s.sender == sender && s.id == id })
	if i < 0 {
		return nil
	}
	b := m.here[i].body
	m.here = slices.Delete(m.here, i, i+1)
	return b
}

// End implements member.Transfers.
func (m *mover) End() { m.ended = true }

// Close implements member.Transfers.
func (m *mover) Close() {
	m.ended = true
	for _, s := range m.here {
		s.body.Release()
	}
	m.here = nil
}

// Send implements member.Transfers.
func (m *mover) Send(id uint64, body *multicast.Body, filled int, done func(error)) member.Transfer {
	self, _ := m.view.RankOf(m.proc.self.ID)
	sender, _ := m.sg.SenderRank(self)
	m.store(sender, id, m.proc.world.body(body.Data[:0])) // its own is put there when it is filled
	s := &shipment{from: m, sender: sender, id: id, body: body, done: done}
	m.proc.world.sometimes(LargeMovedAgain, filled > 0)
	s.Fill(filled)
	return s
}

// shipment is a body on its way to every member. It implements member.Transfer.
type shipment struct {
	from   *mover
	sender order.SenderRank
	id     uint64
	body   *multicast.Body
	done   func(error)
	sailed bool
	over   bool
	awaits int
}

// Fill implements member.Transfer.
func (s *shipment) Fill(n int) {
	if n < len(s.body.Data) || s.sailed || s.over {
		return
	}
	s.sailed = true
	w, m := s.from.proc.world, s.from
	if b := m.Take(s.sender, s.id); b != nil {
		b.Release()
	}
	m.store(s.sender, s.id, w.body(s.body.Data))
	var others []*process
	for _, r := range m.sg.Members {
		if p := w.processOf(m.view.Members[r]); p != m.proc {
			others = append(others, p)
		}
	}
	s.awaits = len(others)
	if s.awaits == 0 {
		s.done(nil)
		return
	}
	for _, p := range others {
		c := &parcel{shipment: s, to: p}
		if w.bulk.oneIn(2) {
			c.by = others[w.bulk.IntN(len(others))]
		}
		w.schedule.add(w.now+w.bulkTime(m.proc, p), c)
	}
}

// Abort implements member.Transfer. Whoever has it gives it back; of what is on its way the sender hears later.
func (s *shipment) Abort(reason error) {
	w, m := s.from.proc.world, s.from
	for _, r := range m.sg.Members {
		if end := w.processOf(m.view.Members[r]).mover(m.view, m.index); end != nil {
			if b := end.Take(s.sender, s.id); b != nil {
				b.Release()
			}
		}
	}
	if s.over = true; s.sailed && s.awaits == 0 {
		return // it was everywhere
	}
	w.schedule.add(w.now+w.bulkTime(m.proc, m.proc), &returned{s, reason})
}

// returned is the news that nobody has anything of what was given up.
type returned struct {
	*shipment
	reason error
}

// act implements actor.
func (r *returned) act(time.Duration) time.Duration {
	if !r.from.ended && !r.from.proc.over {
		r.done(r.reason)
	}
	return never
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

// parcel is a body on its way to one member, perhaps by another one, and then the acknowledgement on its way back.
type parcel struct {
	*shipment
	to, by *process
	back   bool
}

// act implements actor.
func (c *parcel) act(now time.Duration) time.Duration {
	w, from := c.from.proc.world, c.from.proc
	if c.over || c.from.ended || from.over || c.to.over || c.lostWithRelay() {
		w.sometimes(LargeHalf, !c.back)
		return never
	}
	if c.cut() || now < max(from.hangs, c.to.hangs) {
		return max(from.hangs, c.to.hangs, now+w.plan.Hop())
	}
	if c.back {
		if c.awaits--; c.awaits == 0 {
			c.done(nil)
		}
		return never
	}
	end := c.to.mover(c.from.view, c.from.index)
	switch {
	case end == nil && c.to.told || end != nil && end.ended:
		return never
	case end == nil: // it comes into the view a little later
		return now + w.plan.Hop()
	}
	end.store(c.sender, c.id, w.body(c.body.Data))
	c.back = true
	return now + w.bulkTime(c.to, from)
}

// lostWithRelay reports whether who relays it is gone.
func (c *parcel) lostWithRelay() bool {
	if c.by == nil || c.by == c.to || c.back {
		return false
	}
	end := c.by.mover(c.from.view, c.from.index)
	return c.by.over || end != nil && end.ended
}

// cut reports whether the way is cut.
func (c *parcel) cut() bool {
	a, b := c.from.proc.node, c.to.node
	return a.cuts>>b.place&1 != 0 || b.cuts>>a.place&1 != 0
}
