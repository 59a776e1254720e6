package views

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

func people(ids ...order.NodeID) (members []Member) {
	for _, id := range ids {
		members = append(members, Member{ID: id})
	}
	return members
}

func ranks(r ...order.Rank) []order.Rank { return r }

func ids(id ...order.NodeID) []order.NodeID { return id }

func TestPlaceTurnsNodesIntoRanksInTheOrderOfSeniority(t *testing.T) {
	v, unmet, err := Place(Placement{ID: 3, Cluster: "c", Key: "k", Members: people(30, 10, 20), Declarations: []Declaration{
		{Name: "all", RingBytes: 4096, Window: 4},
		{Name: "some", RingBytes: 8192, Window: 8, Members: ids(10, 20), Senders: ids(20), Mode: Unordered},
		{Name: "mixed", RingBytes: 4096, Window: 4, Members: ids(20, 30, 10), Senders: ids(10, 30)},
		{Name: "few", RingBytes: 4096, Window: 4, Members: ids(20)},
	}})
	if err != nil || unmet != nil {
		t.Fatal(err, unmet)
	}
	for i, want := range []Subgroup{
		{Name: "all", Members: ranks(0, 1, 2), Senders: ranks(0, 1, 2), RingBytes: 4096, Window: 4},
		{Name: "some", Members: ranks(1, 2), Senders: ranks(2), Mode: Unordered, RingBytes: 8192, Window: 8},
		{Name: "mixed", Members: ranks(0, 1, 2), Senders: ranks(0, 1), RingBytes: 4096, Window: 4},
		{Name: "few", Members: ranks(2), Senders: ranks(2), RingBytes: 4096, Window: 4},
	} {
		if !reflect.DeepEqual(v.Subgroups[i], want) {
			t.Errorf("%+v, want %+v", v.Subgroups[i], want)
		}
	}
	some := v.Subgroups[1]
	if s, ok := some.SenderRank(2); !ok || s != 0 || some.Has(0) || !some.Has(1) {
		t.Errorf("rank 2 is sender %d of %q: %v", s, some.Name, ok)
	}
	if r, ok := v.RankOf(20); !ok || r != 2 {
		t.Errorf("node 20 has rank %d: %v", r, ok)
	}
	if _, ok := v.RankOf(4); ok {
		t.Error("node 4 has a rank")
	}
}

func TestShardsOfAName(t *testing.T) {
	v := &View{Subgroups: []Subgroup{{Name: "a"}, {Name: "b"}, {Name: "b", Shard: 1}, {Name: "b", Shard: 2}, {Name: "c"}}}
	for name, want := range map[string]int{"a": 1, "b": 3, "c": 1, "d": 0} {
		shards := v.Shards(name)
		if len(shards) != want || cap(shards) != want {
			t.Errorf("%q has the shards %+v", name, shards)
		}
		for i, sg := range shards {
			if sg.Name != name || sg.Shard != i {
				t.Errorf("shard %d of %q is %+v", i, name, sg)
			}
		}
	}
	if shards := new(View).Shards("a"); len(shards) != 0 {
		t.Errorf("a view without subgroups has the shards %v", shards)
	}
}

// V1 to V4, each broken by itself in a view that came from elsewhere.
func TestValidateFindsEachFault(t *testing.T) {
	good := func() *View {
		return &View{ID: 1, Members: people(5, 6, 7), Subgroups: []Subgroup{
			{Name: "a", Members: ranks(0, 2), Senders: ranks(2), RingBytes: 4096, Window: 4},
			{Name: "b", Members: ranks(2), Senders: ranks(2), RingBytes: 4096, Window: 4},
			{Name: "b", Shard: 1, RingBytes: 4096, Window: 4},
			{Name: "b", Shard: 2, Members: ranks(0, 1), RingBytes: 4096, Window: 4},
		}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", MaxTextBytes+1)
	for name, breaks := range map[string]func(*View, *Subgroup){
		"V1 no id":                   func(v *View, _ *Subgroup) { v.ID = 0 },
		"V1 no members":              func(v *View, _ *Subgroup) { v.Members, v.Subgroups = nil, nil },
		"V1 the same id twice":       func(v *View, _ *Subgroup) { v.Members[2].ID = 5 },
		"V1 too many members":        func(v *View, _ *Subgroup) { v.Members = make([]Member, MaxMembers+1) },
		"V2 senders without members": func(_ *View, s *Subgroup) { s.Members = nil },
		"V2 members out of order":    func(_ *View, s *Subgroup) { s.Members = ranks(2, 0) },
		"V2 a member twice":          func(_ *View, s *Subgroup) { s.Members = ranks(0, 2, 2) },
		"V2 a rank that is none":     func(_ *View, s *Subgroup) { s.Members = ranks(0, 2, 3) },
		"V2 a rank below 0":          func(_ *View, s *Subgroup) { s.Members = ranks(-1, 2) },
		"V2 a sender that is no one": func(_ *View, s *Subgroup) { s.Senders = ranks(3) },
		"V2 a sender from outside":   func(_ *View, s *Subgroup) { s.Senders = ranks(1) },
		"V2 senders out of order":    func(_ *View, s *Subgroup) { s.Senders = ranks(2, 0) },
		"V3 a ring of no power":      func(_ *View, s *Subgroup) { s.RingBytes = 4097 },
		"V3 a ring too small":        func(_ *View, s *Subgroup) { s.RingBytes = MinRingBytes / 2 },
		"V3 a ring too large":        func(_ *View, s *Subgroup) { s.RingBytes = MaxRingBytes * 2 },
		"V3 a ring below 0":          func(_ *View, s *Subgroup) { s.RingBytes = -4096 },
		"V3 a window of no power":    func(_ *View, s *Subgroup) { s.Window = 6 },
		"V3 a window too small":      func(_ *View, s *Subgroup) { s.Window = 2 },
		"V3 a window too large":      func(_ *View, s *Subgroup) { s.Window = MaxWindow * 2 },
		"V4 a member of two shards":  func(v *View, _ *Subgroup) { v.Subgroups[3].Members = ranks(1, 2) },
		"V4 a shard is missing":      func(v *View, _ *Subgroup) { v.Subgroups[3].Shard = 3 },
		"V4 a shard twice":           func(v *View, _ *Subgroup) { v.Subgroups[3].Shard = 1 },
		"V4 a shard below 0":         func(_ *View, s *Subgroup) { s.Shard = -1 },
		"V4 no first shard":          func(_ *View, s *Subgroup) { s.Shard = 1 },
		"V4 a name twice":            func(v *View, _ *Subgroup) { v.Subgroups[1].Name = "a" },
		"V4 a name comes back":       func(v *View, _ *Subgroup) { v.Subgroups[3].Name, v.Subgroups[3].Shard = "a", 0 },
		"V4 shards of two rings":     func(v *View, _ *Subgroup) { v.Subgroups[2].RingBytes = 8192 },
		"V4 shards of two windows":   func(v *View, _ *Subgroup) { v.Subgroups[2].Window = 8 },
		"V4 shards of two modes":     func(v *View, _ *Subgroup) { v.Subgroups[2].Mode = Unordered },
		"an unknown mode":            func(_ *View, s *Subgroup) { s.Mode = 9 },
		"no name":                    func(_ *View, s *Subgroup) { s.Name = "" },
		"a long name":                func(_ *View, s *Subgroup) { s.Name = long },
		"a long cluster":             func(v *View, _ *Subgroup) { v.Cluster = long },
		"a long key":                 func(v *View, _ *Subgroup) { v.key = long },
		"a long address":             func(v *View, _ *Subgroup) { v.Members[1].Addr = long },
		"a long host":                func(v *View, _ *Subgroup) { v.Members[1].Host = long },
		"a long socket":              func(v *View, _ *Subgroup) { v.Members[1].SHM = long },
		"muted for one too few":      func(v *View, _ *Subgroup) { v.Muted = []uint64{1, 2} },
		"muted for nobody":           func(v *View, _ *Subgroup) { v.Muted = []uint64{} },
		"too many subgroups":         func(v *View, _ *Subgroup) { v.Subgroups = many(MaxSubgroups + 1) },
	} {
		v := good()
		if breaks(v, &v.Subgroups[0]); v.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
	v := good()
	if v.Subgroups = many(MaxSubgroups); v.Validate() != nil {
		t.Error(v.Validate())
	}
}

// many are so many subgroups without members.
func many(n int) (list []Subgroup) {
	for i := range n {
		list = append(list, Subgroup{Name: fmt.Sprint(i), RingBytes: 4096, Window: 4})
	}
	return list
}

func TestWhatValidateSaysIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 1<<20)
	v := &View{ID: 1, Cluster: huge, key: huge, Members: []Member{{ID: 1, Addr: huge, Host: huge, SHM: huge}}}
	for range MaxSubgroups {
		v.Subgroups = append(v.Subgroups, Subgroup{Name: huge, Members: make([]order.Rank, 1<<16), Senders: make([]order.Rank, 1<<16)})
	}
	if n := len(v.Validate().Error()); n > 2<<20 {
		t.Errorf("%d bytes", n)
	}
}
