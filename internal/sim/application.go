package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/smc"
	"github.com/squall-go/squall/views"
)

// Application takes the place of the applications that are drawn: it is one that a program may
// have, and runs in the processes of a world whose plan has one declaration (DrawFor), of a
// subgroup or of shards. What is promised to applications is checked all the same.
type Application interface {
	// Begin is called first.
	Begin(*World)
	// Copy makes the copy of a process that begins. It is called for initial members, too.
	Copy(*Host) Copy
}

// Copy is an application's state at one process. Its methods are called between steps of the
// process, or within one.
type Copy interface {
	// Deliver applies a message of a shard. Data is valid until it returns. Replayed says that it
	// comes out of the log.
	Deliver(m *multicast.Message, shard int, data []byte, replayed bool)
	// Snapshot captures the state, and Restore replaces it; nil stands for that of an application
	// that begins.
	Snapshot() []byte
	Restore(image []byte)
	// Installed is called when a view begins, the first one too.
	Installed(*views.View)
	// Ended is called when the process ends, or halts.
	Ended()
}

// World is a run as an application sees it.
type World struct{ w *world }

// Host is a process as an application sees it.
type Host struct {
	p     *process
	copy  Copy
	queue [][]byte // to be sent
	turn  *turn
	ended bool
}

// Now is the virtual time.
func (w *World) Now() time.Duration { return w.w.now }

// Plan is what is played.
func (w *World) Plan() *Plan { return w.w.plan }

// Dice returns a source of random numbers for a purpose of the application's.
func (w *World) Dice(purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.w.plan.Seed, 1<<40+purpose))
}

// Hold keeps the run from ending until done is called.
func (w *World) Hold() (done func()) {
	w.w.busyApps++
	return func() {
		w.w.busyApps--
		w.w.stir()
	}
}

// Stir notes that the application got on.
func (w *World) Stir() { w.w.stir() }

// Fail ends the run with a violation.
func (w *World) Fail(err error) { w.w.judge("application", err) }

// Note adds to the identity of the run.
func (w *World) Note(what ...uint64) { w.w.event(applied, 0, what...) }

// Works reports whether a quorum has worked for a while without anything going wrong.
func (w *World) Works(since time.Duration) bool {
	return w.w.pending == 0 && w.w.now > w.w.calm+since && w.w.goesOn()
}

// Nodes is how many places for processes there are.
func (w *World) Nodes() int { return len(w.w.nodes) }

// Host is the process at a place, if it is a member and works.
func (w *World) Host(place int) (*Host, bool) {
	p := w.w.nodes[place].proc
	if p == nil || p.over || p.told || p.member == nil || p.host == nil {
		return nil, false
	}
	return p.host, true
}

// Place is where the process of a node is, or was.
func (w *World) Place(id order.NodeID) int {
	return slices.IndexFunc(w.w.nodes, func(n *node) bool { return n.proc != nil && n.proc.self.ID == id })
}

// After has f called after a while. It does not keep the run from ending.
func (w *World) After(d time.Duration, f func()) { w.w.callAt(w.w.now+d, f) }

// Rest is an After that the run waits for, as long as something holds it.
func (w *World) Rest(d time.Duration, f func()) {
	w.w.lastStart = max(w.w.lastStart, w.w.now+d)
	w.After(d, f)
}

// Copy is the copy of the process.
func (h *Host) Copy() Copy { return h.copy }

// Confirm calls f when the copy was given all that the copy of any member had been given when
// Confirm was called.
func (h *Host) Confirm(f func(error)) {
	h.p.member.Outbox(h.p.world.plan.Decls[0].Name).ConfirmFunc(f)
	h.p.wake()
}

// ID is the node's.
func (h *Host) ID() order.NodeID { return h.p.self.ID }

// Place is where the process is.
func (h *Host) Place() int { return h.p.node.place }

// View is the view in force there, or nil.
func (h *Host) View() *views.View {
	if h.p.member == nil {
		return nil
	}
	return h.p.member.View()
}

// Wall is the process's wall clock.
func (h *Host) Wall() order.Time { return h.p.wall() }

// Hangs is how long the process still does nothing.
func (h *Host) Hangs() time.Duration { return max(0, h.p.hangs-h.p.world.now) }

// Halt halts the process's member.
func (h *Host) Halt(reason error) { h.p.member.Call(func() { h.p.member.Halt(reason) }) }

// Send has a message sent as soon as there is room. It is lost if the process ends before that.
func (h *Host) Send(data []byte) {
	h.queue = append(h.queue, data)
	h.turn = h.p.world.schedule.wake(h.turn, h.p.world.now, h)
}

// sentBytes is what a message of an application has in front: the word by which checkers know it.
const sentBytes = 8

// act implements actor: it sends what waits.
func (h *Host) act(now time.Duration) time.Duration {
	p := h.p
	w := p.world
	switch {
	case p.over || p.told:
		h.end()
		return never
	case p.member == nil || now < p.hangs:
		return max(p.hangs, now+w.plan.Hop())
	}
	l := p.ledgers[0]
	for len(h.queue) > 0 {
		data := h.queue[0]
		o := p.member.Outbox(w.plan.Decls[0].Name)
		c, err := o.TryClaim(sentBytes + len(data))
		switch {
		case errors.Is(err, member.ErrWindowFull), errors.Is(err, member.ErrNotSender), errors.Is(err, member.ErrNotProvisioned):
			return now + w.plan.Hop()/4 + 1
		case err != nil:
			w.judge("halt", checkRefused(w, p, err))
			h.queue = nil
			return never
		}
		w.judge("halt", checkAccepted(w, p))
		h.commit(l, o, c, data, now)
	}
	return never
}

// commit sends what waits first, in a claim.
func (h *Host) commit(l *ledger, o *member.Outbox, c smc.Claim, data []byte, now time.Duration) {
	p := h.p
	w := p.world
	number, size := len(l.claims), sentBytes+len(data)
	l.claims = append(l.claims, claim{bytes: size, view: p.member.View().ID, data: data})
	copy(c.Bytes, inContent(data, l.key, number))
	l.settle(number, committed, now)
	if err := o.Commit(c); err != nil && (p.member.Err() == nil || !errors.Is(err, p.member.Err())) {
		w.fail(violated("S5", "node %d: claim %d: %v", p.self.ID, number, err))
	}
	h.queue = h.queue[1:]
	w.stir()
	w.event(claimed, p.node.place, 0, uint64(number), uint64(size))
	p.print("%s+%d %dB", w.plan.Decls[0].Name, number, size)
}

func (h *Host) end() {
	if h != nil && !h.ended {
		h.ended, h.queue = true, nil
		h.copy.Ended()
	}
}

// apply shows a message to the application, if there is one.
func (h *Host) apply(m *multicast.Message, shard int, replayed bool) {
	if h != nil {
		h.copy.Deliver(m, shard, m.Data[sentBytes:], replayed)
	}
}

func (h *Host) snapshot() []byte {
	if h == nil {
		return nil
	}
	return h.copy.Snapshot()
}

func (h *Host) restore(image []byte) {
	if h != nil {
		h.copy.Restore(image)
	}
}

// DrawFor makes the plan of a seed for an application: a subgroup of all members, or shards between
// which they move, with logs if the declaration is persistent.
func DrawFor(seed uint64, l Limits, decl views.Declaration) *Plan {
	d := newDice(seed)
	p := &Plan{Seed: seed, Limits: l, Initial: l.Nodes, Decls: []views.Declaration{decl}, States: 1}
	if p.Initial == 0 {
		p.Initial = 1 + d.IntN(5)
	}
	if decl.Shards > 1 {
		// dice of their own: what else a seed draws does not depend on them
		own := dice{rand.New(rand.NewPCG(seed, 0x5a4d))}
		p.Initial = max(p.Initial, decl.Shards)
		p.Decls[0].MinMembers, p.Decls[0].LayoutName = 1, pick(own, "", turning, turning)
	}
	faulty := d.IntN(4) > 0
	if l.Faults != nil {
		faulty = *l.Faults
	}
	joiners := 0
	if faulty {
		joiners = pick(d, 0, 0, 1, 2)
	}
	if faulty && decl.Shards > 1 {
		joiners++ // whose coming moves others
	}
	d.nodes(p, p.Initial+joiners)
	d.net(p, len(p.Nodes))
	for i := range p.Nodes {
		p.Apps = append(p.Apps, App{Node: i})
	}
	if faulty {
		p.Faults = make([]Fault, pick(d, 1, 1, 2, 3, 5))
	}
	d.inboxes(p)
	if faulty {
		d.faults(p)
		d.joins(p)
		p.Keep.TornIn = pick(d, 0, 50, 12)
	}
	if p.keeps() {
		d.disks(p, faulty)
	}
	return p
}

// attach makes a process's end of the application.
func (p *process) attach(a Application) {
	if a != nil {
		p.host = &Host{p: p}
		p.host.copy = a.Copy(p.host)
	}
}

func (h *Host) String() string {
	return fmt.Sprintf("node %d, process %d", h.p.self.ID, h.p.self.Incarnation)
}
