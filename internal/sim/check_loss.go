package sim

import (
	"errors"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// lossChecker checks G3: what a member accepted that goes on to the end is delivered exactly once,
// in the order of its claims, in one view or another; and so is what a member accepted that left
// when it had no message in flight.
type lossChecker struct{ unconcerned }

func (lossChecker) name() string { return "loss" }

func (lossChecker) taken(w *world, d *delivery) error {
	l := d.ledger()
	if !d.ordered() || d.number < 0 || d.number >= len(l.claims) {
		return nil
	}
	switch c, here := &l.claims[d.number], (order.Version{View: d.View, Seq: d.Seq}); c.place {
	case here:
	case order.Version{}:
		c.place = here
	default:
		return violated("G3", "%v: it is message %d of its sender, which was delivered at %v already", d, d.number, c.place)
	}
	return nil
}

func (lossChecker) end(w *world) error {
	if w.goesOn() {
		if err := w.undelivered(); err != nil {
			return violated("G3", "%w", err)
		}
	}
	for _, p := range w.procs {
		// a member that left may have halted for another reason
		if !p.drained || !p.over || p.blame != "leaves" || !errors.Is(p.member.Err(), member.ErrClosed) {
			continue
		}
		for _, l := range p.ledgers {
			number, ok := l.unplaced()
			for ok && (l.letGo(number) || l.claims[number].place.View > 0 || l.outlivesShard(number)) {
				number, ok = l.missing(number + 1)
			}
			if ok && w.plan.Decls[l.decl].Mode != views.Unordered {
				return violated("G3", "node %d left, and its message %d in %q was never delivered", p.self.ID, number, w.plan.Decls[l.decl].Name)
			}
		}
	}
	if w.busyApps > 0 {
		return violated("G3", "%d applications wait for room that never comes; the last thing that went on was at %v", w.busyApps, w.progress)
	}
	return nil
}
