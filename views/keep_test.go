package views

import (
	"slices"
	"testing"

	"github.com/squall-go/squall/order"
)

// shardOf returns a view of some processes with one subgroup, whose members are the given ranks.
func shardOf(processes []Holder, members ...order.Rank) *View {
	v := &View{Subgroups: []Subgroup{{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Members: members, Senders: members}}}
	for _, p := range processes {
		v.Members = append(v.Members, Member{ID: p.ID, Incarnation: p.Incarnation, Disk: p.Disk})
	}
	return v
}

func TestWhoKeepsALogIsNotFreshAndNobodyElseBeginsIt(t *testing.T) {
	a, b, c, d := Holder{1, 1, 10 + 1}, Holder{2, 1, 10 + 2}, Holder{3, 1, 10 + 3}, Holder{4, 1, 10 + 4}
	again := Holder{2, 9, 10 + 2}
	none := []order.Rank(nil)
	for _, test := range []struct {
		what    string
		before  *View
		now     *View
		members []order.Rank
		fresh   []order.Rank
		holders []Holder
	}{
		{"it begins", shardOf([]Holder{a, b}), shardOf([]Holder{a, b}, 0, 1), []order.Rank{0, 1}, none, nil},
		{"one comes", shardOf([]Holder{a, b}, 0), shardOf([]Holder{a, b}, 0, 1), []order.Rank{0, 1}, []order.Rank{1}, nil},
		{"one comes back", shardOf([]Holder{a, b}, 0, 1), shardOf([]Holder{a, again}, 0, 1), []order.Rank{0, 1}, []order.Rank{1}, nil},
		{"it loses its members", shardOf([]Holder{a, b, c}, 1, 2), shardOf([]Holder{a}), none, none, []Holder{b, c}},
		{"others would take it over", shardOf([]Holder{a, b, c}, 1, 2), shardOf([]Holder{a, d}, 0, 1), none, none, []Holder{b, c}},
	} {
		test.now.assignLog(test.before, 0, nobody)
		sg := test.now.Subgroups[0]
		if !slices.Equal(sg.Members, test.members) || !slices.Equal(sg.Senders, test.members) || !slices.Equal(sg.Fresh, test.fresh) || !slices.Equal(sg.Holders, test.holders) {
			t.Errorf("%s: members %v, fresh %v, holders %v", test.what, sg.Members, sg.Fresh, sg.Holders)
		}
	}
}

func TestAShardThatHadNoMembersGoesOnWithThoseThatKeptItsLog(t *testing.T) {
	a, b, c := Holder{1, 1, 10 + 1}, Holder{2, 1, 10 + 2}, Holder{3, 1, 10 + 3}
	before := shardOf([]Holder{a})
	before.Subgroups[0].Holders = []Holder{a, b}
	stayed := shardOf([]Holder{a, c}, 0, 1)
	stayed.assignLog(before, 0, nobody)
	if sg := stayed.Subgroups[0]; !slices.Equal(sg.Fresh, []order.Rank{1}) || sg.Holders != nil {
		t.Errorf("one stayed: fresh %v, holders %v", sg.Fresh, sg.Holders)
	}
	before.Subgroups[0].Holders = []Holder{b, c}
	back := shardOf([]Holder{a, {2, 7, 12}, {3, 7, 13}}, 0, 1, 2)
	back.assignLog(before, 0, nobody)
	if sg := back.Subgroups[0]; !slices.Equal(sg.Fresh, []order.Rank{0, 2}) {
		t.Errorf("two came back: fresh %v, and the senior of them has the log", sg.Fresh)
	}
}

// nobody is for a subgroup in which no partial member has got the log since.
func nobody(order.Rank) bool { return false }

func TestWhoStillGetsALogDoesNotKeepIt(t *testing.T) {
	a, b, c := Holder{1, 1, 11}, Holder{2, 1, 12}, Holder{3, 1, 13}
	before := shardOf([]Holder{a, b}, 0, 1)
	before.Subgroups[0].Fresh, before.Subgroups[0].Partial = []order.Rank{1}, []order.Rank{1}
	goesOn := shardOf([]Holder{a, b, c}, 0, 1, 2)
	goesOn.assignLog(before, 0, nobody)
	if sg := goesOn.Subgroups[0]; !slices.Equal(sg.Fresh, []order.Rank{2}) || !slices.Equal(sg.Partial, []order.Rank{1, 2}) {
		t.Errorf("it goes on: fresh %v, partial %v", sg.Fresh, sg.Partial)
	}
	goesOn.assignLog(before, 0, func(r order.Rank) bool { return r == 1 })
	if sg := goesOn.Subgroups[0]; !slices.Equal(sg.Partial, []order.Rank{2}) {
		t.Errorf("it has got it: partial %v", sg.Partial)
	}
	alone := shardOf([]Holder{b, c}, 0, 1)
	alone.assignLog(before, 0, nobody)
	if sg := alone.Subgroups[0]; sg.Provisioned() || !slices.Equal(sg.Holders, []Holder{a}) {
		t.Errorf("the only holder is gone: members %v, holders %v", sg.Members, sg.Holders)
	}
}

func TestAnotherDiskIsNotThatOfAKeeper(t *testing.T) {
	before := shardOf([]Holder{{1, 1, 11}})
	before.Subgroups[0].Holders = []Holder{{2, 1, 12}, {3, 1, 13}}
	replaced := shardOf([]Holder{{1, 1, 11}, {2, 7, 99}}, 0, 1)
	replaced.assignLog(before, 0, nobody)
	if sg := replaced.Subgroups[0]; sg.Provisioned() || !slices.Equal(sg.Holders, before.Subgroups[0].Holders) {
		t.Errorf("members %v, holders %v", sg.Members, sg.Holders)
	}
}

func TestWhoKeepsTheLogOfAShardWithoutMembersIsBroughtBackToIt(t *testing.T) {
	d := Declaration{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Shards: 2, MinMembers: 1, MaxMembers: 2}
	member := func(id order.NodeID) Member {
		return Member{ID: id, Incarnation: 1, Addr: "a:1", Disk: uint64(10 + id)}
	}
	previous := &View{Members: []Member{member(1), member(2), member(3)}, Subgroups: []Subgroup{
		{Name: "log", Shard: 0, Mode: Persistent, Members: []order.Rank{0, 1}}, {Name: "log", Shard: 1, Mode: Persistent, Holders: []Holder{{2, 1, 12}, {9, 1, 19}}},
	}}
	for _, test := range []struct {
		what    string
		members []Member
		want    [2][]order.Rank
	}{
		{"a holder leaves another member after", []Member{member(1), member(2), member(3)}, [2][]order.Rank{{0, 2}, {1}}},
		{"a joiner is placed where its log is", []Member{member(1), member(3), member(9)}, [2][]order.Rank{{0, 1}, {2}}},
		{"no holder goes if its shard would have no members", []Member{member(2)}, [2][]order.Rank{{0}, nil}},
	} {
		v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: test.members, Declarations: []Declaration{d}, Previous: previous})
		if err != nil {
			t.Fatal(err)
		}
		for s, want := range test.want {
			if got := v.Subgroups[s].Members; !slices.Equal(got, want) {
				t.Errorf("%s: shard %d has %v, want %v", test.what, s, got, want)
			}
		}
	}
	previous.Subgroups[0].Partial = []order.Rank{0}
	v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: previous.Members, Declarations: []Declaration{d}, Previous: previous})
	if err != nil || !slices.Equal(v.Subgroups[0].Members, []order.Rank{0, 1}) {
		t.Errorf("the only member with the log of another shard goes: %v, %v", v.Subgroups, err)
	}
}

// The only disk with a shard's log may be that of a member of another shard, which has no member
// more than its least. As soon as enough members are in no shard for both, it goes.
func TestWhoKeepsALogIsBroughtBackWhenOthersTakeItsPlace(t *testing.T) {
	d := Declaration{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Shards: 3, MinMembers: 2}
	member := func(id order.NodeID) Member {
		return Member{ID: id, Incarnation: 1, Addr: "a:1", Disk: uint64(10 + id)}
	}
	previous := &View{Members: []Member{member(1), member(2), member(3), member(4)}, Subgroups: []Subgroup{
		{Name: "log", Shard: 0, Mode: Persistent, Members: []order.Rank{2, 3}}, {Name: "log", Shard: 1, Mode: Persistent, Holders: []Holder{{2, 1, 12}}},
		{Name: "log", Shard: 2, Mode: Persistent, Members: []order.Rank{0, 1}},
	}}
	for _, test := range []struct {
		joins []Member
		want  [3][]order.Rank
	}{
		{nil, [3][]order.Rank{nil, nil, {0, 1}}},
		{[]Member{member(5), member(6)}, [3][]order.Rank{{2, 3}, nil, {0, 1}}},
		{[]Member{member(5), member(6), member(7)}, [3][]order.Rank{{2, 3}, {1, 4}, {0, 5}}},
	} {
		members := append(slices.Clone(previous.Members[:3]), test.joins...)
		v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: members, Declarations: []Declaration{d}, Previous: previous})
		if err != nil {
			t.Fatal(err)
		}
		for s, want := range test.want {
			if got := v.Subgroups[s].Members; !slices.Equal(got, want) {
				t.Errorf("%d join: shard %d has %v, want %v", len(test.joins), s, got, want)
			}
		}
	}
}

// Two members are in no shard. They suffice for a shard that waits for its log and for the shard
// that has its holder, whatever a third shard lacks; and for a shard that begins, while another one
// waits for a log that nobody has.
func TestAShardDoesNotWaitForWhatAnotherOneLacks(t *testing.T) {
	d := Declaration{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Shards: 3, MinMembers: 2}
	var members []Member
	for id := range order.NodeID(4) {
		members = append(members, Member{ID: 1 + id, Incarnation: 1, Addr: "a:1", Disk: uint64(11 + id)})
	}
	for _, test := range []struct {
		what   string
		before [3]Subgroup
		want   [3][]order.Rank
	}{
		{"a third shard begins", [3]Subgroup{{Members: []order.Rank{0, 1}}, {Holders: []Holder{{2, 1, 12}}}, {}}, [3][]order.Rank{{0, 2}, {1, 3}, nil}},
		{"a third shard waits for its log", [3]Subgroup{{Members: []order.Rank{0, 1}}, {Holders: []Holder{{9, 1, 19}}}, {Holders: []Holder{{2, 1, 12}}}}, [3][]order.Rank{{0, 2}, nil, {1, 3}}},
		{"a shard waits for its log, and another one begins", [3]Subgroup{{Members: []order.Rank{0, 1}}, {Holders: []Holder{{9, 1, 19}}}, {}}, [3][]order.Rank{{0, 1}, nil, {2, 3}}},
	} {
		previous := &View{ID: 1, Members: members[:2]}
		for s, sg := range test.before {
			sg.Name, sg.Shard, sg.Mode = "log", s, Persistent
			previous.Subgroups = append(previous.Subgroups, sg)
		}
		v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: members, Declarations: []Declaration{d}, Previous: previous})
		if err != nil {
			t.Fatal(err)
		}
		v.TakeOver(previous, nil)
		for s, want := range test.want {
			if got := v.Subgroups[s].Members; !slices.Equal(got, want) {
				t.Errorf("%s: shard %d has %v, want %v", test.what, s, got, want)
			}
		}
	}
}

// A holder may not leave its shard because of members in no shard that go elsewhere: here both
// holders of the second shard, which need a third member there more than the first shard does.
func TestAHolderDoesNotCountOnMembersThatOtherShardsGet(t *testing.T) {
	d := Declaration{Name: "log", Mode: Persistent, RingBytes: MinRingBytes, Window: MinWindow, Shards: 3, MinMembers: 3}
	var members []Member
	for id := range order.NodeID(6) {
		members = append(members, Member{ID: 1 + id, Incarnation: 1, Addr: "a:1", Disk: uint64(11 + id)})
	}
	previous := &View{ID: 1, Members: members[:5], Subgroups: []Subgroup{
		{Holders: []Holder{{1, 1, 11}, {6, 1, 16}}}, {Holders: []Holder{{4, 1, 14}, {5, 1, 15}}}, {Members: []order.Rank{0, 1, 2}},
	}}
	for s := range previous.Subgroups {
		sg := &previous.Subgroups[s]
		sg.Name, sg.Shard, sg.Mode = "log", s, Persistent
	}
	v, _, err := Place(Placement{ID: 2, Cluster: "c", Key: "k", Members: members, Declarations: []Declaration{d}, Previous: previous})
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range [][]order.Rank{nil, {3, 4, 5}, {0, 1, 2}} {
		if got := v.Subgroups[s].Members; !slices.Equal(got, want) {
			t.Errorf("shard %d has %v, want %v", s, got, want)
		}
	}
}
