package sim

import (
	"fmt"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

type message = multicast.Message

// appState is what an application that has a state keeps of what it was given in a shard: a digest
// of all of it, in order.
type appState struct {
	here   bool // false: it has none, or is about to get one
	digest uint64
	at     order.Version // of the last message in it
}

// offered is what a member keeps for the members that are fresh in a shard.
type offered struct {
	state appState
	image []byte        // of an application that is not drawn
	last  order.Version // where the log ends
}

// add applies a message.
func (s *appState) add(v order.Version, sender order.NodeID, data []byte) {
	const prime = 1099511628211
	mix := func(x uint64) { s.digest = (s.digest ^ x) * prime }
	mix(uint64(v.View))
	mix(uint64(v.Seq))
	mix(uint64(sender))
	for _, b := range data {
		mix(uint64(b))
	}
	s.digest ^= s.digest >> 29
	s.at = v
}

// stateChecker checks that a state is transferred at its boundary: applications of a shard that
// have delivered the same message have the same state, whether they delivered all messages before
// it or took over a state. It checks that nothing is delivered to an application without a state.
type stateChecker struct{ unconcerned }

func (stateChecker) name() string { return "state" }

func (stateChecker) taken(w *world, d *delivery) error {
	if !w.hasState(d.group.decl) {
		return nil
	}
	s := &d.proc().stays[d.group.decl].state
	if !s.here {
		return violated("state", "%v is delivered, and its application has no state of the shard", d)
	}
	s.add(d.Version(), d.Message.Sender, d.Data)
	return w.checkDigest(d.proc(), w.shardOf(d.group.sg), s)
}

// checkDigest compares a state with the states of others at the same place.
func (w *world) checkDigest(p *process, id shardID, s *appState) error {
	h := w.states[id]
	if h == nil {
		h = map[order.Version]uint64{}
		w.states[id] = h
	}
	digest, known := h[s.at]
	if known && digest != s.digest {
		return violated("state", "node %d: the state of %s at %v is %x, and others had %x there", p.self.ID, fmt.Sprint(w.logID(id)), s.at, s.digest, digest)
	}
	h[s.at] = s.digest
	return nil
}

// checkRestored compares a state that was taken over.
func (w *world) checkRestored(r *receiver, s appState) error {
	p := r.stays.proc
	switch {
	case !w.hasState(r.stays.decl):
		return nil
	case !s.here:
		return violated("state", "node %d restores a state of a member that has none", p.self.ID)
	case s.at == order.Version{}:
		return nil
	case s.at.View >= r.view.ID:
		return violated("state", "node %d restores a state at %v, and its stay begins with view %d", p.self.ID, s.at, r.view.ID)
	}
	return w.checkDigest(p, w.shardOf(r.view.Subgroups[r.index]), &s)
}

// end checks that all that go on in a shard have come to the same state.
func (stateChecker) end(w *world) error {
	if !w.goesOn() {
		return nil
	}
	for _, g := range w.history.last.groups {
		if !w.hasState(g.decl) {
			continue
		}
		var first *process
		for _, rd := range g.readers {
			s, p := &rd.proc.stays[g.decl].state, rd.proc
			switch {
			case p.over || p.told:
			case !s.here:
				return violated("state", "node %d still has no state of %q", p.self.ID, g.sg.Name)
			case first == nil:
				first = p
			case *s != first.stays[g.decl].state:
				return violated("state", "node %d has the state of %q as of %v, and node %d as of %v, in the end", p.self.ID, g.sg.Name, s.at, first.self.ID, first.stays[g.decl].state.at)
			}
		}
	}
	return nil
}

// orphaned reports whether a process waits for a state that each member which had it as the stay
// began has lost.
func (p *process) orphaned() bool {
	w, now := p.world, p.seat().record
	for _, h := range p.stays {
		if !h.getsState() {
			continue
		}
		r, left := h.receivers[len(h.receivers)-1], false
		for _, m := range shard.StateSources(r.view, r.index, p.self.ID) {
			q := w.processOf(m)
			left = left || !q.over && !q.told && now.has(q) && q.stays[h.decl].holds(r)
		}
		if !left {
			return true
		}
	}
	return false
}

// holds reports whether a process is still in a stay that had the state as another one's stay
// began.
func (h *stays) holds(of *receiver) bool {
	own := h.receivers[len(h.receivers)-1]
	return own.Whole() && !own.over && own.view.Subgroups[own.index].Shard == of.view.Subgroups[of.index].Shard && own.view.ID < of.view.ID
}

// states draws which declarations have states.
func (d dice) states(p *Plan) {
	for i, decl := range p.Decls {
		// members move from one shard to the next, and back
		if decl.Mode == views.Ordered && decl.ShardCount() > 1 && d.oneIn(2) {
			p.Decls[i].LayoutName = turning
		}
		if decl.Mode != views.Unordered && d.oneIn(2) {
			p.States |= 1 << i
		}
	}
}
