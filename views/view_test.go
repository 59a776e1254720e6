package views

import (
	"encoding/json"
	"errors"
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

func TestPlaceTurnsNodesIntoRanksInTheOrderOfSeniority(t *testing.T) {
	v, err := Place(3, "c", people(30, 10, 20), []Declaration{
		{Name: "all", RingBytes: 4096, Window: 4},
		{Name: "some", RingBytes: 8192, Window: 8, Members: []order.NodeID{10, 20}, Senders: []order.NodeID{20}, Mode: Unordered},
		{Name: "mixed", RingBytes: 4096, Window: 4, Members: []order.NodeID{20, 30, 10}, Senders: []order.NodeID{10, 30}},
		{Name: "few", RingBytes: 4096, Window: 4, Members: []order.NodeID{20}},
	})
	if err != nil {
		t.Fatal(err)
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
	data, _ := json.Marshal(v)
	var back View
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(*v, back) {
		t.Errorf("as JSON and back it is %+v, %v", back, err)
	}
}

func TestPlaceReportsEveryFaultAtOnce(t *testing.T) {
	_, err := Place(0, "c", people(1, 1), []Declaration{
		{Name: "far", RingBytes: 4096, Window: 4, Members: []order.NodeID{1, 9}},
		{Name: "deaf", RingBytes: 4096, Window: 4, Senders: []order.NodeID{8}},
		{Name: "odd", RingBytes: 5000, Window: 5},
	})
	if !errors.Is(err, ErrNotMember) {
		t.Fatal(err)
	}
	for _, part := range []string{"id 0", "node 1 is a member twice", `"far", members: node 9`, `"deaf", senders: node 8`, "5000", "window of 5"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
}

// V1, V2 and V3, each broken by itself in a view that came from elsewhere.
func TestValidateFindsEachFault(t *testing.T) {
	good := func() *View {
		return &View{ID: 1, Members: people(5, 6, 7), Subgroups: []Subgroup{{Name: "a", Members: ranks(0, 2), Senders: ranks(2), RingBytes: 4096, Window: 4}}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, breaks := range map[string]func(*View, *Subgroup){
		"V1 no id":                   func(v *View, _ *Subgroup) { v.ID = 0 },
		"V1 no members":              func(v *View, _ *Subgroup) { v.Members, v.Subgroups = nil, nil },
		"V1 the same id twice":       func(v *View, _ *Subgroup) { v.Members[2].ID = 5 },
		"V1 too many members":        func(v *View, _ *Subgroup) { v.Members = make([]Member, MaxMembers+1) },
		"V2 no members":              func(_ *View, s *Subgroup) { s.Members, s.Senders = nil, nil },
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
		"an unknown mode":            func(_ *View, s *Subgroup) { s.Mode = 9 },
	} {
		v := good()
		if breaks(v, &v.Subgroups[0]); v.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}
