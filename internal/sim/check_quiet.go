package sim

import (
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// quietChecker checks G8: some time after the last delivery nothing is pushed but heartbeats, views
// that are over are left behind, and no sender sent a null beyond the last message (N4).
type quietChecker struct{ unconcerned }

func (quietChecker) name() string { return "quiet" }

func (quietChecker) pushed(w *world, from *process, off int) error {
	if off == memberLine || !w.goesOn() {
		return nil
	}
	return violated("G8", "node %d pushes what lies at %d of its row, and everything was delivered long ago", from.self.ID, off)
}

func (quietChecker) end(w *world) error {
	if !w.goesOn() || w.quietFrom == never {
		return nil
	}
	for _, p := range w.history.last.procs {
		if n := len(p.member.Tables()); n != 1 && !p.awaitsShard() {
			return violated("G8", "node %d still has the tables of %d views", p.self.ID, n)
		}
	}
	for _, g := range w.history.last.groups {
		if g.sg.Mode == views.Unordered {
			continue
		}
		real := order.Seq(0)
		if n := len(g.order); n > 0 {
			real = g.order[n-1].seq + 1
		}
		turns := order.Turns(len(g.sg.Senders))
		for s, l := range g.senders { // an aborted claim is a null that counts as a message
			if n := l.sent(g); n > 0 && len(l.claims) > 0 && l.claims[len(l.claims)-1].state == aborted {
				real = max(real, turns.Seq(n-1, order.SenderRank(s))+1)
			}
		}
		for s, l := range g.senders {
			if sent, need := l.sent(g), turns.CountBefore(real, order.SenderRank(s)); sent > need {
				return violated("N4", "subgroup %q: node %d sent %d, and %d lie before the last message", g.sg.Name, l.proc.self.ID, sent, need)
			}
		}
	}
	w.noteNulls()
	return nil
}

// sent is the count of a sender of a group.
func (l *ledger) sent(g *group) order.Index {
	return order.Index(l.proc.seat().line(g.index)[wordSent])
}

func (w *world) noteNulls() {
	for _, p := range w.history.last.procs {
		for _, d := range w.plan.Decls {
			stats := p.member.Outbox(d.Name).Stats
			w.sometimes(NullsSent, stats.NullsSent.Load() > 0)
			w.sometimes(NullsDelivered, stats.NullsDelivered.Load() > 0)
		}
	}
}
