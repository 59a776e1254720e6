package sim

import (
	"errors"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
)

// liveChecker checks liveness: after the last fault, if a quorum lives, the view settles within
// bounded time to exactly the members that live, are connected and do not leave, and all they
// accepted is delivered; if no quorum lives, all members halt. It also checks that no member is
// suspected or removed without a fault that affected it.
type liveChecker struct{ unconcerned }

func (liveChecker) name() string { return "live" }

func (liveChecker) installed(w *world, p *process, r *viewRecord) error {
	before := w.before(r)
	// all members had ended, and a process that was about to join joins later
	if before == nil || p.restarted && len(p.seats) == 1 {
		return nil
	}
	for _, q := range before.procs {
		if q.blame == "" && !r.has(q) {
			return violated("liveness", "view %d is without node %d, and nothing was done to it", r.view.ID, q.self.ID)
		}
	}
	return nil
}

// checkSuspicion checks that a member that is suspected gave a reason for that, and broke no rule
// of the protocol. As the protocol has it, four reasons count besides what a fault did to the
// suspect itself:
//
//   - A fault concerns the member that suspects. One that hung, or that the others do not reach,
//     cannot tell its own silence from theirs, and a suspicion needs no proof: one member may be
//     the only one to see a failure.
//   - The suspect suspects this member. It froze the row of this member and ended the connection
//     (V5), so this member sees a connection that ended, and may not see the word that says why.
//     The same holds for a third member that was suspected like that: it may have published that it
//     suspects the suspect before it knew that it is suspected itself.
//   - The clock of the suspect jumped as it joined, so it took the members for silent and gave up,
//     while they took it in.
//   - Letters of a restart were lost, so the suspect did not hear of the new view, or heard of it
//     too late (toldLate).
//
// A violation of the protocol is never in order, whatever was done to either, unless the suspect
// lies.
func checkSuspicion(w *world, p *process, e viewchange.Suspected) error {
	q := w.processOf(e.Member)
	if errors.Is(e.Err, fabric.ErrViolation) && !q.liar {
		return violated("liveness", "node %d suspects node %d: %v", p.self.ID, e.Member.ID, e.Err)
	}
	if errors.Is(e.Err, member.ErrAbsent) && w.toldLate(p, q) {
		q.blamed("has not heard in time that a view was decided")
	}
	if errors.Is(e.Err, member.ErrAbsent) && q.member == nil && q.jumped > w.plan.FailAfter()/2 {
		// and has to ask again: it did not hear that it was a member
		q.blamed("gave up its conversations as its clock jumped")
	}
	third := func(b *process) bool { return b.blame != "" && b.suspects(q) && q.suspects(b) }
	if q.suspects(p) || errors.Is(e.Err, viewchange.ErrAccused) && slices.ContainsFunc(p.seat().record.procs, third) {
		q.blamed("suspects another one") // and ended the connection: the other one may not know why
	}
	if q.blame == "" && p.blame == "" {
		return violated("liveness", "node %d suspects node %d, and nothing was done to either: %v", p.self.ID, e.Member.ID, e.Err)
	}
	return nil
}

// toldLate reports whether letters of a restart were lost, so that a member was not told of the
// view in which another one began, or so late that its first heartbeat may have come when the other
// one had waited for it as long as a member does in its first view.
func (w *world) toldLate(by, late *process) bool {
	if w.plan.Keep.LostIn == 0 {
		return false
	}
	s := by.seat()
	first := late.seatIn(s.record)
	if late.member == nil || first == nil {
		return late.member == nil
	}
	return late.restarted && first == late.seats[0] && s == by.seats[0] && first.began+w.plan.Bound() > s.began+2*w.plan.FailAfter()
}

// suspects reports whether a process suspects another one in the view that both are in.
func (p *process) suspects(other *process) bool {
	for _, s := range p.seats {
		if rank, ok := s.record.rankIn(other); ok && s.words(viewLine)[wordSuspected]>>rank&1 != 0 {
			return true
		}
	}
	return false
}

// remember notes which members a process suspects as it begins the next view.
func (p *process) remember() {
	if len(p.seats) < 2 {
		return
	}
	before, now := p.seats[len(p.seats)-2], p.seat()
	suspects := before.words(viewLine)[wordSuspected]
	for rank, q := range before.record.procs {
		if suspects>>rank&1 != 0 && now.record.has(q) {
			now.remembered = append(now.remembered, q)
		}
	}
}

// checkRemembered checks that a member that was suspected in one view is suspected in the next: it
// must not take another while to find out.
func checkRemembered(p *process) error {
	s := p.seat()
	if s.steps++; s.steps != 3 || p.member.Err() != nil {
		return nil
	}
	for _, q := range s.remembered {
		if rank, _ := s.record.rankIn(q); p.seat() == s && s.words(viewLine)[wordSuspected]>>rank&1 == 0 {
			return violated("liveness", "node %d suspected node %d before view %d began, and does not any more", p.self.ID, q.self.ID, s.record.view.ID)
		}
	}
	return nil
}

func (liveChecker) end(w *world) error {
	w.sometimes(GroupLost, !w.goesOn())
	if err := w.unsettled(); err != nil {
		return violated("liveness", "%v after the last fault: %w", w.now-w.calm, err)
	}
	return nil
}
