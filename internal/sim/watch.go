package sim

import (
	"errors"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// What is seen of view changes and joins: it goes into the trace, counts as a probe, and is what
// faults wait for.

// begins notes that a process begins a view.
func (w *world) begins(p *process, v *views.View) {
	r := w.record(v)
	self, _ := v.RankOf(p.self.ID)
	w.stir()
	w.event(began, p.node.place, uint64(v.ID))
	p.print("══ v%d, rank %d of %d", v.ID, self, len(v.Members))
	if p.beginning = v; w.lie == AnotherView && v.ID > 1 && self > 0 {
		other := *v
		other.SetKey(v.Key() + "'")
		p.beginning = &other
	}
	p.remember()
	for _, c := range w.checkers {
		w.judge(c.name(), c.installed(w, p, r))
	}
	r.wild[self] = true
	if w.history.last == nil || v.ID > w.history.last.view.ID {
		w.history.last = r
		if before := w.before(r); before != nil {
			w.watchSuccession(before, r)
		}
	}
	if v.ID > 1 {
		w.watchAhead(p)
		w.moves(p, Installs)
	}
}

// onEvent is the member's OnEvent.
func (p *process) onEvent(e viewchange.Event) {
	w, s := p.world, p.seat()
	switch e := e.(type) {
	case viewchange.Suspected:
		if p.gate != nil {
			p.gate.Failed(p.local(), e.Member, errors.Is(e.Err, member.ErrAbsent))
		}
		w.noteAbsence(p, e)
		w.watchSuspicion(p, e)
		w.moves(p, Suspects)
	case viewchange.Proposed:
		w.watchProposal(p, s, e)
		w.moves(p, Proposes)
	case viewchange.Wedged:
		s.wedged = true
		p.print("wedged")
		w.moves(p, Wedges)
	case viewchange.Decided:
		if v := e.Decision.View; v != nil {
			for _, o := range p.seats {
				if o.record.view.ID == v.ID-1 {
					s = o
				}
			}
		}
		w.watchDecision(p, s, e)
	}
}

func (w *world) watchSuspicion(p *process, e viewchange.Suspected) {
	p.print("suspects %d: %v", e.Member.ID, e.Err)
	w.sometimes(HeardOfEnd, errors.Is(e.Err, fabric.ErrPeerGone))
	w.sometimes(HeardSilence, errors.Is(e.Err, member.ErrSilent))
	w.sometimes(HeardAccusation, errors.Is(e.Err, viewchange.ErrAccused))
	w.sometimes(JoinerLost, errors.Is(e.Err, member.ErrJoining))
	w.judge("live", checkSuspicion(w, p, e))
	s := p.seat() // it tells of the view in force only
	row := s.table.Row(e.Rank)
	s.frozen = append(s.frozen, frozenRow{e.Rank, *fabric.Word(row, memberLine), *fabric.Word(row, viewLine+8*7)})
}

func (w *world) watchProposal(p *process, s *seat, e viewchange.Proposed) {
	p.print("proposes %s → %s", ballotText(e.Ballot), viewName(e.View))
	for b, q := range s.record.proposed {
		w.sometimes(ProposedAgain, q == p && b != e.Ballot)
		w.sometimes(TookOver, q != p)
	}
	s.record.proposed[e.Ballot] = p
}

func (w *world) watchDecision(p *process, s *seat, e viewchange.Decided) {
	key, r := theEnd, s.record
	if e.Decision.View != nil {
		key = e.Decision.View.Key()
	}
	w.judge("log", checkRecorded(p, r, e.Ballot))
	leads := e.Ballot.Leader() == s.self
	verb := "echoes"
	if leads {
		verb = "decides"
	}
	p.print("%s %s → %s", verb, ballotText(e.Ballot), viewName(e.Decision.View))
	if leads {
		for b, other := range r.decided {
			w.sometimes(AdoptedDecision, b != e.Ballot && other == key)
		}
		for b, q := range r.proposed {
			w.sometimes(FoundNoDecision, b < e.Ballot && q != p && len(r.decided) == 0)
		}
	}
	r.decided[e.Ballot] = key
	if r.end == nil || e.Ballot > r.ballot { // an earlier one that no quorum echoed is void
		r.end, r.ballot = e.Decision, e.Ballot
		w.watchTrim(r, e.Decision)
	}
	if leads {
		w.moves(p, Decides)
	} else {
		w.moves(p, Echoes)
	}
}

func ballotText(b viewchange.Ballot) string {
	return uintText(b.Attempt()) + "." + uintText(uint64(b.Leader()))
}

func viewName(v *views.View) string {
	if v == nil {
		return theEnd
	}
	return "v" + uintText(uint64(v.ID))
}

// watch looks at the words of the process's view lines after a step.
func (p *process) watch() {
	w := p.world
	for _, s := range p.seats {
		if s.closed || *fabric.Word(s.own, viewLine+8*7) == s.seen[7] {
			continue
		}
		now := s.words(viewLine)
		if now[wordAcked] != s.seen[wordAcked] {
			p.print("acks %s", ballotText(viewchange.Ballot(now[wordAcked])))
			w.moves(p, Acks)
		}
		if now[wordInstalled] != s.seen[wordInstalled] {
			w.moves(p, Completes)
		}
		s.seen = now
	}
}

// watchTrim looks at what a decision cuts off.
func (w *world) watchTrim(r *viewRecord, d *viewchange.Decision) {
	removed := map[order.Rank]bool{}
	for _, rank := range d.Removed {
		removed[rank] = true
	}
	w.sometimes(HalfWithSenior, 2*(len(r.procs)-len(d.Removed)) == len(r.procs) && len(d.Removed) > 0)
	w.sometimes(AllLeft, d.View == nil)
	for i, g := range r.groups {
		if d.Trim[i] == nil {
			continue
		}
		top := order.Seq(0) // behind the last position that is delivered
		for s, trim := range d.Trim[i] {
			if trim > 0 {
				top = max(top, order.Seq(trim-1)*order.Seq(len(g.senders))+order.Seq(s)+1)
			}
			rank := g.sg.Senders[s]
			if seat := r.procs[rank].seatIn(r); removed[rank] && seat != nil {
				line := seat.line(i)
				w.sometimes(TailSkipped, line[wordSent] > uint64(trim))
			}
		}
		if n := len(g.order); g.sg.Mode != views.Unordered && n > 0 {
			w.sometimes(LastWereNulls, g.order[n-1].seq+1 < top)
		}
	}
	for _, rank := range d.Left {
		w.sometimes(LeaverWasSenior, rank == 0)
	}
}

// watchSuccession compares a view with the one before, when the first member begins it.
func (w *world) watchSuccession(before, r *viewRecord) {
	joined := 0
	for _, p := range r.procs {
		if !before.has(p) {
			joined++
		}
	}
	w.sometimes(ManyJoined, joined >= 2)
	for i, g := range r.groups {
		was := before.groups[i].sg.Provisioned()
		w.sometimes(LayoutLost, was && !g.sg.Provisioned())
		w.sometimes(LayoutRegained, !was && g.sg.Provisioned())
		for _, rd := range g.readers {
			w.sometimes(SpareUsed, before.has(rd.proc) && was && !before.placed(rd.proc, g.decl))
		}
	}
	for rank, p := range r.procs {
		for was, q := range before.procs {
			w.sometimes(MuteChanged, p == q && before.view.Muted != nil && before.view.Muted[was] != r.view.Muted[rank])
		}
	}
}

// placed reports whether a process is in some shard of a declaration.
func (r *viewRecord) placed(p *process, decl int) bool {
	for _, g := range r.groups {
		if g.decl == decl && g.reader(p) != nil {
			return true
		}
	}
	return false
}

// watchAhead looks whether a process was given more of an unordered subgroup than the end of its
// view has.
func (w *world) watchAhead(p *process) {
	if len(p.seats) < 2 {
		return
	}
	r := p.seats[len(p.seats)-2].record
	for i, g := range r.groups {
		rd := g.reader(p)
		if rd == nil || g.sg.Mode != views.Unordered || r.end == nil {
			continue
		}
		for s, n := range rd.counts {
			w.sometimes(UnorderedAhead, order.Index(n) > r.end.Trim[i][s])
		}
	}
}

// watchSettle looks at a claim that is committed or aborted.
func (w *world) watchSettle(a *app, h held) {
	made, now := a.ledger.claims[h.number].view, a.proc.member.View().ID
	w.sometimes(ClaimCarried, now == made+1)
	w.sometimes(ClaimCarriedTwice, now > made+1)
}

// watchEnd looks at what a member was doing when it crashed.
func (w *world) watchEnd(p *process) {
	w.sometimes(JoinerDiedEntered, p.move == Enters && len(p.seats) == 1)
	for i := max(0, len(p.seats)-2); i < len(p.seats); i++ {
		s := p.seats[i]
		line := s.words(viewLine)
		if b := viewchange.Ballot(line[wordProposed]); b != 0 && b.Leader() == s.self {
			w.watchLeadersEnd(p, s, line[wordProposed], line[wordDecided])
		}
	}
}

func (w *world) watchLeadersEnd(p *process, s *seat, proposed, decided uint64) {
	others, acks, echoes, through := 0, 0, 0, 0
	for _, q := range s.record.procs {
		qs := q.seatIn(s.record)
		if q == p || q.blame != "" || qs == nil {
			continue
		}
		others++
		line := qs.words(viewLine)
		acks += one(line[wordAcked] == proposed)
		echoes += one(line[wordDecided] == proposed)
		through += one(line[wordInstalled] != 0)
	}
	s.record.leadersDied++
	w.sometimes(TwoLeadersDied, s.record.leadersDied >= 2 && through < others)
	w.sometimes(LeaderDiedProposing, decided != proposed && acks == 0 && others > 0)
	w.sometimes(LeaderDiedAcked, decided != proposed && acks > 0)
	w.sometimes(LeaderDiedEchoed, decided == proposed && echoes > 0 && echoes < others && through == 0)
	w.sometimes(LeaderDiedInstalled, decided == proposed && through > 0 && through < others)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// watchHalt looks at why a member halts.
func (w *world) watchHalt(p *process, reason error) {
	stalled := p.blame == Hang.String() || p.blame == SlowUpcall.String()
	w.sometimes(SpokeAgain, stalled && errors.Is(reason, viewchange.ErrEvicted))
	if errors.Is(reason, viewchange.ErrPartitioned) {
		r, near := p.seat().record, 0
		for _, q := range r.procs {
			near += one(!q.over && w.near(p, q))
		}
		w.sometimes(HalfWithoutSenior, 2*near == len(r.procs) && (r.procs[0].over || !w.near(p, r.procs[0])))
	}
}

// near reports whether no way is cut between two processes.
func (w *world) near(p, q *process) bool {
	return p.node.cuts>>q.node.place&1 == 0 && q.node.cuts>>p.node.place&1 == 0
}

// unblamed counts the members to which nothing was done, and one more.
func (r *viewRecord) unblamed(besides *process) (n int) {
	for _, p := range r.procs {
		n += one(p.blame == "" || p == besides)
	}
	return n
}

// joinSaid looks at what a joiner or a member says to the other.
func (w *world) joinSaid(p *process, what any) {
	if p.member != nil {
		return
	}
	switch m := what.(type) {
	case join.Request:
		if m.Verb == join.Apply {
			w.moves(p, Asks)
		}
	case join.Message:
		if m.Verb == "ready" {
			w.moves(p, Readies)
		}
	}
}

func (w *world) joinEvent(p *process, e join.Event) {
	w.heldBack(e)
	switch e.(type) {
	case join.Meeting:
		w.moves(p, Meets)
	case join.Redirected:
		w.probes[Redirected]++
	}
}

// watchJoinersEnd looks how far a process came that crashed before it was a member.
func (w *world) watchJoinersEnd(p *process) {
	for m, probe := range map[Move]Probe{Asks: JoinerDiedAsking, Meets: JoinerDiedMeeting, Readies: JoinerDiedReady} {
		w.sometimes(probe, p.move == m)
	}
}
