package sim

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Reads is how the applications of ordered subgroups read.
type Reads struct {
	Count int           // of each process in each declaration
	Gap   time.Duration // mean time between two
}

// reads draws how applications read.
func (d dice) reads(p *Plan) {
	p.Reads.Count = pick(d, 0, 5, 20, 40)
	if p.Reads.Count > 0 {
		p.Reads.Gap = pick(d, p.Hop()/8, p.Hop()/8, p.Hop(), p.Bound(), p.FailAfter()/4)
	}
}

// asker is what reads in a declaration at one process: it has its member confirm that its
// application was given all that was delivered, one time after the other, sometimes before the last
// one was answered.
type asker struct {
	proc *process
	decl int
	left int
	open int  // not answered yet
	hung bool // its process went on just now
	dice dice
}

// question is one of these times.
type question struct {
	asker  *asker
	asking bool        // the call that asks has not returned
	seen   []delivered // by shard: what some application of it had been given last
}

// delivered is a place in the order of a shard, over all views: a message of a view.
type delivered struct {
	group *group
	seq   order.Seq
}

// count is the number of messages of its view up to there, messages of members that lie left out.
func (d delivered) count() int {
	n, _ := slices.BinarySearchFunc(d.group.order, d.seq+1, func(p place, end order.Seq) int { return cmp.Compare(p.seq, end) })
	return n
}

// before reports whether an application that got to one place lacks something of the other.
func (d delivered) before(other delivered) bool {
	if d.group == nil || other.group == nil {
		return other.group != nil
	}
	if a, b := d.group.record.view.ID, other.group.record.view.ID; a != b {
		return a < b
	}
	return d.seq < other.seq
}

// addAsker begins what a process that became a member reads in a declaration.
func (w *world) addAsker(p *process, decl int) {
	if w.plan.Reads.Count == 0 || w.plan.Decls[decl].Mode == views.Unordered {
		return
	}
	w.asking++
	w.schedule.add(w.now, &asker{
		proc: p, decl: decl, left: w.plan.Reads.Count,
		dice: dice{rand.New(rand.NewPCG(w.plan.Seed, 0x4ead<<40+uint64(p.node.place)<<8+uint64(decl)+p.self.Incarnation<<16))},
	})
}

// act implements actor.
func (a *asker) act(now time.Duration) time.Duration {
	w, p := a.proc.world, a.proc
	switch {
	case p.over || p.told || a.left == 0 && a.open == 0:
		w.asking--
		w.stir()
		return never
	case now < p.hangs:
		a.hung = true
		return p.hangs
	case a.left > 0 && (a.open == 0 || a.hung || a.dice.oneIn(4)):
		a.ask()
	}
	a.hung = false
	return now + a.dice.upTo(2*w.plan.Reads.Gap)
}

// ask asks once.
func (a *asker) ask() {
	w, p := a.proc.world, a.proc
	a.left--
	a.open++
	r := &question{asker: a, asking: true, seen: make([]delivered, w.plan.Decls[a.decl].ShardCount())}
	for k := range r.seen {
		r.seen[k] = w.newest[shardID{a.decl, k}]
	}
	w.event(asked, p.node.place, uint64(a.decl), uint64(a.left))
	p.print("%s reads", w.plan.Decls[a.decl].Name)
	p.member.Outbox(w.plan.Decls[a.decl].Name).ConfirmFunc(r.answered)
	r.asking = false
}

// answered is told the outcome.
func (r *question) answered(err error) {
	a := r.asker
	w, p := a.proc.world, a.proc
	a.open--
	w.stir()
	w.event(answered, p.node.place, uint64(a.decl))
	p.print("%s read: %v", w.plan.Decls[a.decl].Name, err)
	w.judge("read", r.check(err))
}

// check compares what the application has with what some application had as the reading began.
func (r *question) check(err error) error {
	a := r.asker
	w, p := a.proc.world, a.proc
	w.sometimes(ReadRefused, err != nil)
	if p.liar {
		return nil
	}
	now := p.seat().record
	var here *group
	for _, g := range now.groups {
		if g.decl == a.decl && g.reader(p) != nil {
			here = g
		}
	}
	switch {
	case p.member.Err() != nil:
		if !errors.Is(err, p.member.Err()) {
			return violated("B12", "node %d: a reading of %q is answered with %v after halting", p.self.ID, w.plan.Decls[a.decl].Name, err)
		}
		return nil
	case errors.Is(err, member.ErrLeftShard) || errors.Is(err, member.ErrNotSender) || errors.Is(err, member.ErrNotProvisioned):
		return nil
	case err != nil:
		return violated("B12", "node %d: a reading of %q fails: %v", p.self.ID, w.plan.Decls[a.decl].Name, err)
	case here == nil:
		return violated("B11", "node %d: a reading of %q is answered, and it is in no shard", p.self.ID, w.plan.Decls[a.decl].Name)
	}
	w.probes[ReadAnswered]++
	w.sometimes(ReadAtOnce, r.asking)
	return r.fresh(here)
}

// fresh compares what the application has with what it may not lack.
func (r *question) fresh(here *group) error {
	a := r.asker
	w, p := a.proc.world, a.proc
	now, h := p.seat().record, p.stays[a.decl]
	had, stay := r.seen[here.sg.Shard], h.receivers[len(h.receivers)-1]
	if had.group == nil {
		return nil
	}
	w.sometimes(ReadAcrossViews, had.group.record.view.ID < now.view.ID)
	if v := had.group.record.view.ID; v < stay.view.ID { // what came before the stay is in its state
		if w.hasState(a.decl) && !h.state.here {
			return violated("B11", "node %d: a reading of %q is answered, and its application has no state", p.self.ID, w.plan.Decls[a.decl].Name)
		}
		return nil
	}
	rd := had.group.reader(p)
	if n := had.count(); rd == nil && n > 0 || rd != nil && rd.at < n {
		got := 0
		if rd != nil {
			got = rd.at
		}
		return violated("B11", "node %d: a reading of %q is answered after %d messages of view %d, and an application had been given %d as it began",
			p.self.ID, w.plan.Decls[a.decl].Name, got, had.group.record.view.ID, n)
	}
	return nil
}

// readChecker checks that a read state is not older than what any application had been given as the
// reading began.
type readChecker struct{ unconcerned }

func (readChecker) name() string { return "read" }

func (readChecker) taken(w *world, d *delivery) error {
	if !d.ordered() || d.proc().liar || d.ledger().spoiled() {
		return nil
	}
	id := w.shardOf(d.group.sg)
	if at := (delivered{d.group, d.Seq}); w.newest[id].before(at) {
		w.newest[id] = at
	}
	return nil
}

func (readChecker) end(w *world) error {
	if w.asking > 0 {
		return violated("B12", "%d processes wait for readings that are never answered; the last thing that went on was at %v", w.asking, w.progress)
	}
	return nil
}
