package shard

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Sources chooses which of several members is asked next: each once in a round, and members that
// refused never again.
type Sources struct {
	Pauses  wait.Backoff // before the next round
	tried   []order.NodeID
	refused []order.NodeID
}

// Next returns the next of some candidates that is to be asked. If all of them were asked in this
// round, the next round begins after a pause. None are left if there are no candidates, or all of
// them refused.
func (s *Sources) Next(candidates []views.Member) (source views.Member, pause time.Duration, left bool) {
	for _, m := range candidates {
		if slices.Contains(s.refused, m.ID) {
			continue
		}
		if left = true; !slices.Contains(s.tried, m.ID) {
			s.tried = append(s.tried, m.ID)
			return m, 0, true
		}
	}
	s.tried = nil
	return source, s.Pauses.Next(), left
}

// Left reports whether any of some candidates has not refused.
func (s *Sources) Left(candidates []views.Member) bool {
	return slices.ContainsFunc(candidates, func(m views.Member) bool { return !slices.Contains(s.refused, m.ID) })
}

// Refused notes that a source will never give the state or the log.
func (s *Sources) Refused(id order.NodeID) { s.refused = append(s.refused, id) }

// Progress notes that a source gave something: the next pause is the first one again.
func (s *Sources) Progress() { s.Pauses.Reset() }

// StateSources are the members that have the state of a subgroup as a view begins, in the order in
// which a fresh member asks them: fresh members begin at different ones. Members that the view does
// not mark as having all of the state come last.
func StateSources(v *views.View, subgroup int, self order.NodeID) []views.Member {
	sg := v.Subgroups[subgroup]
	var list, late []views.Member
	for _, r := range sg.Members {
		switch m := v.Members[r]; {
		case slices.Contains(sg.Fresh, r):
		case slices.Contains(sg.Partial, r):
			late = append(late, m)
		default:
			list = append(list, m)
		}
	}
	if len(list) > 0 {
		rank, _ := v.RankOf(self)
		first := max(0, slices.Index(sg.Fresh, rank)) % len(list)
		list = append(list[first:len(list):len(list)], list[:first]...)
	}
	return append(list, late...)
}

// freshPeers are the other members that are fresh in a subgroup of a view. A peer that has got the
// state has it as of the begin of the view, until its application gets the messages delivered
// since.
func freshPeers(v *views.View, subgroup int, self order.NodeID) (list []views.Member) {
	for _, r := range v.Subgroups[subgroup].Fresh {
		if m := v.Members[r]; m.ID != self {
			list = append(list, m)
		}
	}
	return list
}

// LogSources are the members that have all of a shard's log, as far as a view says, and then the
// other members of the shard, which may have enough of it: a member that had all of it may have
// ended, and have come back with its disk.
func LogSources(v *views.View, name string, shard int, self order.NodeID) []views.Member {
	complete, partial := logHolders(v, name, shard, self)
	return append(complete, partial...)
}

// logHolders returns the other members of a shard in two lists: the members that have all of its
// log according to the view, and the others.
func logHolders(v *views.View, name string, shard int, self order.NodeID) (complete, partial []views.Member) {
	for _, sg := range v.Shards(name) {
		if sg.Shard != shard {
			continue
		}
		for _, r := range sg.Members {
			switch m := v.Members[r]; {
			case m.ID == self:
			case slices.Contains(sg.Partial, r):
				partial = append(partial, m)
			default:
				complete = append(complete, m)
			}
		}
	}
	return complete, partial
}

// StillWants reports whether a member that became fresh in an earlier view wants that view's state
// in a later one. If it is out of the subgroup it does not, and if it is fresh once more it wants a
// newer one.
func StillWants(v *views.View, subgroup int, m views.Member) bool {
	r, ok := v.RankOf(m.ID)
	sg := v.Subgroups[subgroup]
	return ok && v.Members[r] == m && sg.Has(r) && !slices.Contains(sg.Fresh, r)
}
