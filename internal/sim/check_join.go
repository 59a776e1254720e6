package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/views"
)

// A ghost is a process that joins, is told the view that it is in, and is not heard of any more:
// its host loses power. The group waits for it for as long as for any member that falls silent. So
// a node whose processes do so again and again is held back, each time for longer (J12).

// absence is that a member never heard a process that had joined.
type absence struct {
	by *process
	at time.Duration // on its clock
}

// vanish ends a process that was told the view that it is in, if it is a ghost.
func (p *process) vanish(v *views.View) bool {
	w, n := p.world, p.node
	w.judge("join", w.checkHeldBack(p, v))
	if n.Ghosts == 0 {
		return false
	}
	n.Ghosts--
	w.probes[JoinerVanished]++
	(&fault{world: w, plan: Fault{Kind: PowerOff}}).crash(p)
	return true
}

// noteAbsence notes that a member takes a process for failed that joined it, and that it never
// heard. A member that joined with the same view, or with a later one, cannot tell such a process
// from a member of old that it cannot hear, which is not held back.
func (w *world) noteAbsence(p *process, e viewchange.Suspected) {
	q := w.processOf(e.Member)
	if errors.Is(e.Err, member.ErrAbsent) && q.member == nil && q.move == Enters && !p.seats[0].record.has(q) {
		q.node.absences = append(q.node.absences, absence{p, p.local()})
	}
}

// checkHeldBack checks J12, as a process becomes a member: no member is in its view that an earlier
// process of the node joined, that never heard that one, and that should still hold the node back.
func (w *world) checkHeldBack(p *process, v *views.View) error {
	unit, list := w.plan.FailAfter()+w.plan.Silence(), p.node.absences
	for i, a := range list {
		if a.by.over || a.by.told || !slices.Contains(v.Members, a.by.self) || slices.ContainsFunc(list[i+1:], func(b absence) bool { return b.by == a.by }) {
			continue
		}
		count := 0
		for _, b := range list[:i+1] {
			count += one(b.by == a.by)
		}
		if passed := a.by.local() - a.at; passed < unit<<min(count-1, 6) {
			return violated("J12", "node %d becomes a member %v after node %d has noted for time %d that it did not appear", p.self.ID, passed, a.by.self.ID, count)
		}
	}
	return nil
}

// heldBack notes that a joiner is held back.
func (w *world) heldBack(e join.Event) {
	if e, ok := e.(join.Refused); ok && !e.Final && len(w.nodes[w.placeOf[e.ID]].absences) > 0 {
		w.probes[JoinerHeldBack]++
	}
}

// ghosts draws joiners that are ghosts at first.
func (d dice) ghosts(p *Plan) {
	for i := p.Initial; i < len(p.Nodes); i++ {
		if d.oneIn(6) {
			n := &p.Nodes[i]
			n.Ghosts = 1 + d.IntN(3)
			n.Returns, n.Times = d.upTo(p.FailAfter()), n.Ghosts
		}
	}
}

// joinChecker checks J12.
type joinChecker struct{ unconcerned }

func (joinChecker) name() string { return "join" }
