package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// unhalted is what is still under way without a quorum.
func (w *world) unhalted() error {
	last := w.history.last
	for _, p := range w.procs {
		if p.member != nil && !p.over {
			return fmt.Errorf("node %d goes on, and view %d has no quorum", p.self.ID, last.view.ID)
		}
	}
	if w.comesBack() && w.quietFrom == never && w.now < w.restartBy() {
		w.lookAt = w.restartBy()
		return errors.New("some come back, and may find the others")
	}
	if w.canRestart() {
		return fmt.Errorf("a quorum of view %d is back with its disks, and does not go on", last.view.ID)
	}
	return nil
}

// unsettled is what is still under way, in words; nil if nothing is. If a quorum of the last view
// lives, the view must come to be of exactly the processes that live, are connected and do not
// leave, and all that they accepted must be delivered. If no quorum lives, all members must halt.
func (w *world) unsettled() error {
	last := w.history.last
	if !w.goesOn() {
		return w.unhalted()
	}
	for _, p := range w.procs {
		if err := w.unsettledProcess(p); err != nil {
			return err
		}
	}
	for r, p := range last.procs {
		if p.over {
			return fmt.Errorf("node %d has ended, and is a member of view %d", p.self.ID, last.view.ID)
		}
		if p.reporter != nil && !p.reporter.over && w.stayed(p, p.reportedIn) {
			return fmt.Errorf("node %d was reported by node %d, and is a member of view %d", p.self.ID, p.reporter.self.ID, last.view.ID)
		}
		if m := last.view.Muted; m != nil && m[r] != p.mute || m == nil && p.mute != 0 {
			return fmt.Errorf("node %d wants to send in other subgroups than in view %d", p.self.ID, last.view.ID)
		}
	}
	if a, b := w.parted(); a != nil {
		return fmt.Errorf("nodes %d and %d are cut off from each other, and both members of view %d", a.self.ID, b.self.ID, last.view.ID)
	}
	for _, p := range last.procs {
		if err := p.unkept(); err != nil {
			return err
		}
	}
	return w.undelivered()
}

// stayed reports whether a process was a member of all views from one on. One that was removed
// before it came to know that it was a member asks again, and may be admitted.
func (w *world) stayed(p *process, from order.ViewID) bool {
	for id := from; id <= w.history.last.view.ID; id++ {
		if r := w.history.byID[id]; r != nil && !r.has(p) {
			return false
		}
	}
	return true
}

// restartBy is when the processes that come back have gone on, if they can. If they cannot, it is
// when enough of their letters have shown that they wait.
func (w *world) restartBy() time.Duration {
	long := 24*w.plan.FailAfter() + 64*w.plan.Syncing()
	if w.canRestart() {
		long = max(long, w.plan.Patience()/2)
	}
	return max(w.progress, w.calm) + long
}

// parted finds two members of the last view between which a way is cut.
func (w *world) parted() (*process, *process) {
	for _, p := range w.history.last.procs {
		for _, q := range w.history.last.procs {
			if p.node.cuts>>q.node.place&1 != 0 {
				return p, q
			}
		}
	}
	return nil, nil
}

// goesOn reports whether a quorum of the last view lives.
func (w *world) goesOn() bool {
	last := w.history.last
	return last.quorum(func(p *process) bool { return !p.over && w.knows(p, last) })
}

// knows reports whether a process that a view has as a member knows of it, or will be told by a
// process that was in the one before.
func (w *world) knows(p *process, r *viewRecord) bool {
	before := w.before(r)
	there := func(q *process) bool { return q.member != nil && !q.over }
	return p.member != nil || before != nil && slices.ContainsFunc(before.procs, there)
}

// unsettledProcess is why a process is not where it should be.
func (w *world) unsettledProcess(p *process) error {
	last := w.history.last
	switch {
	case p.over:
	case p.member == nil:
		if w.reaches(p) {
			return fmt.Errorf("node %d, process %d, has not joined view %d", p.self.ID, p.self.Incarnation, last.view.ID)
		}
	case p.told:
		return fmt.Errorf("node %d halted and has not ended", p.self.ID)
	case p.leaving:
		return fmt.Errorf("node %d has not left", p.self.ID)
	case p.seat().record != last:
		return fmt.Errorf("node %d is in view %d, and the last one is %d", p.self.ID, p.seat().record.view.ID, last.view.ID)
	case p.seat().wedged:
		return fmt.Errorf("node %d has stopped view %d, and no view follows", p.self.ID, last.view.ID)
	}
	return nil
}

// reaches reports whether no way is cut between a process and the members of the last view.
func (w *world) reaches(p *process) bool {
	for _, q := range w.history.last.procs {
		if !w.near(p, q) {
			return false
		}
	}
	return true
}

// undelivered is what of the accepted messages is still to be delivered, and at which member.
func (w *world) undelivered() error {
	for _, g := range w.history.last.groups {
		for _, rd := range g.readers {
			if err := rd.unfinished(); err != nil {
				return err
			}
		}
	}
	for _, p := range w.procs {
		if p.over || p.member == nil {
			continue
		}
		for _, s := range p.seats {
			for _, g := range s.record.groups {
				if rd := g.reader(p); rd != nil && rd.at < len(g.order) && !rd.forgoesTail(w) {
					return fmt.Errorf("node %d was given %d of %d messages of subgroup %q in view %d", p.self.ID, rd.at, len(g.order), g.sg.Name, s.record.view.ID)
				}
			}
		}
	}
	return nil
}

// unfinished is what is still to come of the senders of the last view.
func (rd *reader) unfinished() error {
	for s, l := range rd.group.senders {
		number, ok := l.unplaced()
		if rd.group.sg.Mode == views.Unordered {
			if rd.flows[s].loose {
				continue
			}
			number, ok = l.missing(rd.flows[s].next)
		}
		if ok {
			return fmt.Errorf("subgroup %q: message %d of node %d, committed at %v, was not delivered at node %d", rd.group.sg.Name, number, l.proc.self.ID, l.claims[number].ready, rd.proc.self.ID)
		}
	}
	return nil
}
