package views

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
)

// shards is a view of some processes with an ordered subgroup whose shards have the members at some
// ranks.
func shards(id order.ViewID, processes []Holder, members ...[]order.Rank) *View {
	v := &View{ID: id, key: "k"}
	for _, p := range processes {
		v.Members = append(v.Members, Member{ID: p.ID, Incarnation: p.Incarnation, Disk: p.Disk})
	}
	for s, ranks := range members {
		v.Subgroups = append(v.Subgroups, Subgroup{Name: "map", Shard: s, RingBytes: MinRingBytes, Window: MinWindow, Members: ranks, Senders: ranks})
	}
	return v
}

// A history of views of one shard, or of two: a process that has the state when the shard has
// members again hands it over.
func TestAStateIsHeldByThoseThatHadItLast(t *testing.T) {
	a, b, c, d := Holder{ID: 1, Incarnation: 1}, Holder{ID: 2, Incarnation: 1}, Holder{ID: 3, Incarnation: 1}, Holder{ID: 4, Incarnation: 1}
	again := Holder{ID: 1, Incarnation: 9}
	type want struct {
		fresh, partial []order.Rank
		holders        []Holder
		lost           bool
	}
	ranks := func(r ...order.Rank) []order.Rank { return r }
	all := func(order.Rank) bool { return true }
	for _, test := range []struct {
		what  string
		views []*View
		whole func(order.Rank) bool // for partial members: whether they have the state by the next view
		want  []want                // of shard 0, in each view but the first
	}{
		{"the remaining holder hands the state over", []*View{
			shards(1, []Holder{a, b}, ranks(0, 1)), shards(2, []Holder{a}, nil), shards(3, []Holder{a, c}, ranks(0, 1)), shards(4, []Holder{a, c}, ranks(0, 1)),
		}, all, []want{{holders: []Holder{a}}, {fresh: ranks(1), partial: ranks(1)}, {}}},
		{"no holder is left", []*View{
			shards(1, []Holder{a, b, c}, ranks(0, 1)), shards(2, []Holder{c}, nil), shards(3, []Holder{c, d}, nil), shards(4, []Holder{c, d, again}, ranks(0, 1)), shards(5, []Holder{c, d}, ranks(0, 1)),
		}, all, []want{{lost: true}, {lost: true}, {lost: true}, {}}},
		{"the process that had it was started again", []*View{
			shards(1, []Holder{a, c}, ranks(0)), shards(2, []Holder{c}, nil), shards(3, []Holder{c, again}, ranks(0, 1)),
		}, all, []want{{lost: true}, {lost: true}}},
		{"a member that still waits for the state when the others go is no holder", []*View{
			shards(1, []Holder{a, b}, ranks(0)), shards(2, []Holder{a, b}, ranks(0, 1)), shards(3, []Holder{a, b, c}, ranks(0, 1)), shards(4, []Holder{b, c}, nil), shards(5, []Holder{b, c}, ranks(0, 1)),
		}, nobody, []want{{fresh: ranks(1), partial: ranks(1)}, {partial: ranks(1)}, {lost: true}, {lost: true}}},
		{"a member that got the state meanwhile is a holder", []*View{
			shards(1, []Holder{a, b}, ranks(0)), shards(2, []Holder{a, b}, ranks(0, 1)), shards(3, []Holder{b, c}, nil), shards(4, []Holder{b, c}, ranks(0, 1)),
		}, all, []want{{fresh: ranks(1), partial: ranks(1)}, {holders: []Holder{b}}, {fresh: ranks(1), partial: ranks(1)}}},
		{"a member that was in another shard since does not hold it", []*View{
			shards(1, []Holder{a, b}, ranks(0), ranks(1)), shards(2, []Holder{a, b}, nil, ranks(0, 1)), shards(3, []Holder{a, b}, ranks(0), ranks(1)),
		}, all, []want{{lost: true}, {lost: true}}},
		{"of several holders none is fresh, wherever the others were", []*View{
			shards(1, []Holder{a, b, c}, ranks(0, 1, 2), nil), shards(2, []Holder{a, b, c}, nil, nil), shards(3, []Holder{a, b, c, d}, nil, ranks(1)), shards(4, []Holder{a, b, c, d}, ranks(0, 2, 3), ranks(1)),
		}, all, []want{{holders: []Holder{a, b, c}}, {holders: []Holder{a, c}}, {fresh: ranks(3), partial: ranks(3)}}},
		{"the last source goes, and a member still waits", []*View{
			shards(1, []Holder{a}, ranks(0)), shards(2, []Holder{a, b}, ranks(0, 1)), shards(3, []Holder{b, c}, ranks(0, 1)),
		}, nobody, []want{{fresh: ranks(1), partial: ranks(1)}, {fresh: ranks(1), partial: ranks(0, 1)}}},
		{"the last source goes, and then the member that waited for it, while another one waits", []*View{
			shards(1, []Holder{a}, ranks(0)), shards(2, []Holder{a, b}, ranks(0, 1)), shards(3, []Holder{b, c}, ranks(0, 1)), shards(4, []Holder{c}, nil), shards(5, []Holder{c, d}, ranks(0, 1)),
		}, nobody, []want{{fresh: ranks(1), partial: ranks(1)}, {fresh: ranks(1), partial: ranks(0, 1)}, {lost: true}, {lost: true}}},
		{"the last source goes, and the member that waited for it is alone", []*View{
			shards(1, []Holder{a}, ranks(0)), shards(2, []Holder{a, b}, ranks(0, 1)), shards(3, []Holder{b, c}, ranks(0, 1)), shards(4, []Holder{b}, nil), shards(5, []Holder{b, d}, ranks(0, 1)),
		}, nobody, []want{{fresh: ranks(1), partial: ranks(1)}, {fresh: ranks(1), partial: ranks(0, 1)}, {lost: true}, {lost: true}}},
		{"all members are exchanged at once", []*View{
			shards(1, []Holder{a, b}, ranks(0)), shards(2, []Holder{a, b}, ranks(1)),
		}, all, []want{{lost: true}}},
		{"it begins", []*View{shards(1, []Holder{a}, nil), shards(2, []Holder{a}, nil), shards(3, []Holder{a, b}, ranks(0, 1))}, all, []want{{}, {}}},
	} {
		for k, v := range test.views[1:] {
			for i := range v.Subgroups {
				v.assignState(test.views[k], i, test.whole)
			}
			sg, want := v.Subgroups[0], test.want[k]
			if !slices.Equal(sg.Fresh, want.fresh) || !slices.Equal(sg.Partial, want.partial) || !slices.Equal(sg.Holders, want.holders) || sg.Lost != want.lost {
				t.Errorf("%s: view %d: fresh %v, partial %v, holders %v, lost %v; want %+v", test.what, v.ID, sg.Fresh, sg.Partial, sg.Holders, sg.Lost, want)
			}
			for _, err := range sg.faults(len(v.Members)) {
				if sg.Name == "map" {
					t.Errorf("%s: view %d: %v", test.what, v.ID, err)
				}
			}
		}
	}
}

// The process that holds the state of a shard without members is placed in it again, though other
// shards would take it.
func TestWhoHoldsTheStateOfAShardWithoutMembersIsBroughtBackToIt(t *testing.T) {
	d := Declaration{Name: "map", RingBytes: MinRingBytes, Window: MinWindow, Shards: 3, MinMembers: 2}
	member := func(id order.NodeID) Member { return Member{ID: id, Incarnation: 1, Addr: "a:1"} }
	previous := &View{Members: []Member{member(1), member(2), member(3), member(4)}, Subgroups: []Subgroup{
		{Name: "map", Shard: 0, Members: []order.Rank{0, 1}}, {Name: "map", Shard: 1}, {Name: "map", Shard: 2, Holders: []Holder{{ID: 4, Incarnation: 1}}},
	}}
	members := append(slices.Clone(previous.Members), member(5))
	v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: members, Declarations: []Declaration{d}, Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	if !v.Subgroups[2].Has(3) {
		t.Errorf("node 4 holds the state of shard 2, which has %v; shard 1 has %v", v.Subgroups[2].Members, v.Subgroups[1].Members)
	}
}
