package restart

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// olderValue is a value an earlier format had it.
func olderValue(value []byte) []byte {
	text := value[valueHeaderBytes:]
	old := append([]byte(valueMagic), 1)
	old = binary.LittleEndian.AppendUint32(old, crc.Of(text))
	return append(old, text...)
}

// The directories are of an earlier format, whose views have no group. The restart gives the group
// an identity, and a process that did not learn how the restart ended is told the identity.
func TestAGroupOfAnEarlierFormatGetsAnIdentityWhenItComesBack(t *testing.T) {
	all := membersOf(t, 3, "")
	for _, p := range all {
		delete(p.disk.values, keyRoot)
		for key, value := range p.disk.values {
			p.disk.values[key] = olderValue(value)
		}
		p.load()
	}
	v := outcomes(t, runs(within(t), all[:2]...), 2, order.Version{View: 1, Seq: 2})
	if v.Group == "" || v.Secret.IsZero() {
		t.Fatalf("view %d has no identity", v.ID)
	}
	for _, p := range all[:2] {
		s := remembering(t, p.disk).State()
		if s.View.Group != v.Group || s.Secret != v.Secret || s.Before != "first" {
			t.Errorf("node %d remembers group %q of %q", p.Self.ID, s.View.Group, s.Before)
		}
		p.again()
	}
	awaitAll(all[:2]...)
	w := outcomes(t, runs(within(t), all[:2]...), 2, order.Version{View: 1, Seq: 2})
	if w.Group != v.Group || w.Secret != v.Secret || !w.Follows(v) {
		t.Errorf("view %d is of group %q, view %d of %q", v.ID, v.Group, w.ID, w.Group)
	}
	if e := <-runs(within(t), all[2]); e.err != nil || len(e.outcome.Running) == 0 {
		t.Errorf("a process that comes later: %+v, %v", e.outcome, e.err)
	}
}

// Two of an earlier format are told of the view with which the group got its identity, as they were
// in the view before.
func TestWhoMissedThatTheGroupGotAnIdentityIsToldIt(t *testing.T) {
	self, other := member(1, 3), views.Member{ID: 2, Addr: "10.0.0.2:1", Incarnation: 2}
	old := (&views.View{ID: 5, Cluster: "blue", Members: []views.Member{self, other}}).WithKey("old")
	next := (&views.View{ID: 6, Cluster: "blue", Members: []views.Member{self, other}}).WithKey("new")
	next.Bootstrap("first", views.NewSecret("of the first"))
	core := func(self views.Member, s State) *Core {
		s.Node, s.Incarnations = self.ID, []uint64{self.Incarnation}
		self.Incarnation += 10
		c := NewCore(CoreConfig{
			Cluster: "blue", Self: self, Logs: func() []LogEnd { return nil }, Persistent: func(string) bool { return false },
			Place: func(*views.View, []views.Member) (*views.View, error) { return nil, errNotWhole },
		}, s)
		c.Start(0)
		return c
	}
	knows := core(self, State{Successor: Successor{View: next}, Secret: next.Secret, Before: "old"})
	missed := core(other, State{Successor: Successor{View: old}})
	e := knows.Hear(1, missed.hello())
	if len(e.Sends) != 1 || e.State != nil {
		t.Fatalf("%+v", e)
	}
	missed.Hear(1, e.Sends[0].Message)
	if s := missed.State(); s.View.Key() != "new" || s.Secret != next.Secret || s.Before != "old" {
		t.Errorf("it knows view %d with key %s", s.View.ID, s.View.Key())
	}
	stranger := missed.hello()
	stranger.Group, stranger.Lineage, stranger.Key = "", "", "guessed"
	if e := knows.Hear(2, stranger); len(e.Sends) > 0 {
		t.Errorf("a process that does not know the key of the view before is told %+v", e.Sends)
	}
}

func TestASecretIsKeptWithItsView(t *testing.T) {
	disk, self := &testDisk{}, member(1, 5)
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self, member(2, 6))
	first.Bootstrap("first", views.NewSecret("of the first"))
	must(t, m.Begin(self), m.Enter(first, nil))
	second := viewOf(t, first, "b", self)
	second.Follow(first)
	must(t, m.Echo(1, 257, second), m.Installed(second))
	if s := remembering(t, disk).State(); s.Secret != first.Secret || s.View.Group != "first" || s.View.Key() != "b" {
		t.Errorf("%+v", s)
	}
	for key, value := range disk.values {
		if shown := strings.Contains(string(value), "of the first"); shown != (key == keyRoot) {
			t.Errorf("%s holds the secret: %v", key, shown)
		}
	}
	delete(disk.values, keyRoot)
	if _, err := Load(disk); !errors.Is(err, ErrDamaged) {
		t.Errorf("without the secret: %v", err)
	}
}

// A later view of another group is not entered, and nothing of what is known is forgotten for it.
func TestNoViewOfAnotherGroupIsEntered(t *testing.T) {
	disk, self := &testDisk{}, member(1, 5)
	m := remembering(t, disk)
	first := viewOf(t, nil, "a", self, member(2, 6))
	first.Bootstrap("first", views.NewSecret("of the first"))
	must(t, m.Begin(self), m.Enter(first, nil))
	other := viewOf(t, nil, "z", self)
	other.ID = 50
	other.Bootstrap("second", views.NewSecret("of the second"))
	branch := viewOf(t, first, "b", self)
	branch.Follow(first)
	branch.Lineage = strings.Repeat("0", len(branch.Lineage))
	before := disk.puts
	for name, v := range map[string]*views.View{"another group": other, "another branch": branch} {
		if err := m.Enter(v, nil); !errors.Is(err, ErrOtherHistory) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s := remembering(t, disk).State(); s.View.Key() != "a" || disk.puts != before {
		t.Errorf("view %d is known, after %d writes", s.View.ID, disk.puts-before)
	}
}

// What an earlier process of a node said, and what a process said before its last hello, does not
// replace that.
func TestAnOldHelloSaysNothingNew(t *testing.T) {
	c := lone(t)
	from := views.Member{ID: 2, Addr: "10.0.0.2:1", Incarnation: 7}
	hello := func(count uint64, incarnation uint64, peers ...string) {
		m := c.hello()
		m.From, m.To, m.Count, m.Peers, m.Counts = from, 3, count, peers, true
		m.From.Incarnation = incarnation
		c.Hear(1, m.Sealed(c.state.Secret))
	}
	hello(5, 7, "10.0.0.5:1")
	hello(4, 7, "10.0.0.4:1")
	hello(5, 7, "10.0.0.4:1")
	if !slices.Equal(c.peers[0].peers, []string{"10.0.0.5:1"}) {
		t.Errorf("an older hello was believed: %v", c.peers[0].peers)
	}
	hello(1, 8, "10.0.0.8:1")
	hello(5, 7, "10.0.0.7:1")
	if !slices.Equal(c.peers[0].peers, []string{"10.0.0.8:1"}) || c.peers[0].member.Incarnation != 8 {
		t.Errorf("an earlier process was believed: %+v", c.peers[0])
	}
}

// The first hello that comes of a process may be behind one of the process that followed it. That
// one is believed again when it speaks again.
func TestALateHelloOfAnEarlierProcessDoesNotReplaceTheLaterOneForEver(t *testing.T) {
	c := lone(t)
	hear := func(verb Verb, count uint64, incarnation uint64) uint64 {
		m := c.hello()
		m.From, m.Verb, m.To, m.Count, m.Counts = views.Member{ID: 2, Addr: "10.0.0.2:1", Incarnation: incarnation}, verb, 3, count, true
		c.Hear(1, m.Sealed(c.state.Secret))
		return c.peers[0].member.Incarnation
	}
	for i, step := range []struct {
		verb        Verb
		count       uint64
		incarnation uint64
		there       uint64
	}{
		{Hello, 6, 8, 8},
		{Hello, 5, 7, 7}, // which may be there, as far as can be known
		{Hello, 6, 8, 7}, // the same one again
		{Prepare, 0, 8, 7},
		{Hello, 7, 8, 8},
		{Hello, 5, 7, 8},
		{Hello, 8, 8, 8},
	} {
		if got := hear(step.verb, step.count, step.incarnation); got != step.there {
			t.Fatalf("step %d: process %d is there, want %d", i, got, step.there)
		}
	}
}
