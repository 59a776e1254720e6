package shard

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// X1: whatever views come, there is at most one snapshot for each member that waits.
func TestX1SnapshotsAreBoundedOverRandomViews(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 2))
		o := &Offers[int]{Self: 1, Keeps: func(string) bool { return true }}
		for id := order.ViewID(1); id < 60; id++ {
			v := &views.View{ID: id, Subgroups: []views.Subgroup{{Name: "map", Members: []order.Rank{0}}}, Members: []views.Member{{ID: 1}}}
			sg := &v.Subgroups[0]
			for n := order.NodeID(2); n < 8; n++ {
				if random.IntN(4) == 0 {
					continue
				}
				r := order.Rank(len(v.Members))
				v.Members = append(v.Members, views.Member{ID: n, Incarnation: uint64(random.IntN(2))})
				if random.IntN(3) > 0 {
					sg.Members = append(sg.Members, r)
					if random.IntN(2) == 0 {
						sg.Fresh = append(sg.Fresh, r)
					}
				}
			}
			o.Installed(v)
			waiting := map[order.NodeID]int{}
			for _, f := range o.list {
				for _, w := range f.waiting {
					waiting[w.Member.ID]++
				}
			}
			for n, count := range waiting {
				if r, in := v.RankOf(n); count > 1 || !in || !sg.Has(r) {
					t.Fatalf("seed %d, view %d: node %d waits %d times; member: %v", seed, id, n, count, in)
				}
			}
			if len(o.list) > len(waiting) {
				t.Fatalf("seed %d, view %d: %d snapshots for %d members", seed, id, len(o.list), len(waiting))
			}
		}
	}
}

// A fresh member expects to give the state to the members that came with it, and not to itself.
func TestFreshMembersExpectToGiveTheStateToEachOther(t *testing.T) {
	a, _ := together()
	for self, want := range map[order.NodeID][]order.NodeID{1: {3, 4}, 2: nil, 3: {4}, 4: {3}} {
		o := &Offers[int]{Self: self, Keeps: func(string) bool { return true }}
		o.Installed(a)
		var waiting []order.NodeID
		if f := o.Find(5, 0); f != nil {
			for _, w := range f.waiting {
				waiting = append(waiting, w.Member.ID)
			}
		}
		if !slices.Equal(waiting, want) {
			t.Errorf("node %d expects to give it to nodes %v, not %v", self, waiting, want)
		}
	}
	alone := &Offers[int]{Self: 3, Keeps: func(string) bool { return true }}
	if alone.Installed(fresh(5)); alone.Find(5, 0) != nil {
		t.Error("a member that is fresh alone expects to give its state to another one")
	}
}

// When no member that had the state before is left, the fresh member that has got it stays until
// the others have it, wherever it is in the view.
func TestAFreshMemberWithTheStateStaysForThoseThatWaitForIt(t *testing.T) {
	a, b := together()
	o := &Offers[int]{Self: 4, Keeps: func(string) bool { return true }}
	if o.Installed(a); o.Depended(a) {
		t.Error("a fresh member has to stay, and node 1 has the state")
	}
	o.Put(5, 0, 1)
	if o.Installed(b); !o.Depended(b) {
		t.Error("the only member that has the state need not stay, and node 3 waits for it")
	}
	if o.Done(o.Find(5, 0), 3); o.Depended(b) {
		t.Error("it has to stay, and no member waits for the state")
	}
	senior := &Offers[int]{Self: 1, Keeps: func(string) bool { return true }}
	if senior.Installed(a); !senior.Depended(a) {
		t.Error("the most senior member that has the state need not stay")
	}
	senior.Done(senior.Find(5, 0), 3)
	if senior.Done(senior.Find(5, 0), 4); senior.Depended(a) || senior.Wanted(5, 0) {
		t.Error("the state is kept, and no member waits for it")
	}
	other := &Offers[int]{Self: 3, Keeps: func(string) bool { return true }}
	other.Installed(a)
	other.Withhold(5, 0)
	if other.Installed(b); other.Depended(b) {
		t.Error("a member that has withheld its state has to stay")
	}
}
