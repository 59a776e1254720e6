package sim

import (
	"slices"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// restartChecker checks Y2 to Y6: what follows a view by a restart is decided as the ballots say. A
// leader counts only promises for its own ballot, and only votes in it, all of which are on disks;
// one view has one successor, on all disks; and a view is entered only when a quorum of its members
// have their logs where they were agreed to be.
type restartChecker struct{ unconcerned }

func (restartChecker) name() string { return "restart" }

// ballots is what was promised, voted and made ready on disks after one view, by node.
type ballots struct {
	base     *views.View
	promises map[restart.Ballot][]order.NodeID
	votes    map[vote][]order.NodeID
	highest  map[order.NodeID]restart.Ballot // that a node has promised
	ready    map[string][]order.NodeID       // whose logs are where they were agreed to be, by the key of the next view
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
		b = &ballots{base: base, promises: map[restart.Ballot][]order.NodeID{}, votes: map[vote][]order.NodeID{}, highest: map[order.NodeID]restart.Ballot{}, ready: map[string][]order.NodeID{}}
		h.ballots[base.Key()] = b
	}
	return b
}

// quorum reports whether some nodes are a quorum of a view.
func quorumOf(v *views.View, nodes []order.NodeID) bool {
	var set views.Ranks
	for r, m := range v.Members {
		set = set.With(order.Rank(r), slices.Contains(nodes, m.ID))
	}
	return views.Quorum(len(v.Members), set)
}

func noteNode[K comparable](m map[K][]order.NodeID, k K, id order.NodeID) {
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
	noteNode(b.promises, s.Promised, p.self.ID)
	b.highest[p.self.ID] = s.Promised
	if s.Accepted != nil {
		noteNode(b.votes, vote{s.Accepted.Ballot, s.Accepted.View.Key()}, p.self.ID)
	}
}

// checkLeads checks that those that promised a ballot are a quorum, as its leader chooses the view
// that it puts to the vote, and that no other view has a quorum of votes in a lower ballot, or may
// still get one.
func (w *world) checkLeads(p *process, ballot restart.Ballot, next *views.View) error {
	b := w.history.ballotsOf(p.base)
	if who := append(slices.Clone(b.promises[ballot]), p.self.ID); !quorumOf(b.base, who) {
		return violated("Y3", "node %d goes on with ballot %v after view %d, and those that have promised it are %v", p.self.ID, ballot, b.base.ID, who)
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

// checkReady checks that a quorum of a view's members have their logs ready, as one of those that
// came back enters it.
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

// noteReady notes that a process's logs are where they were agreed to be.
func (w *world) noteReady(p *process) {
	if key := p.core.LogsFor(); key != "" {
		noteNode(w.history.ballotsOf(p.base).ready, key, p.self.ID)
	}
}
