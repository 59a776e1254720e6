package sim

import (
	"slices"

	"github.com/squall-go/squall/internal/backlog"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// stays performs, in virtual time, what package shard decides about a process's stays in the shards
// of a subgroup. It is the application's end of the subgroup, too: what it is given goes to the
// inbox of its view.
type stays struct {
	proc      *process
	decl      int
	core      *shard.Core
	receivers []*receiver // by stay, from 1
	inboxes   []*inbox    // of all views, the oldest first
	state     appState
	handing   bool // the application is given what waited for its state
	forgone   []forgone
	under     *activity
}

// hasState reports whether the applications of a declaration have a state that new members take
// over.
func (w *world) hasState(decl int) bool {
	return w.plan.States>>decl&1 != 0 && w.plan.Decls[decl].Mode != views.Unordered
}

// handsOver reports whether members that come into a shard of a declaration need something of the
// members that are in it.
func (w *world) handsOver(decl int) bool {
	return w.plan.Decls[decl].Mode == views.Persistent || w.hasState(decl)
}

func newStays(p *process, decl int) *stays {
	w := p.world
	logs, hop := w.plan.Decls[decl].Mode == views.Persistent, w.plan.Hop()
	return &stays{proc: p, decl: decl, state: appState{here: true}, core: shard.New(shard.Config{
		Self: p.self.ID, Logs: logs, HandsOver: w.handsOver(decl), Recovers: logs && w.hasState(decl),
		State: wait.Backoff{First: hop / 4, Longest: 4 * hop}, Log: wait.Backoff{First: hop / 4, Longest: 4 * hop},
	})}
}

// receiver is the member's Receiver.
func (p *process) receiver(v *views.View, i int) member.Receiver {
	w := p.world
	h := p.stays[w.declaration(v.Subgroups[i])]
	var k *keeper
	if v.Subgroups[i].Mode == views.Persistent {
		k = p.keeper(w.shardOf(v.Subgroups[i]))
	}
	h.inboxes = append(h.inboxes, newInbox(p, w.record(v).groups[i]))
	id, begins := h.core.Enter(v, i)
	if !begins {
		return h.receivers[id-1]
	}
	r := &receiver{stays: h, id: id, view: v, index: i, keeper: k}
	r.App, r.Begins = h, r.begins
	if k != nil {
		r.Recorder = k.recorder
	}
	h.receivers = append(h.receivers, r)
	h.perform()
	return r
}

// stateInstalled takes a view, before anything is delivered in it.
func (p *process) stateInstalled(v *views.View) {
	p.offers.Installed(v)
	for _, h := range p.stays {
		h.core.Installed(v)
		h.perform()
	}
}

// tell gives the core an input as the process's loop turns next.
func (h *stays) tell(input func()) {
	p := h.proc
	p.inputs = append(p.inputs, func() {
		input()
		h.perform()
	})
	p.wake()
}

// takeInputs gives the cores what arrived since the last step.
func (p *process) takeInputs() (work int) {
	for len(p.inputs) > 0 {
		inputs := p.inputs
		p.inputs = nil
		for _, input := range inputs {
			input()
			work++
		}
	}
	return work
}

// perform does what the core wants done, in its order.
func (h *stays) perform() {
	h.core.Perform(func(e shard.Effect) { h.do(h.receivers[e.Stay-1], e) })
}

func (h *stays) do(r *receiver, e shard.Effect) {
	p := h.proc
	w := p.world
	if e.Do <= shard.Rest {
		h.under = r.begin(e)
		return
	}
	switch e.Do {
	case shard.Hold:
		h.state.here = false
		r.Hold(backlog.New(backlog.Config{Bytes: backlogBytes(w.plan), Upcall: r.handOver, Wake: p.wake}), h.core.Fresh())
	case shard.LackLog:
		r.keeper.partial, r.keeper.since = true, e.View
		r.keeper.recorder.Lacks(e.View)
	case shard.HoldLog:
		r.keeper.recorder.Suspend(e.View)
	case shard.FreeLog:
		r.keeper.complete()
	case shard.AwaitApp:
		h.tell(func() { h.core.Ready(e.Stay) })
	case shard.Drop:
		r.drop()
	case shard.Silence:
		r.silent = true
	case shard.Live:
		r.Pass()
		h.inboxes[len(h.inboxes)-1].reader.open = w.now
	case shard.Over:
		r.over = true
		r.Keep()
	case shard.Cancel:
		h.under.cancelled = true
		w.schedule.pull(h.under.routine.turn, w.now)
	case shard.OfferState:
		r.offer(e.View, e.Index)
	case shard.WithholdState:
		p.offers.Withhold(e.View, e.Index)
	case shard.Thank:
		for _, m := range e.To {
			p.thank(w.processOf(m), r.view.ID, r.index, w.now+w.plan.Hop())
		}
	case shard.Restored:
		r.restored()
	case shard.SourceFailed:
		w.probes[StateSourceFailed]++
	case shard.Fail:
		p.member.Call(func() { p.member.Halt(e.Err) })
	}
}

// backlogBytes is how much may wait for a state: now and then little more than one message.
func backlogBytes(p *Plan) int {
	largest := 0
	for _, d := range p.Decls {
		largest = max(largest, d.RingBytes/2, d.MaxMessageBytes)
	}
	return largest + backlog.MessageBytes + int(p.Seed%3)*(4<<10)
}

// waits reports whether deliveries of a declaration wait until the application has its state.
func (p *process) waits(decl int) bool {
	return slices.ContainsFunc(p.stays[decl].receivers, func(r *receiver) bool { return len(r.kept) > 0 })
}

// refuses reports whether the process takes nothing in some subgroup before it has a state, or a
// log, of others.
func (p *process) refuses() bool { return slices.ContainsFunc(p.stays, (*stays).refuses) }

func (h *stays) refuses() bool {
	return slices.ContainsFunc(h.receivers, func(r *receiver) bool { return !r.Whole() && r.Refuses() })
}

// getsState reports whether something is under way for the last stay in a declaration's shards.
func (h *stays) getsState() bool {
	return len(h.receivers) > 0 && !h.receivers[len(h.receivers)-1].Whole()
}

// late reports whether a message was delivered while it had to wait for its application's state:
// what waits for its delivery was told then.
func (d *delivery) late() bool { return d.proc().stays[d.group.decl].handing }

// Deliver implements multicast.Receiver, for the application. It is given messages of several
// views.
func (h *stays) Deliver(run []multicast.Message) (taken int) {
	for taken < len(run) {
		v, n := run[taken].View, taken
		for n < len(run) && run[n].View == v {
			n++
		}
		in := h.inbox(v)
		in.reader.copies = h.handing || h.proc.world.after(h.decl)
		got := in.Deliver(run[taken:n])
		if taken += got; taken < n {
			return taken
		}
	}
	return taken
}

// Kept implements multicast.Keeper.
func (h *stays) Kept() order.Seq { return h.inboxes[len(h.inboxes)-1].keptFrom() }

// LetGo implements multicast.Keeper. No view begins before what was kept of the one before is let
// go.
func (h *stays) LetGo() {
	for _, in := range h.inboxes {
		in.letGo(len(in.kept))
	}
}

// keepsOf reports whether the application keeps a message of a view.
func (p *process) keepsOf(v order.ViewID) bool {
	return slices.ContainsFunc(p.stays, func(h *stays) bool {
		return slices.ContainsFunc(h.inboxes, func(in *inbox) bool { return in.group.record.view.ID == v && len(in.kept) > 0 })
	})
}

// MaxRun implements multicast.Receiver.
func (h *stays) MaxRun() int { return h.inboxes[len(h.inboxes)-1].MaxRun() }

func (h *stays) inbox(v order.ViewID) *inbox {
	i := slices.IndexFunc(h.inboxes, func(in *inbox) bool { return in.group.record.view.ID == v })
	return h.inboxes[i]
}

// receiver is one stay of a process in a shard.
type receiver struct {
	member.Intake
	stays   *stays
	id      shard.Stay
	view    *views.View // the first one
	index   int         // of the subgroup in it
	keeper  *keeper     // nil: there is no log
	kept    []multicast.Message
	over    bool
	silent  bool
	dropped bool
	given   int // messages that waited
}

// Deliver implements multicast.Receiver. It notes what the application is never given.
func (r *receiver) Deliver(run []multicast.Message) (taken int) {
	waits := !r.Whole()
	taken = r.Intake.Deliver(run)
	switch {
	case waits:
		r.stays.proc.world.sometimes(BacklogFull, taken < len(run))
		for _, m := range run[:taken] {
			m.Data = slices.Clone(m.Data)
			r.kept = append(r.kept, m)
		}
	case r.over:
		r.forgo(run[:taken])
	}
	return taken
}

// Given implements member.Receiver.
func (r *receiver) Given(f func()) bool {
	return r.Whole() || r.stays.proc.world.after(r.stays.decl) || r.Backlog().Mark(f)
}

// HasAll implements member.Receiver.
func (r *receiver) HasAll() bool { return r.Whole() }

// begins is the Intake's.
func (r *receiver) begins(v *views.View, i int) {
	r.stays.core.Begins(r.id, v.ID, i, r.stays.proc.offers.Wanted(v.ID, i))
	r.stays.perform()
}

// offer keeps the state where the deliveries of a view begin.
func (r *receiver) offer(v order.ViewID, i int) {
	h := r.stays
	f := func() {
		s := offered{state: h.state, image: h.proc.host.snapshot()}
		if r.keeper != nil {
			s.last = r.keeper.recorder.Last()
		}
		h.proc.offers.Put(v, i, s)
	}
	if r.Whole() || r.Backlog().Mark(f) {
		f()
	}
}

// drop forgets what waits.
func (r *receiver) drop() {
	w := r.stays.proc.world
	r.dropped = true
	r.Backlog().Drop()
	r.forgo(r.kept)
	r.kept = nil
	r.stays.passForgone()
	w.probes[StateForgone]++
	w.sometimes(ShardForgone, r.keeper != nil)
}

// forgone is a message of a later stay that the application is not given, while messages of an
// earlier stay wait for the log.
type forgone struct {
	stay    shard.Stay
	message multicast.Message
}

// keepsBefore reports whether a stay before another one has messages that wait.
func (h *stays) keepsBefore(id shard.Stay) bool {
	return slices.ContainsFunc(h.receivers[:id-1], func(r *receiver) bool { return len(r.kept) > 0 })
}

// passForgone notes the messages that no earlier stay precedes any more.
func (h *stays) passForgone() {
	for len(h.forgone) > 0 && !h.keepsBefore(h.forgone[0].stay) {
		f := h.forgone[0]
		h.forgone = h.forgone[1:]
		h.inbox(f.message.View).skip(&f.message)
	}
}

// forgo notes messages that the application is not given: it gets another state. Messages of a
// later stay are noted behind the messages of earlier stays.
func (r *receiver) forgo(run []multicast.Message) {
	h := r.stays
	w := h.proc.world
	for i := range run {
		m := &run[i]
		switch {
		case !w.after(h.decl) && h.keepsBefore(r.id):
			f := forgone{r.id, *m}
			f.message.Data = slices.Clone(m.Data)
			h.forgone = append(h.forgone, f)
		case !w.after(h.decl):
			h.inbox(m.View).skip(m)
		case !r.keeper.recorder.Keeps(m.View) && m.Sender == h.proc.self.ID: // its log does not take it
			w.judge("log", h.proc.ledgers[h.decl].record(w, r.keeper.id, m.Version()))
		}
	}
}

// restored tells that the application has the state, and what was delivered meanwhile.
func (r *receiver) restored() {
	p := r.stays.proc
	w := p.world
	w.stir()
	if r.keeper == nil {
		w.probes[StateRestored]++
		p.print("%s has its state", r.view.Subgroups[r.index].Name)
	} else {
		w.probes[CaughtUp]++
		p.print("%s has caught up", w.label(r.keeper.id))
	}
}
