package views

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
)

// shown renders the shards of a name as node ids, "1 3 | 2 4 | -", with members that do not send in
// brackets.
func shown(v *View, name string) string {
	var shards []string
	for _, sg := range v.Shards(name) {
		var nodes []string
		for _, r := range sg.Members {
			text := fmt.Sprint(v.Members[r].ID)
			if _, sends := sg.SenderRank(r); !sends {
				text = "(" + text + ")"
			}
			nodes = append(nodes, text)
		}
		if !sg.Provisioned() {
			nodes = []string{"-"}
		}
		shards = append(shards, strings.Join(nodes, " "))
	}
	return strings.Join(shards, " | ")
}

func reasons(unmet []Unmet) string {
	var out []string
	for _, u := range unmet {
		out = append(out, u.String())
	}
	return strings.Join(out, "; ")
}

// step is one view: its members, by seniority, and the shards that the declaration leads to.
type step struct {
	members []order.NodeID
	shards  string
	unmet   string
}

// play places one view after the other.
func play(t *testing.T, d Declaration, steps []step) {
	t.Helper()
	p := Placement{Cluster: "c", Declarations: []Declaration{d}}
	for i, s := range steps {
		p.ID, p.Members = order.ViewID(i+1), people(s.members...)
		v, unmet, err := Place(p)
		if err = errors.Join(err, check(v, p.Declarations)); err != nil {
			t.Fatalf("view %d: %v", i+1, err)
		}
		if got := shown(v, d.Name); got != s.shards || reasons(unmet) != s.unmet {
			t.Errorf("view %d of %v: %s (%s), want %s (%s)", i+1, s.members, got, reasons(unmet), s.shards, s.unmet)
		}
		p.Previous = v
	}
}

// check is what is true of every view that was placed.
func check(v *View, decls []Declaration) error {
	if v == nil {
		return nil
	}
	return errors.Join(v.Validate(), v.Fits(decls))
}

func TestLayouts(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *Declaration)
		steps  []step
	}{
		"all members": {func(*Declaration) {}, []step{
			{ids(3, 1), "3 1", ""},
			{ids(3, 1, 2), "3 1 2", ""},
			{ids(2, 9), "2 9", ""},
		}},
		"all members, if there are enough": {func(d *Declaration) { d.MinMembers = 2 }, []step{
			{ids(1), "-", `"orders" needs 2 members, 1 is there`},
			{ids(1, 2), "1 2", ""},
			{ids(1, 2, 3), "1 2 3", ""},
			{ids(3), "-", `"orders" needs 2 members, 1 is there`},
			{ids(3, 4), "3 4", ""},
		}},
		"a fixed list goes on with its members that are present": {func(d *Declaration) { d.Members = ids(1, 2, 3) }, []step{
			{ids(1, 2, 3, 4), "1 2 3", ""},
			{ids(1, 3, 4), "1 3", ""},
			{ids(4), "-", `"orders" needs 1 member out of [1 2 3], none is there`},
			{ids(4, 2), "2", ""},
		}},
		"a fixed list of which most are needed": {func(d *Declaration) { d.Members, d.MinMembers = ids(1, 2, 3), 2 }, []step{
			{ids(4, 3), "-", `"orders" needs 2 members out of [1 2 3], 1 is there`},
			{ids(4, 3, 2), "3 2", ""},
			{ids(4, 3, 2, 1), "3 2 1", ""},
		}},
		"some of all members": {func(d *Declaration) { d.MaxMembers = 2 }, []step{
			{ids(1, 2, 3), "1 2", ""},
			{ids(2, 3, 4), "2 3", ""},
			{ids(4, 2, 3), "2 3", ""}, // whatever the seniority
		}},
		"declared senders": {func(d *Declaration) { d.Senders = ids(2, 3) }, []step{
			{ids(1, 2), "(1) 2", ""},
			{ids(1, 3, 2), "(1) 3 2", ""},
			{ids(1, 4), "(1) (4)", ""},
		}},
		"shards": {func(d *Declaration) { d.Shards, d.MinMembers = 2, 2 }, []step{
			{ids(1), "- | -", `shard 0 of "orders" needs 2 members, 1 is left; shard 1 of "orders" needs 2 members, 1 is left`},
			{ids(1, 2), "1 2 | -", `shard 1 of "orders" needs 2 members, none is left`},
			{ids(1, 2, 3), "1 2 | -", `shard 1 of "orders" needs 2 members, 1 is left`}, // 3 is kept for it
			{ids(1, 2, 3, 4), "1 2 | 3 4", ""},
			{ids(1, 2, 3, 4, 5, 6, 7), "1 2 5 7 | 3 4 6", ""},
			{ids(1, 3, 4, 5, 6, 7), "1 5 7 | 3 4 6", ""},
			{ids(1, 4, 5, 7), "1 5 7 | -", `shard 1 of "orders" needs 2 members, 1 is left`}, // no member leaves a provisioned shard
			{ids(1, 4, 5, 7, 8), "1 5 7 | 4 8", ""},
		}},
		"shards of a fixed list, with a limit": {func(d *Declaration) {
			d.Shards, d.MinMembers, d.MaxMembers, d.Members = 2, 1, 2, ids(1, 2, 3, 4, 5, 6)
		}, []step{
			{ids(9, 6, 5, 4, 3, 2, 1), "6 4 | 5 3", ""},
			{ids(9, 5, 4, 2, 1), "4 2 | 5 1", ""},
			{ids(9, 4, 2), "4 2 | -", `shard 1 of "orders" needs 1 member out of [1 2 3 4 5 6], none is left`},
			{ids(9, 4, 2, 3), "4 2 | 3", ""},
		}},
		"the shard that misses the fewest is filled first": {func(d *Declaration) { d.Shards, d.MinMembers = 3, 3 }, []step{
			{ids(1, 2, 3, 4, 5, 6, 7, 8, 9), "1 4 7 | 2 5 8 | 3 6 9", ""},
			{ids(1, 2, 3, 5, 6, 9), "- | 1 2 5 | 3 6 9", `shard 0 of "orders" needs 3 members, none is left`},
			{ids(1, 2, 3, 5, 6, 9, 10, 11), "- | 1 2 5 | 3 6 9", `shard 0 of "orders" needs 3 members, 2 are left`},
			{ids(1, 2, 3, 5, 6, 9, 10, 11, 4), "10 11 4 | 1 2 5 | 3 6 9", ""},
		}},
	} {
		t.Run(name, func(t *testing.T) { play(t, declared(c.change), c.steps) })
	}
}

func TestAProcessThatWasStartedAgainIsAnotherMember(t *testing.T) {
	d := declared(func(d *Declaration) { d.Shards, d.MaxMembers = 2, 2 })
	p := Placement{ID: 1, Declarations: []Declaration{d}, Members: people(1, 2, 3, 4, 5)}
	p.Previous, _, _ = Place(p)
	p.Members = people(1, 2, 4, 5, 3)
	p.Members[4].Incarnation = 1
	v, _, err := Place(p)
	if got := shown(v, "orders"); err != nil || shown(p.Previous, "orders") != "1 3 | 2 4" || got != "1 5 | 2 4" {
		t.Errorf("after %s: %s, %v", shown(p.Previous, "orders"), got, err)
	}
}

func TestEveryShardOfEveryDeclarationHasItsPlaceInEveryView(t *testing.T) {
	p := Placement{Declarations: []Declaration{
		declared(func(d *Declaration) { d.Name, d.Members = "a", ids(2) }),
		declared(func(d *Declaration) { d.Name, d.Shards, d.MinMembers = "b", 3, 2 }),
		declared(func(d *Declaration) { d.Name = "c" }),
	}}
	for n := range 8 {
		p.ID, p.Members = order.ViewID(n+1), append(p.Members, people(order.NodeID(n+1))...)
		v, unmet, err := Place(p)
		if err = errors.Join(err, check(v, p.Declarations)); err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, sg := range v.Subgroups {
			labels = append(labels, fmt.Sprint(sg.Name, sg.Shard))
			if !sg.Provisioned() {
				if len(unmet) == 0 || unmet[0].Name != sg.Name || unmet[0].Shard != sg.Shard {
					t.Fatalf("%s%d is not provisioned, the next of the unmet are %v", sg.Name, sg.Shard, unmet)
				}
				unmet = unmet[1:]
			}
		}
		if got := strings.Join(labels, " "); got != "a0 b0 b1 b2 c0" || len(unmet) != 0 {
			t.Errorf("%d members: %s, and %v", n+1, got, unmet)
		}
		p.Previous = v
	}
}

func TestAMutedMemberStaysButDoesNotSend(t *testing.T) {
	p := Placement{ID: 1, Members: people(7, 8), Declarations: []Declaration{
		declared(func(d *Declaration) { d.Name = "a" }), declared(func(d *Declaration) { d.Name, d.Senders = "b", ids(8) }),
	}}
	p.Mute = func(id order.NodeID, declaration int) bool {
		return id == 8 && declaration == 1 || id == 7 && declaration == 0
	}
	v, unmet, err := Place(p)
	if err = errors.Join(err, check(v, p.Declarations)); err != nil || unmet != nil {
		t.Fatal(err, unmet)
	}
	if a, b := shown(v, "a"), shown(v, "b"); a != "(7) 8" || b != "(7) (8)" {
		t.Errorf("%s and %s", a, b)
	}
}

func TestAnOwnLayout(t *testing.T) {
	var in LayoutInput
	answer := func(places ...ShardPlaces) Layout {
		return func(given LayoutInput) ([]ShardPlaces, error) { in = given; return places, nil }
	}
	both := ShardPlaces{Members: ids(3, 2)}
	for name, c := range map[string]struct {
		layout Layout
		shards string
		unmet  string
	}{
		"as it says": {answer(ShardPlaces{Members: ids(1)}, both), "1 | 2 3", ""},
		"senders": {answer(ShardPlaces{Members: ids(1, 2), Senders: ids(2)}, ShardPlaces{Members: ids(3), Senders: []order.NodeID{}}),
			"(1) 2 | (3)", ""},
		"not enough": {answer(both, ShardPlaces{}), "2 3 | -", `shard 1 of "orders" needs 1 member, layout "own" gives it 0`},
		"too many shards": {answer(both, both, both), "- | -",
			`layout "own": it returned 3 shards, 2 are declared`},
		"a stranger":       {answer(ShardPlaces{Members: ids(8)}, both), "- | -", "shard 0: node 8 is not a member of the view"},
		"not declared":     {answer(both, ShardPlaces{Members: ids(4)}), "- | -", "shard 1: node 4 is not among the declared members [1 2 3 8]"},
		"in two shards":    {answer(both, ShardPlaces{Members: ids(2)}), "- | -", "shard 1: node 2 was placed already"},
		"twice in one":     {answer(ShardPlaces{Members: ids(1, 1)}, both), "- | -", "shard 0: node 1 was placed already"},
		"too many":         {answer(ShardPlaces{Members: ids(1, 2, 3)}, ShardPlaces{}), "- | -", "shard 0: 3 members, at most 2 are declared"},
		"a sender outside": {answer(ShardPlaces{Members: ids(1), Senders: ids(2)}, both), "- | -", "not all of its senders [2] are among its members [1]"},
		"one may not send": {answer(ShardPlaces{Members: ids(4), Senders: ids(4)}, both), "- | -", "not all of its senders [4]"},
		"an error":         {func(LayoutInput) ([]ShardPlaces, error) { return nil, errors.New("no rack") }, "- | -", `shard 1 of "orders" has no members: layout "own": no rack`},
		"its input changed": {func(in LayoutInput) ([]ShardPlaces, error) {
			in.Members[0].ID, in.Declaration.Members[0] = 9, 9
			return nil, nil
		}, "- | -", "it returned 0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := declared(func(d *Declaration) {
				d.LayoutName, d.Shards, d.MaxMembers, d.Members, d.Senders = "own", 2, 2, ids(1, 2, 3, 8), ids(1, 2, 3)
			})
			p := Placement{ID: 5, Members: people(1, 2, 3, 4), Declarations: []Declaration{d}, Layouts: map[string]Layout{"own": c.layout}}
			v, unmet, err := Place(p)
			if err = errors.Join(err, check(v, p.Declarations)); err != nil {
				t.Fatal(err)
			}
			if got := shown(v, "orders"); got != c.shards || !strings.Contains(reasons(unmet), c.unmet) || (len(unmet) == 0) != (c.unmet == "") {
				t.Errorf("%s (%s), want %s (%s)", got, reasons(unmet), c.shards, c.unmet)
			}
			if v.Members[0].ID != 1 || d.Members[0] != 1 {
				t.Error("a layout changed what it was given a copy of")
			}
		})
	}
	p := Placement{ID: 1, Members: people(1, 2, 3), Layouts: map[string]Layout{"own": answer(ShardPlaces{Members: ids(1)}, both)}}
	p.Declarations = []Declaration{declared(func(d *Declaration) { d.LayoutName, d.Shards = "own", 2 })}
	p.Previous, _, _ = Place(p)
	p.ID, p.Members = 2, people(4, 3, 1)
	if _, _, err := Place(p); err != nil || in.View != 2 || len(in.Members) != 3 || !reflect.DeepEqual(in.Previous, [][]order.NodeID{{1}, {3}}) {
		t.Errorf("it was asked with %+v, %v", in, err)
	}
}

func TestPlaceReportsEveryFaultAtOnce(t *testing.T) {
	v, unmet, err := Place(Placement{Members: people(1, 1), Declarations: []Declaration{
		declared(func(d *Declaration) { d.MinMembers, d.MaxMembers = 3, 2 }),
		declared(func(d *Declaration) { d.RingBytes, d.Window = 5000, 5 }),
		declared(func(d *Declaration) { d.Name, d.LayoutName = "own", "byRack" }),
	}})
	if v != nil || unmet != nil || err == nil {
		t.Fatal(v, unmet, err)
	}
	for _, part := range []string{"id 0", "at least 3 members, but at most 2", "5000", "window of 5", "declared twice", `no layout function "byRack"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing in: %v", part, err)
		}
	}
	for part, members := range map[string][]Member{
		"node 1 is a member twice": people(1, 1), "65 members": make([]Member, MaxMembers+1), "0 members": nil,
	} {
		if _, _, err := Place(Placement{ID: 1, Members: members}); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", part, err)
		}
	}
}

func TestAViewThatDoesNotFitWhatIsDeclaredIsFound(t *testing.T) {
	decls := []Declaration{
		declared(func(d *Declaration) { d.Name, d.Members, d.Senders = "a", ids(1, 2, 8), ids(1) }),
		declared(func(d *Declaration) { d.Name, d.Shards, d.MinMembers, d.MaxMembers = "b", 2, 2, 2 }),
		declared(func(d *Declaration) { d.Name = "c" }),
	}
	for name, breaks := range map[string]func(v *View, a, b *Subgroup){
		"":                   func(*View, *Subgroup, *Subgroup) {},
		"b has other shards": func(_ *View, _, b *Subgroup) { b.Members, b.Senders = ranks(0, 3), ranks(3) },
		"b has one less":     func(_ *View, _, b *Subgroup) { b.Members, b.Senders = nil, nil },
		"V none":             func(v *View, _, _ *Subgroup) { v.Subgroups = nil },
		"V one is missing":   func(v *View, _, _ *Subgroup) { v.Subgroups = v.Subgroups[:3] },
		"V one too many":     func(v *View, _, _ *Subgroup) { v.Subgroups = append(v.Subgroups, v.Subgroups[0]) },
		"V two are swapped":  func(_ *View, a, b *Subgroup) { *a, *b = *b, *a },
		"V another name":     func(_ *View, a, _ *Subgroup) { a.Name = "z" },
		"V another mode":     func(_ *View, a, _ *Subgroup) { a.Mode = Unordered },
		"V another ring":     func(_ *View, a, _ *Subgroup) { a.RingBytes = 8192 },
		"V another window":   func(_ *View, a, _ *Subgroup) { a.Window = 8 },
		"V a foreign member": func(_ *View, a, _ *Subgroup) { a.Members = ranks(0, 3) },
		"V one is left out":  func(_ *View, a, _ *Subgroup) { a.Members = ranks(0) },
		"V nobody":           func(_ *View, a, _ *Subgroup) { a.Members, a.Senders = nil, nil },
		"V a foreign sender": func(_ *View, a, _ *Subgroup) { a.Senders = ranks(1) },
		"V too few":          func(_ *View, _, b *Subgroup) { b.Members, b.Senders = ranks(0), nil },
		"V too many":         func(_ *View, _, b *Subgroup) { b.Members, b.Senders = ranks(0, 1, 2), nil },
	} {
		v, _, err := Place(Placement{ID: 1, Members: people(1, 2, 3, 4), Declarations: decls})
		if err != nil {
			t.Fatal(err)
		}
		breaks(v, &v.Subgroups[0], &v.Subgroups[1])
		if err := v.Fits(decls); (err != nil) != strings.HasPrefix(name, "V ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every member derives the same reasons from the view as the member that placed it.
func TestTheReasonsOfWhatIsNotProvisionedCanBeToldFromTheView(t *testing.T) {
	decls := []Declaration{
		{Name: "all", RingBytes: 4096, Window: 16},
		{Name: "three", MinMembers: 3, RingBytes: 4096, Window: 16},
		{Name: "named", Members: []order.NodeID{7, 8}, RingBytes: 4096, Window: 16},
		{Name: "shards", Shards: 3, MinMembers: 2, MaxMembers: 2, RingBytes: 4096, Window: 16},
		{Name: "own", LayoutName: "nowhere", RingBytes: 4096, Window: 16},
	}
	layouts := map[string]Layout{"nowhere": func(LayoutInput) ([]ShardPlaces, error) { return []ShardPlaces{{}}, nil }}
	seen := 0
	for n := 1; n <= 9; n++ {
		var list []Member
		for i := range n {
			list = append(list, Member{ID: order.NodeID(i + 1), Addr: "a:1"})
		}
		v, want, err := Place(Placement{ID: 1, Cluster: "c", Key: "k", Members: list, Declarations: decls, Layouts: layouts})
		if err != nil {
			t.Fatal(err)
		}
		got := v.Unmet(decls)
		if len(got) != len(want) {
			t.Fatalf("%d members: %v, placed with %v", n, got, want)
		}
		for i := range got {
			if own := got[i].Name == "own"; got[i] != want[i] && !own || own && !strings.Contains(got[i].Reason, `layout "nowhere" places none`) {
				t.Errorf("%d members: %q, placed with %q", n, got[i].Reason, want[i].Reason)
			}
			seen++
		}
	}
	if seen < 20 {
		t.Errorf("%d reasons in all", seen)
	}
}
