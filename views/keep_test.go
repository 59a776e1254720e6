package views

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
)

// shardOf is a view of some processes, of which those at some ranks are in its only subgroup.
func shardOf(processes []Keeper, members ...order.Rank) *View {
	v := &View{Subgroups: []Subgroup{{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Members: members, Senders: members}}}
	for _, p := range processes {
		v.Members = append(v.Members, Member{ID: p.ID, Incarnation: p.Incarnation})
	}
	return v
}

func TestWhoKeepsALogIsNotFreshAndNobodyElseBeginsIt(t *testing.T) {
	a, b, c, d := Keeper{1, 1}, Keeper{2, 1}, Keeper{3, 1}, Keeper{4, 1}
	again := Keeper{2, 9}
	none := []order.Rank(nil)
	for _, test := range []struct {
		what    string
		before  *View
		now     *View
		members []order.Rank
		fresh   []order.Rank
		keepers []Keeper
	}{
		{"it begins", shardOf([]Keeper{a, b}), shardOf([]Keeper{a, b}, 0, 1), []order.Rank{0, 1}, none, nil},
		{"one comes", shardOf([]Keeper{a, b}, 0), shardOf([]Keeper{a, b}, 0, 1), []order.Rank{0, 1}, []order.Rank{1}, nil},
		{"one comes back", shardOf([]Keeper{a, b}, 0, 1), shardOf([]Keeper{a, again}, 0, 1), []order.Rank{0, 1}, []order.Rank{1}, nil},
		{"it loses its members", shardOf([]Keeper{a, b, c}, 1, 2), shardOf([]Keeper{a}), none, none, []Keeper{b, c}},
		{"others would take it over", shardOf([]Keeper{a, b, c}, 1, 2), shardOf([]Keeper{a, d}, 0, 1), none, none, []Keeper{b, c}},
	} {
		test.now.keep(test.before, 0)
		sg := test.now.Subgroups[0]
		if !slices.Equal(sg.Members, test.members) || !slices.Equal(sg.Senders, test.members) || !slices.Equal(sg.Fresh, test.fresh) || !slices.Equal(sg.Keepers, test.keepers) {
			t.Errorf("%s: members %v, fresh %v, keepers %v", test.what, sg.Members, sg.Fresh, sg.Keepers)
		}
	}
}

func TestAShardThatHadNoMembersGoesOnWithThoseThatKeptItsLog(t *testing.T) {
	a, b, c := Keeper{1, 1}, Keeper{2, 1}, Keeper{3, 1}
	before := shardOf([]Keeper{a})
	before.Subgroups[0].Keepers = []Keeper{a, b}
	stayed := shardOf([]Keeper{a, c}, 0, 1)
	stayed.keep(before, 0)
	if sg := stayed.Subgroups[0]; !slices.Equal(sg.Fresh, []order.Rank{1}) || sg.Keepers != nil {
		t.Errorf("one stayed: fresh %v, keepers %v", sg.Fresh, sg.Keepers)
	}
	before.Subgroups[0].Keepers = []Keeper{b, c}
	back := shardOf([]Keeper{a, {2, 7}, {3, 7}}, 0, 1, 2)
	back.keep(before, 0)
	if sg := back.Subgroups[0]; !slices.Equal(sg.Fresh, []order.Rank{0, 2}) {
		t.Errorf("two came back: fresh %v, and the senior of them has it", sg.Fresh)
	}
	still := shardOf([]Keeper{a})
	still.KeepFrom(before)
	if !slices.Equal(still.Subgroups[0].Keepers, []Keeper{b, c}) {
		t.Errorf("after a restart: keepers %v", still.Subgroups[0].Keepers)
	}
}
