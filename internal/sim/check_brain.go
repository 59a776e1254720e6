package sim

import (
	"errors"
	"slices"
	"syscall"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
)

// brainChecker checks G5: a view begins only when a quorum of the one before has the decision, no
// view has two successors, and a member that halts has a reason: too few members that are left, an
// eviction for something that was done to it, or that it left.
type brainChecker struct{ unconcerned }

func (brainChecker) name() string { return "brain" }

func (brainChecker) installed(w *world, p *process, r *viewRecord) error {
	if first := w.history.byID[r.view.ID]; first != r {
		return violated("G5", "node %d begins a view %d (%s), and there is another one (%s)", p.self.ID, r.view.ID, r.view.Key(), first.view.Key())
	}
	if p.restarted && len(p.seats) == 1 {
		return checkRestarted(w, p, r)
	}
	if len(p.seats) < 2 {
		return nil // it is told of a view that others installed
	}
	before := p.seats[len(p.seats)-2].record
	has := func(q *process) bool {
		s := q.seatIn(before)
		return q.liar || s != nil && before.decided[viewchange.Ballot(s.words(viewLine)[wordDecided])] == r.view.Key()
	}
	if !before.quorum(has) {
		n := 0
		for _, q := range before.procs {
			n += one(has(q))
		}
		return violated("G5", "node %d begins view %d, and %d of %d members of view %d have the decision", p.self.ID, r.view.ID, n, len(before.procs), before.view.ID)
	}
	return nil
}

// checkRestarted checks that the processes that begin a view after all had ended are a quorum of
// the one before.
func checkRestarted(w *world, p *process, r *viewRecord) error {
	before := w.before(r)
	back := func(q *process) bool {
		return slices.ContainsFunc(r.procs, func(now *process) bool { return now.node == q.node })
	}
	if before != nil && !before.quorum(back) { // no process had begun it, if it is not known
		return violated("G5", "node %d begins view %d after a restart, and its %d members are no quorum of the view before", p.self.ID, r.view.ID, len(r.procs))
	}
	return nil
}

func (brainChecker) halted(w *world, p *process, reason error) error {
	r := p.seat().record
	jumped := p.jumped > w.plan.FailAfter() // it may believe that it was stopped for so long
	switch {
	case errors.Is(reason, viewchange.ErrEvicted) && !jumped:
		if p.blame == "" {
			return violated("G5", "node %d halts, and nothing was done to it: %v", p.self.ID, reason)
		}
	case errors.Is(reason, viewchange.ErrPartitioned), errors.Is(reason, viewchange.ErrEvicted):
		there := func(q *process) bool {
			late := q.member == nil && p.untold>>q.node.place&1 != 0 || q.member != nil && w.toldLate(p, q)
			// it had promised another one, and went on in that (Y5)
			replaced := q.member != nil && q.seatIn(r) == nil
			return q == p || q.blame == "" && w.knows(q, r) && !late && !replaced
		}
		if p.blame == "" && r.quorum(there) {
			return violated("G5", "node %d halts, and only to %d of %d members anything was done: %v", p.self.ID, len(r.procs)-r.unblamed(p), len(r.procs), reason)
		}
	case errors.Is(reason, member.ErrClosed):
		if !p.said {
			return violated("G5", "node %d halts, and was not asked to leave: %v", p.self.ID, reason)
		}
	case errors.Is(reason, shard.ErrStateLost) && p.orphaned():
	case errors.Is(reason, syscall.ENOSPC) && p.blame != "":
	case errors.Is(reason, member.ErrDiskStuck) && (p.jumped > 0 || p.blame != "" || p.node.disk.slow == memoName):
	default:
		return violated("G5", "node %d halts: %v", p.self.ID, reason)
	}
	return nil
}

// frozenRow is what a member said last before it was suspected.
type frozenRow struct {
	rank        order.Rank
	beat, stirs uint64
}

// checkFrozen checks that nothing is heard of a suspect any more: what a member counts upon when a
// view ends must not change later.
func checkFrozen(p *process, s *seat) error {
	for _, f := range s.frozen {
		row := s.table.Row(f.rank)
		if *fabric.Word(row, memberLine) != f.beat || *fabric.Word(row, viewLine+8*7) != f.stirs {
			return violated("F4", "node %d suspects rank %d of view %d, and its row goes on changing", p.self.ID, f.rank, s.record.view.ID)
		}
	}
	return nil
}
