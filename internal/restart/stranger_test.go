package restart

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/views"
)

// stranger knows the name of a group and every message that was sent in it, and in another group of
// the same name, but no secret. It replays messages to processes to which they were not sent, and
// sends altered ones.
type stranger struct {
	rng   *rand.Rand
	own   []packet // of the group that it meddles with
	other []packet // of the other group
	tried map[string]int
}

// strangers adds a stranger to a world, and another group with the same nodes.
func strangers(seed uint64, w *world) *stranger {
	s := &stranger{rng: rand.New(rand.NewPCG(seed, 77)), tried: map[string]int{}}
	second := newWorldOf(seed+1_000_000, len(w.nodes), "second")
	second.seen = func(p packet) { s.other = append(s.other, p) }
	for range 200 {
		second.step()
	}
	w.seen = func(p packet) {
		if s.own = append(s.own, p); len(s.own) > 2000 {
			s.own = s.own[1000:]
		}
	}
	w.meddle = func(n *worldNode) {
		for tries := s.rng.IntN(4); tries > 0 && n.core != nil; tries-- {
			s.meddle(w, n)
		}
	}
	return s
}

// meddle says something to a process, which must not change anything.
func (s *stranger) meddle(w *world, n *worldNode) {
	n.apply(n.core.step(n.core.now, func(*Effects) {})) // what follows from the last message even if nothing comes
	if n.core == nil || n.core.over {
		return
	}
	m, how := s.invent(n)
	if how == "" {
		return
	}
	s.tried[how]++
	c := n.core
	before := snapshotOf(c)
	e := c.Hear(c.now, m)
	if after := snapshotOf(c); e.State != nil || e.Outcome != nil || e.Reconcile != nil || e.Stop || !reflect.DeepEqual(before, after) {
		w.fail("%s: %v to node %d changed %+v into %+v, with %+v", how, m, n.id, before, after, e)
	}
	for _, answer := range e.Sends {
		if answer.Message.Verb != Hello || answer.Message.Next.View != nil || len(e.Sends) > 1 {
			w.fail("%s: %v to node %d is answered with %v", how, m, n.id, answer.Message)
		}
	}
}

// invent makes a message, and says how; an empty text: there is none now.
func (s *stranger) invent(n *worldNode) (Message, string) {
	switch k := s.rng.IntN(10); {
	case k < 3 && len(s.other) > 0:
		m := s.other[s.rng.IntN(len(s.other))].msg
		if s.rng.IntN(2) == 0 {
			m.To = n.inc
			m = m.Sealed(views.NewSecret("of the second"))
		}
		return m, "another group"
	case k < 6 && len(s.own) > 0: // to an earlier process, or to another one
		if m := s.own[s.rng.IntN(len(s.own))].msg; m.To != n.inc {
			return m, "said again"
		}
	case k < 9 && len(s.own) > 0:
		return s.forge(n, s.own[s.rng.IntN(len(s.own))].msg)
	case len(s.own) > 0: // one of the group, as it says itself
		m := s.own[s.rng.IntN(len(s.own))].msg
		m.To, m.Group, m.Lineage = n.inc, "", ""
		if m.Next.View != nil {
			v := *m.Next.View
			v.ID, v.Group, v.Lineage = v.ID+1<<40, "", ""
			m.Next.View = &v
		}
		return m.Sealed(views.Secret{}), "of an earlier format"
	}
	return Message{}, ""
}

// forge changes something of a message that was said.
func (s *stranger) forge(n *worldNode, m Message) (Message, string) {
	verbs := []Verb{Hello, Prepare, Promise, Plan, Ready, Accept, Vote, Decided, Outvoted, Running}
	before := fmt.Sprintf("%+v", m.text())
	m.To = n.inc
	for range 1 + s.rng.IntN(3) {
		switch s.rng.IntN(6) {
		case 0:
			m.Verb = verbs[s.rng.IntN(len(verbs))]
		case 1:
			m.Ballot.Round += 1 + s.rng.Uint64N(1000)
		case 2:
			m.Promised, m.Enter, m.Count = Ballot{1 << 20, m.From.ID}, true, m.Count+1000
		case 3:
			m.From.Incarnation++
		case 4:
			m.Peers = []string{"192.0.2.1:1"}
		case 5:
			v := (&views.View{ID: m.ViewID + 1, Cluster: "blue", Members: []views.Member{m.From}}).WithKey("forged")
			if of := n.core.state.View; of != nil {
				v.Follow(of)
			}
			m.Next = Successor{View: v, Restarted: true}
		}
	}
	if fmt.Sprintf("%+v", m.text()) == before {
		return Message{}, ""
	}
	if s.rng.IntN(2) == 0 {
		m = m.Sealed(views.NewSecret("a guess"))
	}
	return m, "forged"
}

// snapshot is all that a message can change in a core; the processes to which the core reports once
// that it ignores a message are not included.
type snapshot struct {
	State   State
	Peers   []peer
	Heard   []heard
	Attempt string
	Work    *work
	LogsFor string
	Able    bool
	Round   uint64
	Over    bool
}

func snapshotOf(c *Core) snapshot {
	s := snapshot{State: c.state, Work: c.work, LogsFor: c.logsFor, Able: c.able, Round: c.round, Over: c.over}
	for _, p := range c.peers {
		s.Peers = append(s.Peers, *p)
	}
	for _, h := range c.heard {
		h.others = slices.Clone(h.others)
		s.Heard = append(s.Heard, h)
	}
	if c.attempt != nil {
		s.Attempt = fmt.Sprintf("%+v", *c.attempt)
	}
	return s
}

// Y8: whatever a stranger says, and a second group of the name, and whatever is said again of what
// was said to others: nothing changes.
func TestRandomStrangersAndASecondGroupChangeNothing(t *testing.T) {
	seeds := testutil.Seeds[uint64](15, 200)
	if testing.Short() {
		seeds = 20
	}
	tried := map[string]int{}
	for seed := range seeds {
		var s *stranger
		_, err := runWith(seed, nil, func(w *world) { s = strangers(seed, w) })
		if err != nil {
			_, _ = runWith(seed, t.Logf, func(w *world) { strangers(seed, w) })
			t.Fatalf("seed %d: %v", seed, err)
		}
		for how, n := range s.tried {
			tried[how] += n
		}
	}
	t.Logf("%d seeds: %v", seeds, tried)
	for _, how := range []string{"another group", "said again", "forged", "of an earlier format"} {
		if tried[how] < int(seeds) {
			t.Errorf("%s: tried %d times", how, tried[how])
		}
	}
}

// lone is a process that restarts, a member of a group with an identity, with a promise and a vote.
func lone(t *testing.T) *Core {
	t.Helper()
	self, other := views.Member{ID: 1, Addr: "10.0.0.1:1", Incarnation: 1}, views.Member{ID: 2, Addr: "10.0.0.2:1", Incarnation: 2}
	mine := (&views.View{ID: 5, Cluster: "blue", Members: []views.Member{self, other}}).WithKey("mine")
	mine.Bootstrap("first", views.NewSecret("of the first"))
	next := (&views.View{ID: 6, Cluster: "blue", Members: []views.Member{self, other}}).WithKey("accepted")
	next.Follow(mine)
	c := NewCore(CoreConfig{
		Cluster: "blue", Self: views.Member{ID: 1, Addr: "10.0.0.1:1", Incarnation: 3}, Logs: func() []LogEnd { return nil }, Persistent: func(string) bool { return false },
		Place: func(*views.View, []views.Member) (*views.View, error) { return nil, errNotWhole },
	}, State{
		Node: 1, Incarnations: []uint64{1}, Promised: Ballot{3, 2}, Accepted: &Accepted{Ballot{3, 2}, Successor{View: next}}, Successor: Successor{View: mine},
		Secret: views.NewSecret("of the first"),
	})
	c.Start(0)
	return c
}

func TestAHelloOfAnotherGroupIsIgnoredAndToldOnce(t *testing.T) {
	c := lone(t)
	foreign := (&views.View{ID: 1 << 40, Cluster: "blue", Members: []views.Member{{ID: 9, Addr: "10.0.0.9:1", Incarnation: 77}}}).WithKey("foreign")
	before := snapshotOf(c)
	for i, found := range []func(){func() {}, func() { foreign.Bootstrap("second", views.NewSecret("of the second")) }, func() { foreign.Group = "first" }} {
		found()
		m := Message{
			Verb: Hello, Cluster: "blue", From: foreign.Members[0], ViewID: foreign.ID, Key: "foreign", Group: foreign.Group, Lineage: foreign.Lineage,
			Next: Successor{View: foreign}, To: 3,
		}
		m.From.ID += 1
		e := c.Hear(1, m.Sealed(foreign.Secret))
		if !reflect.DeepEqual(before, snapshotOf(c)) || e.State != nil || len(e.Sends) > 0 {
			t.Errorf("hello %d: it changed %+v into %+v, with %+v", i, before, snapshotOf(c), e)
		}
		if i == 0 && (len(e.Events) != 1 || !strings.Contains(e.Events[0].String(), views.ErrOtherHistory.Error())) {
			t.Errorf("it is told of with %v", e.Events)
		}
	}
}

// A group that works tells a process that cannot prove that it belongs to it neither its view nor
// where its members are.
func TestAStrangerIsToldNoView(t *testing.T) {
	self := views.Member{ID: 1, Addr: "10.0.0.1:1", Incarnation: 3}
	v := (&views.View{ID: 5, Cluster: "blue", Members: []views.Member{self, {ID: 2, Addr: "10.0.0.2:1", Incarnation: 2}}}).WithKey("mine")
	v.Bootstrap("first", views.NewSecret("of the first"))
	hello := Message{Verb: Hello, Cluster: "blue", From: v.Members[1], ViewID: 5, Group: v.Group, Lineage: v.Lineage}
	if a := Answer("blue", self, v, hello.Sealed(v.Secret)); a.Next.View != v || len(a.Peers) != 2 || !a.Genuine(v.Secret) || a.To != 2 {
		t.Errorf("a member is told %+v", a)
	}
	guessed, strange, old := hello, hello, hello
	strange.Group, strange.Lineage = "second", ""
	old.Group, old.Lineage = "", ""
	for name, m := range map[string]Message{"without a sum": hello, "with a guess": guessed.Sealed(views.NewSecret("guess")), "of another group": strange.Sealed(views.NewSecret("of the second"))} {
		if a := Answer("blue", self, v, m); a.Next.View != nil || a.Key != "" || len(a.Peers) > 0 {
			t.Errorf("%s: it is told %+v", name, a)
		}
	}
	if a := Answer("blue", self, v, old); a.Next.View != nil || a.Key != "" {
		t.Errorf("of an earlier format: it is told %+v", a)
	}
}

// A process that comes back alone finds a working group of the same name that is not its former
// group: it goes on waiting for its own.
func TestAnotherGroupThatWorksIsNotJoined(t *testing.T) {
	c := lone(t)
	self := views.Member{ID: 2, Addr: "10.0.0.2:1", Incarnation: 9}
	other := (&views.View{ID: 50, Cluster: "blue", Members: []views.Member{self}}).WithKey("theirs")
	other.Bootstrap("second", views.NewSecret("of the second"))
	before := snapshotOf(c)
	e := c.Hear(1, Answer("blue", self, other, c.hello().Sealed(c.state.Secret)))
	if e.Outcome != nil || c.Over() || !reflect.DeepEqual(before, snapshotOf(c)) {
		t.Errorf("%+v", e)
	}
	if c.foreign == nil || !strings.Contains(c.foreign.Error(), "second") || !strings.Contains(c.foreign.Error(), "first") {
		t.Errorf("what is told is %v", c.foreign)
	}
}
