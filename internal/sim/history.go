package sim

import (
	"encoding/json"
	"slices"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// history is what happened to the group: its views, in every version that any process made of them.
type history struct {
	byKey map[string]*viewRecord // leaders give every view that they make a key of its own
	byID  map[order.ViewID]*viewRecord
	last  *viewRecord // the latest view that some process installed
	// inForce has the view that was in force first with a number, as far as disks of processes that
	// come back tell, and ballots what they promised and voted, by the key of the view before.
	inForce map[order.ViewID]*views.View
	ballots map[string]*ballots
	// keys of the views that processes that came back voted for, by the key of the view before
	votes map[string][]string
}

func newHistory() history {
	return history{
		byKey: map[string]*viewRecord{}, byID: map[order.ViewID]*viewRecord{}, votes: map[string][]string{},
		inForce: map[order.ViewID]*views.View{}, ballots: map[string]*ballots{},
	}
}

// viewRecord is one view.
type viewRecord struct {
	number uint64 // from 1
	view   *views.View
	begun  *views.View // as it was first installed
	procs  []*process  // by rank
	groups []*group    // by subgroup
	wild   []bool      // by rank: installed there

	// the key of the next view, or that there is none, that a ballot decided on
	decided     map[viewchange.Ballot]string
	proposed    map[viewchange.Ballot]*process
	end         *viewchange.Decision // of the highest ballot so far
	ballot      viewchange.Ballot    // of end
	leadersDied int
}

// theEnd stands for the key of the view after the last one.
const theEnd = "the end"

// record returns what is known of a view; it begins when a process first lays it out.
func (w *world) record(v *views.View) *viewRecord {
	if r := w.history.byKey[v.Key()]; r != nil {
		return r
	}
	r := &viewRecord{number: uint64(len(w.history.byKey)) + 1, view: v, wild: make([]bool, len(v.Members)), decided: map[viewchange.Ballot]string{}, proposed: map[viewchange.Ballot]*process{}}
	w.history.byKey[v.Key()] = r
	if w.history.byID[v.ID] == nil {
		w.history.byID[v.ID] = r
	}
	for _, m := range v.Members {
		r.procs = append(r.procs, w.processOf(m))
	}
	for i, sg := range v.Subgroups {
		r.groups = append(r.groups, newGroup(w, r, i, sg))
	}
	return r
}

// processOf is the process that a member record names.
func (w *world) processOf(m views.Member) *process {
	i := slices.IndexFunc(w.procs, func(p *process) bool {
		return p.self.ID == m.ID && (p.self.Incarnation == m.Incarnation || p.former == m.Incarnation)
	})
	return w.procs[i]
}

func viewText(v *views.View) string {
	text, err := json.Marshal((*viewchange.Keyed)(v))
	if err != nil {
		panic(err) // it is numbers and strings
	}
	return string(text)
}

// before is the view that a view followed, or nil.
func (w *world) before(r *viewRecord) *viewRecord { return w.history.byID[r.view.ID-1] }

// has reports whether a process is a member.
func (r *viewRecord) has(p *process) bool { return slices.Contains(r.procs, p) }

// quorum is G5, once more: a strict majority of a view's members, or exactly half with the senior
// one.
func (r *viewRecord) quorum(in func(*process) bool) bool {
	count := 0
	for _, p := range r.procs {
		if in(p) {
			count++
		}
	}
	return 2*count > len(r.procs) || 2*count == len(r.procs) && in(r.procs[0])
}

// declaration is which one a subgroup belongs to.
func (w *world) declaration(sg views.Subgroup) int {
	return slices.IndexFunc(w.plan.Decls, func(d views.Declaration) bool { return d.Name == sg.Name })
}
