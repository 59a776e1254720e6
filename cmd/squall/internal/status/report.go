package status

import (
	"fmt"
	"math"
	"slices"

	"github.com/squall-go/squall"
)

// Report is what "squall status --json" prints.
type Report struct {
	Cluster  string           `json:"cluster"`
	Group    string           `json:"group"`
	View     squall.ViewID    `json:"view"`
	Members  []Member         `json:"members"`
	Problems []string         `json:"problems"` // empty: the group is well
	Statuses []*squall.Status `json:"statuses"` // of the members that answered
}

// Member is one member of the group.
type Member struct {
	Node  squall.NodeID `json:"node"`
	Addr  string        `json:"addr"`
	Ready bool          `json:"ready"`
	Error string        `json:"error,omitempty"` // why it did not answer
}

// newReport compares what the members of the view of the first status said; errs has the members
// that did not answer.
func newReport(first *squall.Status, answers []*squall.Status, errs map[squall.NodeID]error) *Report {
	r := &Report{Cluster: first.Cluster, Group: first.Group, View: first.View, Problems: []string{}}
	for _, m := range first.Members {
		row := Member{Node: m.Node, Addr: m.Addr}
		s := find(answers, m.Node)
		switch {
		case s == nil:
			row.Error = errs[m.Node].Error()
			r.problem("member %d does not answer: %v", m.Node, errs[m.Node])
		case s.Group != first.Group:
			row.Error = "it is in another group"
			r.problem("member %d at %s is in another group of the name %q (%s, not %s)", m.Node, m.Addr, s.Cluster, s.Group, first.Group)
		default:
			row.Ready = s.Ready
			r.Statuses = append(r.Statuses, s)
			if !s.Ready {
				r.problem("member %d is not ready: %s", m.Node, s.Reason)
			}
			if s.View != first.View {
				r.problem("member %d is in view %d, and member %d in view %d", m.Node, s.View, first.Node, first.View)
			}
			r.suspicions(s)
		}
		r.Members = append(r.Members, row)
	}
	r.compareStates()
	return r
}

func find(answers []*squall.Status, id squall.NodeID) *squall.Status {
	if i := slices.IndexFunc(answers, func(s *squall.Status) bool { return s.Node == id }); i >= 0 {
		return answers[i]
	}
	return nil
}

// problem notes what is wrong, once.
func (r *Report) problem(format string, args ...any) {
	if p := fmt.Sprintf(format, args...); !slices.Contains(r.Problems, p) {
		r.Problems = append(r.Problems, p)
	}
}

func (r *Report) suspicions(s *squall.Status) {
	for _, m := range s.Members {
		if m.Suspected {
			r.problem("member %d suspects member %d", s.Node, m.Node)
		}
	}
}

// compareStates compares hashes that are of the same position of the same shard.
func (r *Report) compareStates() {
	type key struct {
		name     string
		shard    int
		position uint64
	}
	type hash struct {
		sum  uint64
		node squall.NodeID
	}
	first := map[key]hash{}
	for _, s := range r.Statuses {
		for _, sg := range s.Subgroups {
			if sg.State == nil {
				continue
			}
			k := key{sg.Name, sg.Shard, sg.State.Position}
			h, seen := first[k]
			if !seen {
				first[k] = hash{sg.State.Sum, s.Node}
			} else if h.sum != sg.State.Sum {
				r.problem("the states of %q at members %d and %d differ at position %d", sg.Name, h.node, s.Node, sg.State.Position)
			}
		}
	}
}

// askers returns members that together are in every shard in which some member answers.
func (r *Report) askers() (all []*squall.Status) {
	type key struct {
		name  string
		shard int
	}
	asked := map[key]bool{}
	for _, s := range r.Statuses {
		adds := false
		for _, sg := range s.Subgroups {
			if k := (key{sg.Name, sg.Shard}); sg.Here && !asked[k] {
				asked[k], adds = true, true
			}
		}
		if adds {
			all = append(all, s)
		}
	}
	return all
}

// hashed reports whether the members of each shard have hashes of one position, or none has a hash.
func (r *Report) hashed() bool {
	for _, t := range r.shards() {
		positions := map[uint64]bool{}
		for _, w := range t.rows {
			if w.own != nil && w.own.State != nil {
				positions[w.own.State.Position] = true
			} else if w.own != nil {
				positions[math.MaxUint64] = true
			}
		}
		if len(positions) > 1 {
			return false
		}
	}
	return true
}

// shard is one shard of a subgroup, as all members that answered know it.
type shard struct {
	squall.SubgroupStatus // of the first member that reports it
	rows                  []row
}

// row is a member of a shard.
type row struct {
	node     squall.NodeID
	progress squall.ProgressStatus
	known    bool                   // its progress is known
	own      *squall.SubgroupStatus // what it reports; nil: it did not answer
}

// shards returns every shard with its members. What a member that did not answer has done is what
// another member sees.
func (r *Report) shards() (all []shard) {
	for _, s := range r.Statuses {
		for _, sg := range s.Subgroups {
			i := slices.IndexFunc(all, func(t shard) bool { return t.Name == sg.Name && t.Shard == sg.Shard })
			if i < 0 {
				i = len(all)
				all = append(all, shard{SubgroupStatus: sg})
				for _, id := range sg.Members {
					all[i].rows = append(all[i].rows, row{node: id})
				}
			}
			all[i].add(s.Node, sg)
		}
	}
	return all
}

func (t *shard) add(from squall.NodeID, sg squall.SubgroupStatus) {
	for _, p := range sg.Progress {
		i := slices.IndexFunc(t.rows, func(r row) bool { return r.node == p.Node })
		if i < 0 { // in another view
			continue
		}
		if w := &t.rows[i]; !w.known || from == p.Node {
			w.progress, w.known = p, true
		}
		if from == p.Node {
			t.rows[i].own = &sg
		}
	}
}

// lag is how many positions a member is short of the member that has most.
func (t *shard) lag(of func(squall.ProgressStatus) uint64, w row) uint64 {
	var most uint64
	for _, other := range t.rows {
		if other.known {
			most = max(most, of(other.progress))
		}
	}
	return most - of(w.progress)
}
