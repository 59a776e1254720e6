package sim

import (
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// quietChecker checks G8: some time after the last delivery nothing is pushed but heartbeats, nobody halted, and no
// sender sent a null beyond the last message (N4).
type quietChecker struct{ unconcerned }

func (quietChecker) name() string { return "quiet" }

func (quietChecker) pushed(w *world, from order.Rank, off int) error {
	if w.quietFrom == never || w.now < w.quietFrom || off == memberLine {
		return nil
	}
	return violated("G8", "rank %d pushes what lies at %d of its row, and everything was delivered long ago", from, off)
}

func (quietChecker) end(w *world) error {
	if w.plan.Fault.Kind != NoFault {
		return nil
	}
	for _, g := range w.groups {
		if g.sg.Mode == views.Unordered {
			continue
		}
		real := order.Seq(0)
		if n := len(g.order); n > 0 {
			real = g.order[n-1].seq + 1
		}
		for s, r := range g.sg.Senders {
			sent := order.Index(w.nodes[r].line(g)[wordSent])
			if need := order.Turns(len(g.sg.Senders)).CountBefore(real, order.SenderRank(s)); sent > need {
				return violated("N4", "subgroup %q: sender %d sent %d, and %d lie before the last message", g.sg.Name, s, sent, need)
			}
		}
		w.noteNulls(g)
	}
	return nil
}

func (w *world) noteNulls(g *group) {
	for _, r := range g.readers {
		stats := r.node.member.Subgroup(g.index).Stats()
		w.sometimes(NullsSent, stats.NullsSent.Load() > 0)
		w.sometimes(NullsDelivered, stats.NullsDelivered.Load() > 0)
	}
}
