package sim

import (
	"slices"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// restartChecker checks Y2 to Y7: what follows a view by a restart is decided as the ballots say. A
// leader counts only promises for its own ballot, and only votes in it, which it has heard, and all
// of which are on disks; one view has one successor, on all disks; a view is entered only when a
// quorum of its members have their logs where they were agreed to be; and a log that is whole is
// not taken for incomplete.
type restartChecker struct{ unconcerned }

func (restartChecker) name() string { return "restart" }

// answer is a promise of a ballot, or a vote in it.
type answer struct {
	ballot restart.Ballot
	verb   restart.Verb
}

// ballots is what was promised, voted and made ready on disks after one view, by node.
type ballots struct {
	base     *views.View
	promises map[restart.Ballot][]order.NodeID
	given    map[restart.Ballot][]incarnation // the processes that promised
	votes    map[vote][]order.NodeID
	heard    map[answer][]order.NodeID       // whose answers have come to the leader
	highest  map[order.NodeID]restart.Ballot // that a node has promised
	// whose logs are where they were agreed to be, by the key of the next view
	ready map[string][]order.NodeID
}

// incarnation is a process of a node.
type incarnation struct {
	node   order.NodeID
	number uint64
}

// vote is for a view, in a ballot.
type vote struct {
	ballot restart.Ballot
	key    string
}

// ballots is what is known of the restarts from a view.
func (h *history) ballotsOf(base *views.View) *ballots {
	b := h.ballots[base.Key()]
	if b == nil {
		b = &ballots{
			base: base, promises: map[restart.Ballot][]order.NodeID{}, given: map[restart.Ballot][]incarnation{}, votes: map[vote][]order.NodeID{},
			heard: map[answer][]order.NodeID{}, highest: map[order.NodeID]restart.Ballot{}, ready: map[string][]order.NodeID{},
		}
		h.ballots[base.Key()] = b
	}
	return b
}

// quorum reports whether some nodes are a quorum of a view.
func quorumOf(v *views.View, nodes []order.NodeID) bool {
	var set viewchange.Ranks
	for r, m := range v.Members {
		set = set.With(order.Rank(r), slices.Contains(nodes, m.ID))
	}
	return viewchange.Quorum(len(v.Members), set)
}

func note[K, V comparable](m map[K][]V, k K, id V) {
	if !slices.Contains(m[k], id) {
		m[k] = append(m[k], id)
	}
}

// noteBallots notes what a process that comes back has on its disk now.
func (w *world) noteBallots(p *process) {
	s := p.memory.State()
	if s.View == nil {
		return
	}
	b := w.history.ballotsOf(s.View)
	note(b.promises, s.Promised, p.self.ID)
	note(b.given, s.Promised, incarnation{p.self.ID, p.self.Incarnation})
	b.highest[p.self.ID] = s.Promised
	if s.Accepted != nil {
		note(b.votes, vote{s.Accepted.Ballot, s.Accepted.View.Key()}, p.self.ID)
	}
}

// checkLeads checks that the processes that promised a ballot are a quorum, as its leader chooses
// the view that it puts to the vote, and that no other view has a quorum of votes in a lower
// ballot, or may still get one.
func (w *world) checkLeads(p *process, ballot restart.Ballot, next *views.View) error {
	base := p.base
	if now := p.memory.State().View; next.ID == now.ID+1 { // it learned of that view in the same step
		base = now
	}
	b := w.history.ballotsOf(base)
	if who := append(slices.Clone(b.promises[ballot]), p.self.ID); !quorumOf(b.base, who) {
		return violated("Y3", "node %d goes on with ballot %v after view %d, and those that have promised it are %v", p.self.ID, ballot, b.base.ID, who)
	}
	if who := append(slices.Clone(b.heard[answer{ballot, restart.Promise}]), p.self.ID); !quorumOf(b.base, who) {
		return violated("Y3", "node %d goes on with ballot %v after view %d, and those whose promises it has heard are %v", p.self.ID, ballot, b.base.ID, who)
	}
	for cast, who := range b.votes {
		if cast.key == next.Key() || cast.ballot.Compare(ballot) >= 0 {
			continue
		}
		may := slices.Clone(who)
		for _, m := range b.base.Members {
			if m.ID != p.self.ID && b.highest[m.ID].Compare(cast.ballot) <= 0 && !slices.Contains(may, m.ID) {
				may = append(may, m.ID)
			}
		}
		if quorumOf(b.base, may) {
			return violated("Y6", "node %d puts a view (%s) to the vote in ballot %v after view %d, and nodes %v may decide on another one (%s) in ballot %v",
				p.self.ID, next.Key(), ballot, b.base.ID, may, cast.key, cast.ballot)
		}
	}
	return nil
}

// checkInForce checks that a view that a process takes for the one in force was decided, and that
// no other one with its number was.
func (w *world) checkInForce(p *process, v *views.View) error {
	if v == nil {
		return nil
	}
	known := w.history.inForce[v.ID]
	switch {
	case known != nil && known.Key() != v.Key():
		return violated("Y6", "node %d takes view %d (%s) for the one in force, and another one has that number (%s)", p.self.ID, v.ID, v.Key(), known.Key())
	case known != nil:
		return nil
	}
	w.history.inForce[v.ID] = v
	base := w.history.inForce[v.ID-1]
	if base == nil {
		return nil
	}
	if r := w.history.byKey[base.Key()]; r != nil && r.decides(v.Key()) {
		return nil
	}
	alone := []order.NodeID{p.self.ID} // its own vote may come to its disk together with the decision
	if quorumOf(base, alone) {
		return nil
	}
	b := w.history.ballotsOf(base)
	for cast, who := range b.votes {
		if cast.key == v.Key() && quorumOf(base, append(alone, who...)) {
			return nil
		}
	}
	return violated("Y6", "node %d takes view %d for the one in force, and no quorum of view %d voted for it", p.self.ID, v.ID, base.ID)
}

// noteInForce notes a view that is on a process's disk as it comes back.
func (w *world) noteInForce(v *views.View) {
	if v != nil && w.history.inForce[v.ID] == nil {
		w.history.inForce[v.ID] = v
	}
}

// decides reports whether some ballot of the view itself decided on a next view.
func (r *viewRecord) decides(key string) bool {
	for _, k := range r.decided {
		if k == key {
			return true
		}
	}
	return false
}

// checkReady checks that a quorum of a view's members have their logs ready, as one of the
// processes that came back enters it.
func (w *world) checkReady(p *process, v *views.View) error {
	base := w.history.inForce[v.ID-1]
	if base == nil {
		return nil
	}
	if who := w.history.ballotsOf(base).ready[v.Key()]; !quorumOf(v, who) {
		return violated("Y4", "node %d enters view %d after a restart, and those whose logs are ready for it are %v", p.self.ID, v.ID, who)
	}
	return nil
}

// checkDecides checks that a leader that says how its ballot ended has heard of a quorum of votes
// in it.
func (w *world) checkDecides(p *process, m restart.Message) error {
	b := w.history.ballotsOf(p.base)
	if who := append(slices.Clone(b.heard[answer{m.Ballot, restart.Vote}]), p.self.ID); !quorumOf(b.base, who) {
		return violated("Y6", "node %d decides on view %d in ballot %v, and those whose votes it has heard are %v", p.self.ID, m.Next.View.ID, m.Ballot, who)
	}
	if !m.Enter {
		return nil
	}
	return w.checkEnters(p, m)
}

// noteAnswer notes that an answer comes to the leader of its ballot.
func (w *world) noteAnswer(p *process, m restart.Message) {
	if v := p.memory.State().View; v != nil && m.Key == v.Key() {
		note(w.history.ballotsOf(v).heard, answer{m.Ballot, m.Verb}, m.From.ID)
	}
}

// checkEnters checks that a leader lets the processes whose logs are ready for a view enter it only
// if they are a quorum of its members, and promised its ballot: processes of an earlier attempt may
// have ended since. The leader promised it as it began; if it is a quorum alone, that comes to its
// disk together with the decision.
func (w *world) checkEnters(p *process, m restart.Message) error {
	b, v := w.history.ballotsOf(p.base), m.Next.View
	var ready []order.NodeID
	for _, one := range v.Members {
		leads := one.ID == p.self.ID && one.Incarnation == p.self.Incarnation
		if (leads || slices.Contains(b.given[m.Ballot], incarnation{one.ID, one.Incarnation})) && slices.Contains(b.ready[v.Key()], one.ID) {
			ready = append(ready, one.ID)
		}
	}
	if !quorumOf(v, ready) {
		return violated("Y4", "node %d has view %d entered in ballot %v, and those that promised it and have their logs ready are %v", p.self.ID, v.ID, m.Ballot, ready)
	}
	return nil
}

// checkWhole checks that a process that learns of a view does not take a log for incomplete that it
// has whole (Y7): its disk has it whole in one view, its former process installed the next one,
// which the disk may know by its echo alone, and is a member of the view that is learned; and in
// neither of the two it is fresh in the shard.
func (w *world) checkWhole(p *process, before, now restart.State) error {
	if before.View == nil || now.View == nil || now.Restarted || now.View.ID != before.View.ID+2 {
		return nil
	}
	r := w.history.byID[before.View.ID+1]
	rank, ok := now.View.RankOf(p.self.ID)
	if r == nil || !ok || !before.Counts(now.View) || !before.Counts(before.View) {
		return nil
	}
	q := w.processOf(now.View.Members[rank])
	if was, _ := before.View.RankOf(p.self.ID); q.seatIn(r) == nil || before.View.Members[was].Incarnation != now.View.Members[rank].Incarnation {
		return nil
	}
	for _, lack := range now.Incomplete {
		whole := !slices.ContainsFunc(before.Incomplete, func(l restart.IncompleteLog) bool { return l.LogID == lack.LogID })
		for _, v := range []*views.View{before.View, r.view, now.View} {
			rank, _ := v.RankOf(p.self.ID)
			whole = whole && slices.ContainsFunc(v.Subgroups, func(sg views.Subgroup) bool {
				return sg.Name == lack.Name && sg.Shard == lack.Shard && sg.Has(rank) && (v == before.View || !slices.Contains(sg.Fresh, rank))
			})
		}
		if whole {
			return violated("Y7", "node %d learns of view %d, and takes its log of %v for incomplete, which was whole in view %d", p.self.ID, now.View.ID, lack.LogID, before.View.ID)
		}
	}
	return nil
}

// noteReady notes that a process's logs are where they were agreed to be.
func (w *world) noteReady(p *process) {
	if key := p.core.LogsFor(); key != "" {
		note(w.history.ballotsOf(p.base).ready, key, p.self.ID)
	}
}
