package restart

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// LogID names the log of one shard of a subgroup; it converts from and to that of package persist.
type LogID struct {
	Name  string `json:"name"`
	Shard int    `json:"shard,omitempty"`
}

func (id LogID) String() string { return fmt.Sprintf("%s.%d", id.Name, id.Shard) }

// IncompleteLog is a log that lacks something.
type IncompleteLog struct {
	LogID
	// Since is the view in which it came to be so: what was begun in an earlier one does not end it.
	Since order.ViewID `json:"since,omitempty"`
}

// lacks reports whether a log lacks something.
func (s *State) lacks(id LogID) bool {
	return slices.ContainsFunc(s.Incomplete, func(l IncompleteLog) bool { return l.LogID == id })
}

// Lacking are the logs that lack something.
func (s *State) Lacking() (ids []LogID) {
	for _, l := range s.Incomplete {
		ids = append(ids, l.LogID)
	}
	return ids
}

// LogEnd is how far a process's log goes, durably.
type LogEnd struct {
	ID   LogID         `json:"id"`
	Last order.Version `json:"last"` // zero: there is no record
}

// Ballot numbers an attempt to decide what follows a view by a restart. The zero value is none; all
// others are above the ballots of changes within the view.
type Ballot struct {
	Round uint64       `json:"round"`
	Node  order.NodeID `json:"node"` // the process that leads it
}

// Compare orders ballots by round, then by node: -1, 0 or 1.
func (b Ballot) Compare(o Ballot) int {
	return cmp.Or(cmp.Compare(b.Round, o.Round), cmp.Compare(b.Node, o.Node))
}

func (b Ballot) String() string { return fmt.Sprintf("%d of node %d", b.Round, b.Node) }

// Successor is a view that follows another one.
type Successor struct {
	View *views.View `json:"view"`
	// Restarted says that a restart made it, and not a change within the view before: each of its
	// members had its logs at the agreed ends before the view was put to the vote.
	Restarted bool `json:"restarted,omitempty"`
	// Secret is that of the group, of the first view that has an identity after one of an earlier
	// format; otherwise empty.
	Secret string `json:"secret,omitempty"`
}

// Accepted is what a process voted for, in which ballot.
type Accepted struct {
	Ballot Ballot `json:"ballot"`
	Successor
}

// Echo is the decision of a change within a view that a member copied into its row. View is nil if
// it was to end the group: nothing follows then, and a restart is free to choose.
type Echo struct {
	Ballot viewchange.Ballot `json:"ballot"`
	View   *views.View       `json:"view,omitempty"`
}

// State is what a process knows durably of its group. It is a value: what it points to is never
// changed.
type State struct {
	Node order.NodeID
	// Incarnations are the incarnations under which processes with this disk were, or may have
	// become, members; the newest last.
	Incarnations []uint64
	Successor    // the last view known to be in force; its View is nil before there is one
	// What follows it: Echo is from within the view, Promised and Accepted are of restarts.
	Echo     *Echo
	Promised Ballot
	Accepted *Accepted
	// Incomplete are the logs of this process's shards in View that lack more than an end.
	Incomplete []IncompleteLog
	// Former are processes that were members of the group and are none of View, the latest last.
	Former []Former
	// Disk is the number of this disk, which no other disk has: the incarnation of the first
	// process that used it. A disk that loses a part of a log gets a new number. 0: no process has
	// used it yet.
	Disk uint64
	// GaveUp has the marks of disks whose logs an operator gave up here.
	GaveUp string
	// Secret is that of the group of View; none while View is of an earlier format.
	Secret views.Secret
	// Before is the key of the view of an earlier format that was in force before the group got its
	// identity; empty: it always had one.
	Before string
}

// maxIncarnations bounds State.Incarnations. If a process was started more often than that without
// becoming a member, a view that names its oldest incarnations does not recognize it.
const maxIncarnations = 256

// begin notes the incarnation under which this process may become a member.
func (s *State) begin(m views.Member) {
	s.Node = m.ID
	if slices.Contains(s.Incarnations, m.Incarnation) {
		return
	}
	s.Incarnations = append(slices.Clone(s.Incarnations), m.Incarnation)
	if len(s.Incarnations) <= maxIncarnations {
		return
	}
	oldest := slices.IndexFunc(s.Incarnations, func(incarnation uint64) bool { return !s.named(incarnation) })
	s.Incarnations = slices.Delete(s.Incarnations, oldest, oldest+1)
}

// named reports whether a process of this node is a member of the view in force, or of one that may
// follow it.
func (s *State) named(incarnation uint64) bool {
	return slices.ContainsFunc(s.possible(), func(v *views.View) bool {
		r, ok := v.RankOf(s.Node)
		return ok && v.Members[r].Incarnation == incarnation
	})
}

// Counts reports whether this disk is the disk of a member of the view (Y1).
func (s *State) Counts(v *views.View) bool {
	if v == nil {
		return false
	}
	r, ok := v.RankOf(s.Node)
	return ok && slices.Contains(s.Incarnations, v.Members[r].Incarnation)
}

// Is reports whether a view is the one in force.
func (s *State) is(v *views.View) bool { return s.View != nil && same(s.View, v) }

func same(a, b *views.View) bool { return a.ID == b.ID && a.Key() == b.Key() }

// move takes a view that is known to be in force. What was said about the successor of the one
// before is settled by it.
func (s *State) move(next Successor) {
	if e := s.Echo; !(mutant.Enabled && mutant.On(mutant.WholeForgotten)) && e != nil && e.View != nil && next.View.ID == e.View.ID+1 && s.stays(e.View, next.View) {
		s.move(Successor{View: e.View}) // a member of the view after it had installed it, which may not be on the disk
	}
	s.Incomplete, s.Former = s.lacking(next), s.former(next.View)
	if s.View != nil && s.View.Group == "" && next.View.Group != "" {
		s.Before = s.View.Key()
		if next.Secret != "" {
			s.Secret = views.NewSecret(next.Secret)
		}
	}
	s.Successor, s.Echo, s.Promised, s.Accepted = next, nil, Ballot{}, nil
}

// stays reports whether one process with this disk is in both views.
func (s *State) stays(a, b *views.View) bool {
	r, ok := a.RankOf(s.Node)
	q, also := b.RankOf(s.Node)
	return ok && also && a.Members[r].Incarnation == b.Members[q].Incarnation
}

// lacking are the logs of this process's shards in the next view that it does not have whole.
// Before a restart's view all members had theirs at the agreed ends: what still lacks something has
// lost it since.
func (s *State) lacking(next Successor) (lacking []IncompleteLog) {
	rank, ok := next.View.RankOf(s.Node)
	if !ok {
		return nil
	}
	for _, sg := range next.View.Subgroups {
		if !sg.Has(rank) {
			continue
		}
		if i := slices.IndexFunc(s.Incomplete, func(l IncompleteLog) bool { return l.LogID == idOf(sg) }); i >= 0 && !slices.Contains(sg.Fresh, rank) {
			lacking = append(lacking, s.Incomplete[i])
		} else if !next.Restarted && !s.whole(next.View, sg, rank) {
			lacking = append(lacking, IncompleteLog{idOf(sg), next.View.ID})
		}
	}
	return lacking
}

// whole reports whether this process has a log whole up to some point, when a change within a view
// made the next one. A process that is fresh in a shard has nothing of it, unless all are: then the
// shard begins.
func (s *State) whole(next *views.View, sg views.Subgroup, rank order.Rank) bool {
	if slices.Contains(sg.Fresh, rank) {
		return false
	}
	if s.View == nil || !s.stays(s.View, next) {
		return true // it comes with this view: a member of the one before had installed that
	}
	return next.ID == s.View.ID+1 && !s.lacks(idOf(sg))
}

func idOf(sg views.Subgroup) LogID { return LogID{sg.Name, sg.Shard} }
