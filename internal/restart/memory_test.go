package restart

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

func member(id, incarnation uint64) views.Member {
	return views.Member{ID: order.NodeID(id), Incarnation: incarnation, Addr: "10.0.0.1:1"}
}

// viewOf lays out a view after another one.
func viewOf(t *testing.T, previous *views.View, key string, members ...views.Member) *views.View {
	t.Helper()
	v, err := placing(previous, members)
	if err != nil {
		t.Fatal(err)
	}
	v.SetKey(key)
	return v
}

func remembering(t *testing.T, disk *testDisk) *Memory {
	t.Helper()
	m, err := Load(disk)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasSaidIsRemembered(t *testing.T) {
	disk, self := &testDisk{}, member(1, 5)
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self, member(2, 6))
	second := viewOf(t, first, "b", self)
	id := LogID{Name: "orders"}
	must(t, m.Begin(self), m.Enter(first, []LogID{id}), m.Echo(1, 257, second))
	s := remembering(t, disk).State()
	if s.Node != 1 || !slices.Equal(s.Incarnations, []uint64{5}) || s.View.Key() != "a" || s.Echo.Ballot != 257 || s.Echo.View.Key() != "b" || !slices.Equal(s.Incomplete, []IncompleteLog{{id, 1}}) {
		t.Fatalf("%+v", s)
	}
	// Installed is late; what is said about the next view tells as much.
	must(t, m.Echo(2, 258, nil), m.Complete(id, 2))
	s = remembering(t, disk).State()
	if s.View.Key() != "b" || s.Echo.View != nil || s.Echo.Ballot != 258 || len(s.Incomplete) > 0 {
		t.Fatalf("%+v", s)
	}
	puts := disk.puts
	must(t, m.Installed(first), m.Installed(second), m.Begin(self))
	if disk.puts != puts {
		t.Fatal("what is there already was written again")
	}
}

func TestADamagedMemoryIsNamedAndNeverTrusted(t *testing.T) {
	disk := &testDisk{}
	m := remembering(t, disk)
	must(t, m.Begin(member(1, 5)), m.Enter(viewOf(t, nil, "a", member(1, 5)), nil))
	for key, value := range disk.values {
		for i := range value {
			disk.values[key] = slices.Clone(value)
			disk.values[key][i] ^= 4
			if _, err := Load(disk); err == nil {
				t.Fatalf("%s: byte %d was changed: %q", key, i, disk.values[key])
			}
			disk.values[key] = value[:i]
			if _, err := Load(disk); !errors.Is(err, ErrDamaged) || !errors.Is(err, persist.ErrDamaged) || !strings.Contains(err.Error(), "join") {
				t.Fatalf("%s: %d bytes: %v", key, i, err)
			}
		}
		disk.values[key] = slices.Clone(value)
		disk.values[key][len(valueMagic)]++
		if _, err := Load(disk); !errors.Is(err, ErrNewerFormat) {
			t.Fatal(err)
		}
		disk.values[key] = value
	}
	delete(disk.values, keyView)
	if _, err := Load(disk); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
}

func TestAViewOfAnotherHistoryIsNotEntered(t *testing.T) {
	m := remembering(t, &testDisk{})
	self := member(1, 5)
	first := viewOf(t, nil, "a", self)
	must(t, m.Begin(self), m.Enter(first, nil))
	if err := m.Enter(viewOf(t, nil, "z", self), nil); !errors.Is(err, ErrOtherHistory) {
		t.Fatal(err)
	}
	if err := m.Enter(viewOf(t, first, "b", member(2, 1)), nil); !errors.Is(err, ErrOtherHistory) {
		t.Fatal(err)
	}
	if err := m.Echo(7, 1, nil); !errors.Is(err, ErrOtherHistory) {
		t.Fatal(err)
	}
	if err := m.Begin(member(2, 5)); !errors.Is(err, ErrOtherNode) {
		t.Fatal(err)
	}
}

func TestWhoPromisedDoesNotEnter(t *testing.T) {
	m := remembering(t, &testDisk{})
	first := viewOf(t, nil, "a", member(1, 5))
	must(t, m.Begin(member(1, 5)), m.Installed(first))
	s := m.State()
	s.Promised = Ballot{1, 1}
	must(t, m.Keep(s))
	if err := m.Enter(first, nil); !errors.Is(err, ErrPromised) { // Y5
		t.Fatal(err)
	}
	if err := m.Echo(1, 1, nil); !errors.Is(err, ErrPromised) {
		t.Fatal(err)
	}
}

// Y1: a joiner that never entered counts by what it wrote before it asked; another disk of the same
// node does not.
func TestAnotherDiskDoesNotCount(t *testing.T) {
	v := viewOf(t, nil, "a", member(1, 5), member(2, 6))
	var joiner, other State
	joiner.begin(member(2, 6))
	joiner.begin(member(2, 7))
	other.begin(member(2, 7))
	if !joiner.Counts(v) || other.Counts(v) {
		t.Fatalf("%v %v", joiner.Counts(v), other.Counts(v))
	}
	joiner.move(Successor{View: v})
	for i := range uint64(3 * maxIncarnations) {
		joiner.begin(member(2, 100+i))
	}
	if !joiner.Counts(v) || len(joiner.Incarnations) != maxIncarnations {
		t.Fatal(joiner.Incarnations)
	}
}

func TestWhoComesIntoAShardLacksItsLog(t *testing.T) {
	old, fresh := State{}, State{}
	old.begin(member(1, 1))
	fresh.begin(member(2, 1))
	first := viewOf(t, nil, "a", member(1, 1))
	old.move(Successor{View: first})
	next := viewOf(t, first, "b", member(1, 1), member(2, 1))
	next.Subgroups[0].Fresh = []order.Rank{1}
	old.move(Successor{View: next})
	fresh.move(Successor{View: next})
	if len(old.Incomplete) > 0 || !slices.Equal(fresh.Incomplete, []IncompleteLog{{LogID{Name: "orders"}, 2}}) {
		t.Fatalf("%v %v", old.Incomplete, fresh.Incomplete)
	}
	last := viewOf(t, next, "c", member(1, 1), member(2, 1))
	fresh.move(Successor{View: last})
	if len(fresh.Incomplete) != 1 {
		t.Fatal("it was forgotten")
	}
	restarted := viewOf(t, last, "d", member(1, 1), member(2, 2))
	fresh.move(Successor{View: restarted, Restarted: true})
	if len(fresh.Incomplete) != 1 {
		t.Fatal("before a restart's view it had it whole, and lost it since")
	}
	left := viewOf(t, restarted, "e", member(1, 1), member(2, 2))
	left.Subgroups[0].Members, left.Subgroups[0].Senders = []order.Rank{0}, []order.Rank{0}
	fresh.move(Successor{View: left})
	if len(fresh.Incomplete) != 0 {
		t.Fatal(fresh.Incomplete)
	}
	again := viewOf(t, left, "f", member(1, 1), member(2, 2))
	again.Subgroups[0].Fresh = []order.Rank{1}
	fresh.move(Successor{View: again})
	fresh.completed(LogID{Name: "orders"}, 2) // what began in view 2 ends
	if len(fresh.Incomplete) != 1 {
		t.Fatal("it left the shard, and came again")
	}
	if fresh.completed(LogID{Name: "orders"}, again.ID); len(fresh.Incomplete) != 0 {
		t.Fatal(fresh.Incomplete)
	}
}

// A process that enters a view lacks what it says then, and not what it lacked before; and a
// process that is new in a shard lacks the shard's log since that view.
func TestWhatAProcessLacksBeginsAnewWithItsView(t *testing.T) {
	orders, other := LogID{Name: "orders"}, LogID{Name: "other"}
	m := remembering(t, &testDisk{})
	first := viewOf(t, nil, "a", member(1, 5), member(2, 6))
	second := viewOf(t, first, "b", member(1, 5), member(2, 7))
	must(t, m.Begin(member(2, 6)), m.Enter(first, []LogID{orders}), m.Begin(member(2, 7)), m.Enter(second, []LogID{other}))
	if got := m.State().Incomplete; !slices.Equal(got, []IncompleteLog{{other, 2}}) {
		t.Errorf("it enters view 2 without %v, and lacks %v", other, got)
	}
	must(t, m.Enter(second, nil))
	if got := m.State().Incomplete; len(got) > 0 {
		t.Errorf("it enters view 2 again with all, and lacks %v", got)
	}
	must(t, m.Enter(second, []LogID{orders}))
	third := viewOf(t, second, "c", member(1, 5), member(2, 8))
	third.Subgroups[0].Fresh = []order.Rank{1}
	must(t, m.Begin(member(2, 8)), m.Installed(third), m.Complete(orders, 2))
	if got := m.State().Incomplete; !slices.Equal(got, []IncompleteLog{{orders, 3}}) {
		t.Errorf("it is new in view 3, and lacks %v", got)
	}
}

func TestALogIsElsewhereIfAnotherMemberOfTheLastViewHasIt(t *testing.T) {
	one, two := member(1, 5), member(2, 6)
	both := viewOf(t, nil, "a", one, two)
	shards := *both
	shards.Subgroups = []views.Subgroup{
		{Name: "s", Shard: 0, Mode: views.Persistent, Members: []order.Rank{0}}, {Name: "s", Shard: 1, Mode: views.Persistent, Members: []order.Rank{1}},
		{Name: "s", Shard: 2, Mode: views.Persistent, Holders: []views.Holder{{ID: 1}}}, {Name: "s", Shard: 3, Mode: views.Persistent, Holders: []views.Holder{{ID: 1}, {ID: 2}}},
		{Name: "s", Shard: 4, Mode: views.Persistent},
	}
	for _, c := range []struct {
		view  *views.View
		shard int
		want  bool
	}{{both, 0, true}, {viewOf(t, both, "b", one), 0, false}, {&shards, 0, false}, {&shards, 1, true}, {&shards, 2, false}, {&shards, 3, true}, {&shards, 4, false}, {&shards, 5, true}, {nil, 0, false}} {
		m := &Memory{}
		m.state.Node, m.state.View = 1, c.view
		name := "s"
		if c.view != &shards {
			name = both.Subgroups[0].Name
		}
		if got := m.State().Elsewhere(LogID{Name: name, Shard: c.shard}); got != c.want {
			t.Errorf("shard %d of %+v: %v", c.shard, c.view, got)
		}
	}
	m, id := &Memory{}, LogID{Name: both.Subgroups[0].Name}
	m.state.Node, m.state.View, m.state.Echo = 1, both, &Echo{}
	if !m.State().Elsewhere(id) {
		t.Error("nothing else followed")
	}
	m.state.Echo = &Echo{View: viewOf(t, both, "b", one)}
	if m.State().Elsewhere(id) {
		t.Error("what was acknowledged in the view that may have followed is on this disk only")
	}
}

// What could not be written was not said: the next thing that is said builds on what is on the
// disk.
func TestWhatCouldNotBeWrittenIsNotRemembered(t *testing.T) {
	disk, self := &testDisk{}, member(1, 5)
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self)
	must(t, m.Begin(self), m.Enter(first, nil))
	disk.broken = errors.New("no space")
	second := viewOf(t, first, "b", self)
	if err := m.Echo(1, 257, second); !errors.Is(err, disk.broken) {
		t.Fatal(err)
	}
	if s := m.State(); s.Echo != nil || m.View().Key() != "a" {
		t.Errorf("remembered: %+v", s)
	}
	disk.broken = nil
	must(t, m.Echo(1, 257, second))
	if s := remembering(t, disk).State(); s.Echo == nil || s.Echo.Ballot != 257 {
		t.Errorf("on disk: %+v", s)
	}
}
