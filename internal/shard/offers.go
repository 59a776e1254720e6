package shard

import (
	"slices"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Offers are the states of shards that a member keeps, or will keep, for fresh members of these
// shards. S is the type of a state.
//
// Life of an offer: expected (a view with fresh members is installed) → taken (Put: what is
// delivered has reached the boundary of that view) → forgotten (no fresh member waits for it any
// more). Or it is withheld: this member will have no state to offer.
type Offers[S any] struct {
	Self order.NodeID
	// Keeps reports whether members hand over states of a subgroup.
	Keeps func(name string) bool
	// Ends is called with each wait that ends; nil: not called.
	Ends func(*Wait)
	list []*Offer[S]
}

// Offer is the state of a subgroup where the deliveries of a view begin.
type Offer[S any] struct {
	View    *views.View
	Index   int // of the subgroup
	State   S   // if it is taken
	waiting []*Wait
	taken   bool
	none    bool // there will be no state
}

// Wait is a fresh member that waits for a state.
type Wait struct {
	Member views.Member
	Over   bool
}

// Subgroup is the one whose state is offered.
func (f *Offer[S]) Subgroup() views.Subgroup { return f.View.Subgroups[f.Index] }

// Answer is what a fresh member is told that asks for a state.
type Answer uint8

// Answers to a fresh member.
const (
	Granted  Answer = iota + 1
	NotTaken        // deliveries have not reached the boundary yet
	NotKept         // there is no state here
	NotWaits        // it does not wait any more, as far as is known here
)

// Installed forgets states that no member of a view waits for, and expects the states that the view
// asks for.
func (o *Offers[S]) Installed(v *views.View) {
	for _, f := range o.list {
		o.leave(f, func(w *Wait) bool { return !StillWants(v, f.Index, w.Member) })
	}
	o.sweep()
	for i := range v.Subgroups {
		if f := o.expected(v, i); f != nil {
			o.list = append(o.list, f)
		}
	}
}

// expected is the offer that this member has to make for a subgroup, if any.
func (o *Offers[S]) expected(v *views.View, i int) *Offer[S] {
	sg := v.Subgroups[i]
	self, ok := v.RankOf(o.Self)
	if !ok || !sg.Has(self) {
		return nil
	}
	f := &Offer[S]{View: v, Index: i, none: !o.Keeps(sg.Name)}
	for _, m := range freshPeers(v, i, o.Self) {
		f.waiting = append(f.waiting, &Wait{Member: m})
	}
	if len(f.waiting) == 0 {
		return nil
	}
	return f
}

// leave ends some waits for an offer.
func (o *Offers[S]) leave(f *Offer[S], ends func(*Wait) bool) {
	f.waiting = slices.DeleteFunc(f.waiting, func(w *Wait) bool {
		if w.Over = ends(w); w.Over && o.Ends != nil {
			o.Ends(w)
		}
		return w.Over
	})
}

// sweep drops the states that no member waits for.
func (o *Offers[S]) sweep() {
	o.list = slices.DeleteFunc(o.list, func(f *Offer[S]) bool { return len(f.waiting) == 0 })
	if !invariants.Enabled {
		return
	}
	for i, f := range o.list {
		for _, w := range f.waiting {
			again := slices.ContainsFunc(o.list[:i], func(g *Offer[S]) bool { return g.Index == f.Index && g.wait(w.Member.ID) != nil })
			invariants.Check(!again, "X1", "node %d waits for two states of subgroup %d", w.Member.ID, f.Index)
		}
	}
}

// Find returns the offer of a view's subgroup; nil: there is none.
func (o *Offers[S]) Find(view order.ViewID, subgroup int) *Offer[S] {
	i := slices.IndexFunc(o.list, func(f *Offer[S]) bool { return f.View.ID == view && f.Index == subgroup })
	if i < 0 {
		return nil
	}
	return o.list[i]
}

// Wanted reports whether a member waits for a state that was not taken yet.
func (o *Offers[S]) Wanted(view order.ViewID, subgroup int) bool {
	f := o.Find(view, subgroup)
	return f != nil && !f.none && !f.taken
}

// Put keeps a state, if a member still waits for it.
func (o *Offers[S]) Put(view order.ViewID, subgroup int, state S) {
	if f := o.Find(view, subgroup); f != nil {
		f.State, f.taken = state, true
	}
}

// Withhold notes that there will be no state.
func (o *Offers[S]) Withhold(view order.ViewID, subgroup int) {
	if f := o.Find(view, subgroup); f != nil {
		f.none = true
	}
}

// Ask is the answer to a fresh member that asks for an offer's state.
func (o *Offers[S]) Ask(f *Offer[S], node order.NodeID) (*Wait, Answer) {
	w := f.wait(node)
	switch {
	case w == nil:
		return nil, NotWaits
	case f.none:
		return w, NotKept
	case !f.taken:
		return w, NotTaken
	}
	return w, Granted
}

func (f *Offer[S]) wait(node order.NodeID) *Wait {
	i := slices.IndexFunc(f.waiting, func(w *Wait) bool { return w.Member.ID == node })
	if i < 0 {
		return nil
	}
	return f.waiting[i]
}

// Done ends the wait of a member that has the state.
func (o *Offers[S]) Done(f *Offer[S], node order.NodeID) {
	o.leave(f, func(w *Wait) bool { return w.Member.ID == node })
	o.sweep()
}

// Awaited returns the subgroups for whose states members wait.
func (o *Offers[S]) Awaited() (subgroups []int) {
	for _, f := range o.list {
		if !f.none {
			subgroups = append(subgroups, f.Index)
		}
	}
	return subgroups
}

// Clear forgets everything.
func (o *Offers[S]) Clear() {
	for _, f := range o.list {
		o.leave(f, func(*Wait) bool { return true })
	}
	o.list = nil
}

// Waits are how many members wait for offers' states, by offer.
func (o *Offers[S]) Waits() (waits []int) {
	for _, f := range o.list {
		waits = append(waits, len(f.waiting))
	}
	return waits
}

// Depended reports whether fresh members depend on this member for the state of a subgroup: it is
// the most senior of the members that have the state, or the view knows of none that has it. If
// several leave at once, the most senior one stays until the state is handed over. A member that
// waits for the state here does not count as one that has it, whatever the view says.
func (o *Offers[S]) Depended(v *views.View) bool {
	return slices.ContainsFunc(o.list, func(f *Offer[S]) bool { return !f.none && f.depends(v, o.Self) })
}

func (f *Offer[S]) depends(v *views.View, self order.NodeID) bool {
	sg := v.Subgroups[f.Index]
	holders := slices.DeleteFunc(slices.Clone(sg.Members), func(r order.Rank) bool {
		return slices.Contains(sg.Partial, r) || f.wait(v.Members[r].ID) != nil
	})
	return len(holders) == 0 || v.Members[holders[0]].ID == self
}
