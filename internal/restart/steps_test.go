package restart

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// trio is node 1 of three that restart from view 5, with what came out of its core last. The other
// two are only what the test says in their name.
type trio struct {
	*Core
	t    *testing.T
	e    Effects
	view *views.View
	said uint64
}

func newTrio(t *testing.T, change func(*State)) *trio {
	t.Helper()
	v := (&views.View{ID: 5, Cluster: "blue"}).WithKey("five")
	for id := range order.NodeID(3) {
		v.Members = append(v.Members, views.Member{ID: id + 1, Addr: fmt.Sprintf("10.0.0.%d:1", id+1), Incarnation: uint64(id + 1)})
	}
	v.Bootstrap("first", views.NewSecret("of the first"))
	s := State{Node: 1, Incarnations: []uint64{1}, Successor: Successor{View: v}, Secret: v.Secret}
	if change != nil {
		change(&s)
	}
	c := &trio{t: t, view: v}
	self := v.Members[0]
	self.Incarnation = 11
	c.Core = NewCore(CoreConfig{
		Cluster: "blue", Self: self, Logs: func() []LogEnd { return nil }, Persistent: func(string) bool { return false },
		Place: func(previous *views.View, members []views.Member) (*views.View, error) {
			return c.next("placed", members...), nil
		},
	}, s)
	c.e = c.Start(0)
	return c
}

// member is a process of a node, as it restarts.
func (c *trio) member(id order.NodeID) views.Member {
	m := c.view.Members[id-1]
	m.Incarnation += 10
	return m
}

// next is a view that follows view 5.
func (c *trio) next(key string, members ...views.Member) *views.View {
	v := (&views.View{ID: 6, Cluster: "blue", Members: members}).WithKey(key)
	v.Follow(c.view)
	return v
}

// hear has the core hear a message of a node.
func (c *trio) hear(id order.NodeID, m Message) {
	c.said++
	m.Cluster, m.From, m.To, m.Count = "blue", c.member(id), c.cfg.Self.Incarnation, c.said
	m.ViewID, m.Key, m.Group, m.Lineage = c.view.ID, c.view.Key(), c.view.Group, c.view.Lineage
	c.e = c.Hear(c.now, m.Sealed(c.view.Secret))
}

// meet has the core hear the hellos of nodes.
func (c *trio) meet(ids ...order.NodeID) {
	for _, id := range ids {
		c.hear(id, Message{Verb: Hello, Counts: true})
	}
}

// leads lets node 1 lead a ballot, with all three here.
func (c *trio) leads() Ballot {
	c.t.Helper()
	c.meet(2, 3)
	if c.attempt == nil {
		c.t.Fatal("it leads no ballot")
	}
	return c.attempt.ballot
}

// sent are the messages with a verb that came out last.
func (c *trio) sent(v Verb) (all []Message) {
	for _, s := range c.e.Sends {
		if s.Message.Verb == v {
			all = append(all, s.Message)
		}
	}
	return all
}

// What may have been decided is the vote of the highest ballot, wherever it stands among the
// accounts, and no echo while there is a vote.
func TestTheVoteOfTheHighestBallotIsCompletedAndNoEcho(t *testing.T) {
	vote := func(round uint64, key string) Message {
		return Message{Accepted: &Accepted{Ballot{round, 1}, Successor{View: (&views.View{}).WithKey(key)}}}
	}
	echo := func(b viewchange.Ballot, key string) Message {
		return Message{Echo: &Echo{b, (&views.View{}).WithKey(key)}}
	}
	both := vote(2, "low")
	both.Echo = &Echo{1 << 40, (&views.View{}).WithKey("echo")}
	for name, c := range map[string]struct {
		accounts []Message
		want     string
	}{
		"the highest comes last":     {[]Message{echo(1<<40, "echo"), vote(2, "low"), vote(3, "high")}, "high"},
		"the highest comes first":    {[]Message{vote(3, "high"), vote(2, "low"), echo(1<<40, "echo")}, "high"},
		"the highest is between":     {[]Message{vote(1, "low"), vote(3, "high"), both}, "high"},
		"of one round, by the node":  {[]Message{{Accepted: &Accepted{Ballot{3, 2}, Successor{View: (&views.View{}).WithKey("high")}}}, vote(3, "low")}, "high"},
		"a vote with an echo":        {[]Message{both, echo(1<<41, "other")}, "low"},
		"echoes only, highest last":  {[]Message{echo(256, "low"), echo(512, "high")}, "high"},
		"echoes only, highest first": {[]Message{echo(512, "high"), echo(256, "low")}, "high"},
		"nothing":                    {[]Message{{}, {}}, ""},
	} {
		got := ""
		if v := (&attempt{accounts: c.accounts}).found().View; v != nil {
			got = v.Key()
		}
		if got != c.want {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestAPromiseForAnotherBallotDoesNotCount(t *testing.T) {
	c := newTrio(t, nil)
	b := c.leads()
	for _, other := range []Ballot{{b.Round - 1, b.Node}, {b.Round + 1, b.Node}, {b.Round, 2}} {
		if c.hear(2, Message{Verb: Promise, Ballot: other}); c.attempt == nil || len(c.attempt.accounts) != 1 || c.attempt.phase != preparing {
			t.Fatalf("a promise for %v counts in %v", other, b)
		}
	}
	if c.hear(2, Message{Verb: Promise, Ballot: b}); len(c.attempt.accounts) != 2 {
		t.Error("a promise for the ballot does not count")
	}
}

func TestAVoteForAnotherBallotDoesNotCount(t *testing.T) {
	c := newTrio(t, nil)
	b := c.leads()
	voted := &Accepted{Ballot{b.Round - 1, 3}, Successor{View: c.next("voted", c.member(2), c.member(3))}}
	for _, id := range []order.NodeID{2, 3} {
		c.hear(id, Message{Verb: Promise, Ballot: b, Accepted: voted})
	}
	if c.attempt == nil || c.attempt.phase != voting {
		t.Fatalf("it does not complete the vote: %+v", c.attempt)
	}
	for _, other := range []Ballot{{b.Round - 1, b.Node}, {b.Round + 1, b.Node}, {b.Round, 3}} {
		if c.hear(2, Message{Verb: Vote, Ballot: other}); c.state.View.ID != 5 || c.attempt.voted.Count() != 1 {
			t.Fatalf("a vote for %v counts in %v", other, b)
		}
	}
	if c.hear(2, Message{Verb: Vote, Ballot: b}); c.state.View.Key() != "voted" {
		t.Error("a vote for the ballot does not count")
	}
}

func TestReadyForAnotherBallotOrViewDoesNotCount(t *testing.T) {
	c := newTrio(t, nil)
	b := c.leads()
	for _, id := range []order.NodeID{2, 3} {
		c.hear(id, Message{Verb: Promise, Ballot: b})
	}
	if c.attempt == nil || c.attempt.phase != reconciling {
		t.Fatalf("it proposes no view: %+v", c.attempt)
	}
	for _, m := range []Message{
		{Ballot: Ballot{b.Round + 1, 1}, LogsFor: "placed"}, {Ballot: Ballot{b.Round, 2}, LogsFor: "placed"}, {Ballot: b, LogsFor: "other"}, {Ballot: b},
	} {
		m.Verb = Ready
		if c.hear(2, m); len(c.attempt.arrived) > 0 {
			t.Errorf("ready for %v and %q counts in %v", m.Ballot, m.LogsFor, b)
		}
	}
	if c.hear(2, Message{Verb: Ready, Ballot: b, LogsFor: "placed"}); !slices.Equal(c.attempt.arrived, []order.NodeID{2}) {
		t.Errorf("ready for the ballot does not count: %v", c.attempt.arrived)
	}
}

// follows has node 1 promise for a ballot of node 2.
func (c *trio) follows(b Ballot) {
	c.t.Helper()
	c.meet(2)
	if c.hear(2, Message{Verb: Prepare, Ballot: b}); c.state.Promised != b || len(c.sent(Promise)) != 1 {
		c.t.Fatalf("it promised %v, want %v: %+v", c.state.Promised, b, c.e)
	}
}

func TestAPlanOfAnotherBallotThanPromisedIsNotCarriedOut(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	next := Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}
	for _, b := range []Ballot{{8, 2}, {6, 2}} {
		if c.hear(2, Message{Verb: Plan, Ballot: b, Next: next}); c.e.Reconcile != nil || c.work != nil {
			t.Errorf("a plan of %v is carried out, and promised is %v", b, c.state.Promised)
		}
	}
	if c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: next}); c.e.Reconcile == nil {
		t.Error("the plan of the ballot is not carried out")
	}
}

// While logs change nothing is promised: what goes with a promise is where they end.
func TestNothingIsPromisedWhileLogsChange(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
	c.meet(3)
	if c.hear(3, Message{Verb: Prepare, Ballot: Ballot{8, 3}}); c.state.Promised != (Ballot{7, 2}) || len(c.sent(Promise)) > 0 || !c.e.Stop {
		t.Fatalf("it promised %v, with %+v", c.state.Promised, c.e)
	}
	if c.hear(2, Message{Verb: Prepare, Ballot: Ballot{7, 2}}); len(c.sent(Promise)) > 0 {
		t.Error("it promised again for the same ballot while its logs change")
	}
	c.e = c.Reconciled(c.now, Ballot{7, 2}, nil)
	if c.logsFor != "" {
		t.Errorf("logs that were stopped half-way are where they were to be for %q", c.logsFor)
	}
	if c.hear(3, Message{Verb: Prepare, Ballot: Ballot{8, 3}}); c.state.Promised != (Ballot{8, 3}) || len(c.sent(Promise)) != 1 {
		t.Errorf("it promised %v", c.state.Promised)
	}
}

func TestAVoteInAnotherBallotStopsWhatChangesTheLogs(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
	c.meet(3)
	c.hear(3, Message{Verb: Accept, Ballot: Ballot{8, 3}, Next: Successor{View: c.next("found", c.member(2), c.member(3))}})
	if len(c.sent(Vote)) != 1 || !c.e.Stop || c.work == nil || !c.work.stopped {
		t.Fatalf("the logs change on: %+v", c.e)
	}
	if c.e = c.Reconciled(c.now, Ballot{7, 2}, nil); c.logsFor != "" || len(c.sent(Ready)) > 0 {
		t.Errorf("the logs are where they were to be for %q", c.logsFor)
	}
}

// A log that failed takes nothing any more. Its process leaves, and the others go on without it.
func TestAnOwnLogThatFailsEndsTheRestart(t *testing.T) {
	own := LogError{errors.New("a full disk")}
	for _, stopped := range []bool{false, true} {
		c := newTrio(t, nil)
		c.follows(Ballot{7, 2})
		c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
		c.work.stopped = stopped
		c.e = c.Reconciled(c.now, Ballot{7, 2}, fmt.Errorf("a log: %w", own))
		if !c.Over() || c.e.Outcome == nil || !errors.Is(c.e.Outcome.Err, own) || c.e.Outcome.View != nil {
			t.Errorf("stopped %v: it goes on, with %+v", stopped, c.e)
		}
	}
}

// The end of a reconciliation counts for the ballot that is promised then, even if the
// reconciliation was not stopped.
func TestTheEndOfAnOlderReconciliationIsNoReadiness(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	c.work = &work{ballot: Ballot{6, 2}, view: c.next("older", c.cfg.Self, c.member(2))}
	if c.e = c.Reconciled(c.now, Ballot{6, 2}, nil); c.logsFor != "" || len(c.sent(Ready)) > 0 {
		t.Errorf("the logs are where they were to be for %q, with %+v", c.logsFor, c.e)
	}
}

// From the moment at which the logs begin to change they are nowhere: a view for which they were
// ready before is not entered.
func TestLogsThatChangeAreReadyForNoView(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	c.logsFor = "before"
	c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
	if c.e.Reconcile == nil || c.logsFor != "" {
		t.Fatalf("the logs are ready for %q while they change", c.logsFor)
	}
	c.hear(2, Message{Verb: Decided, Ballot: Ballot{6, 2}, Next: Successor{View: c.next("before", c.cfg.Self, c.member(2)), Restarted: true}, Enter: true})
	if c.Over() || c.state.View.Key() != "before" {
		t.Errorf("it entered %q: %v", c.state.View.Key(), c.Over())
	}
}

func TestWhoseLogsAreElsewhereLearnsTheViewAndDoesNotEnterIt(t *testing.T) {
	for logsFor, enters := range map[string]bool{"": false, "other": false, "decided": true} {
		c := newTrio(t, nil)
		c.meet(2)
		c.logsFor = logsFor
		c.hear(2, Message{Verb: Decided, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("decided", c.cfg.Self, c.member(2)), Restarted: true}, Enter: true})
		if c.state.View.Key() != "decided" || c.Over() != enters {
			t.Errorf("logs for %q: it knows view %q, entered: %v", logsFor, c.state.View.Key(), c.Over())
		}
	}
}

// Y5: a member of the view that works tells this process so, after it has promised to help
// replacing that view.
func TestWhoPromisedDoesNotEnterTheViewThatWorks(t *testing.T) {
	for promised, enters := range map[Ballot]bool{{}: true, {7, 2}: false} {
		var v *views.View
		c := newTrio(t, func(s *State) {
			v = (&views.View{ID: 6, Cluster: "blue", Members: slices.Clone(s.View.Members)}).WithKey("works")
			v.Members[0].Incarnation = 11
			v.Follow(s.View)
			s.View, s.Restarted, s.Promised, s.Incarnations = v, true, promised, []uint64{1, 11}
		})
		c.logsFor = "works"
		hello := c.hello()
		hello.To = 1
		e := c.Hear(c.now, Answer("blue", v.Members[1], v, hello.Sealed(v.Secret)))
		if e.Outcome == nil || (e.Outcome.View != nil) != enters {
			t.Errorf("promised %v: %+v", promised, e.Outcome)
		}
	}
}

// A process of an earlier format voted for the view with which the group gets its identity. A
// member of it that says that it works is believed if it knows the secret that was voted for.
func TestTheViewWithAnIdentityIsEnteredByAProcessThatVotedForIt(t *testing.T) {
	for secret, enters := range map[string]bool{"voted": true, "guessed": false} {
		var v *views.View
		c := newTrio(t, func(s *State) {
			s.View.Group, s.View.Secret, s.View.Lineage, s.Secret = "", views.Secret{}, "", views.Secret{}
			v = (&views.View{ID: 6, Cluster: "blue", Members: slices.Clone(s.View.Members)}).WithKey("works")
			v.Members[0].Incarnation = 11
			v.Bootstrap("group", views.NewSecret("voted"))
			s.Promised = Ballot{7, 2}
			s.Accepted = &Accepted{s.Promised, Successor{View: v, Restarted: true, Secret: "voted"}}
		})
		c.logsFor = "works"
		hello := c.hello()
		hello.To = 1
		there := *v
		there.Secret = views.NewSecret(secret)
		e := c.Hear(c.now, Answer("blue", v.Members[1], &there, hello))
		if e.Outcome == nil || (e.Outcome.View != nil) != enters {
			t.Errorf("%s: %+v", secret, e.Outcome)
		}
	}
}

// What a leader completes is in force, and is entered if a quorum of its members have their logs
// where they were agreed to be for it.
func TestAViewIsEnteredByAQuorumOfItsMembersOnly(t *testing.T) {
	for ready, enters := range map[order.NodeID]bool{1: false, 2: true} { // node 1, and then node 2 too: of three, without node 3
		c := newTrio(t, nil)
		next := c.next("voted", c.cfg.Self, c.member(2), c.member(3))
		c.logsFor = next.Key()
		b := c.leads()
		c.attempt.accounts[0].LogsFor = next.Key()
		for _, id := range []order.NodeID{2, 3} {
			m := Message{Verb: Promise, Ballot: b, Accepted: &Accepted{Ballot{b.Round - 1, 3}, Successor{View: next, Restarted: true}}}
			if id <= ready {
				m.LogsFor = next.Key()
			}
			c.hear(id, m)
		}
		c.hear(2, Message{Verb: Vote, Ballot: b})
		told := c.sent(Decided)
		if c.state.View.Key() != "voted" || len(told) != 2 || told[0].Enter != enters || c.Over() != enters {
			t.Errorf("ready up to node %d: view %q, entered: %v, told %+v", ready, c.state.View.Key(), c.Over(), told)
		}
	}
}

func TestWhoDoesNotCountPromisesNothing(t *testing.T) {
	c := newTrio(t, func(s *State) { s.Incarnations = []uint64{99} })
	c.meet(2, 3)
	for _, m := range []Message{
		{Verb: Prepare, Ballot: Ballot{7, 2}}, {Verb: Accept, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("put to the vote", c.member(2), c.member(3))}},
	} {
		if c.hear(2, m); c.state.Promised != (Ballot{}) || c.state.Accepted != nil || len(c.sent(Promise))+len(c.sent(Vote)) > 0 {
			t.Errorf("%s: %+v", m.Verb, c.e)
		}
	}
}

// A log that lacked records is as whole as the logs of its sources once it has its agreed end,
// durably.
func TestAReconciliationMakesALogWhole(t *testing.T) {
	id := LogID{Name: "orders"}
	c := newTrio(t, func(s *State) { s.Incomplete = []IncompleteLog{{id, 5}, {LogID{Name: "other"}, 5}} })
	c.follows(Ballot{7, 2})
	plan := []Agreed{{ID: id, End: order.Version{View: 5, Seq: 3}, Sources: []Source{{2, c.member(2).Addr}}}}
	c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Plan: plan, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
	if c.e = c.Reconciled(c.now, Ballot{7, 2}, nil); c.e.State == nil || !slices.Equal(c.e.State.Incomplete, []IncompleteLog{{LogID{Name: "other"}, 5}}) {
		t.Errorf("what lacks something is %v", c.state.Incomplete)
	}
}

// shards lays out a view of node 1, with logs in which it is fresh or not.
func shards(v *views.View, names ...string) *views.View {
	for _, name := range names {
		v.Subgroups = append(v.Subgroups, views.Subgroup{Name: name, Mode: views.Persistent, Members: []order.Rank{0, 1, 2}})
	}
	return v
}

// A process that was in view 3 and learns of view 5, made by a change, did not deliver what came
// between: its logs are not whole.
func TestWhoMissedAViewHasNoWholeLogs(t *testing.T) {
	members := []views.Member{{ID: 1, Incarnation: 1}, {ID: 2, Incarnation: 2}, {ID: 3, Incarnation: 3}}
	at := func(id order.ViewID) *views.View {
		return shards((&views.View{ID: id, Members: members}).WithKey(fmt.Sprint(id)), "orders")
	}
	for next, lacks := range map[order.ViewID]int{4: 0, 5: 1} {
		s := State{Node: 1, Successor: Successor{View: at(3)}}
		if s.move(Successor{View: at(next)}); len(s.Incomplete) != lacks {
			t.Errorf("view %d after view 3: %v", next, s.Incomplete)
		}
	}
	s := State{Node: 1, Successor: Successor{View: at(3)}}
	if s.move(Successor{View: at(5), Restarted: true}); len(s.Incomplete) > 0 {
		t.Errorf("before a restart's view all logs were brought to their ends: %v", s.Incomplete)
	}
	s = State{Node: 1, Successor: Successor{View: at(3)}, Incomplete: []IncompleteLog{{LogID{Name: "orders"}, 3}}}
	if s.move(Successor{View: at(4)}); len(s.Incomplete) != 1 {
		t.Errorf("what lacked something in view 3 is whole in view 4: %v", s.Incomplete)
	}
}

// A process echoed view 4, installed it, and did not get to say so to its disk. It learns of view
// 5, in which it is: it was in view 4 then.
func TestWhoIsInAViewHadInstalledTheOneThatItEchoed(t *testing.T) {
	members := []views.Member{{ID: 1, Incarnation: 1}, {ID: 2, Incarnation: 2}, {ID: 3, Incarnation: 3}}
	at := func(id order.ViewID) *views.View {
		return shards((&views.View{ID: id, Members: members}).WithKey(fmt.Sprint(id)), "orders")
	}
	s := State{Node: 1, Successor: Successor{View: at(3)}, Echo: &Echo{257, at(4)}}
	if s.move(Successor{View: at(5)}); len(s.Incomplete) > 0 {
		t.Errorf("it lacks %v", s.Incomplete)
	}
	other := at(4)
	other.Members = []views.Member{{ID: 1, Incarnation: 7}, {ID: 2, Incarnation: 2}, {ID: 3, Incarnation: 3}}
	s = State{Node: 1, Successor: Successor{View: at(3)}, Echo: &Echo{257, other}}
	if s.move(Successor{View: at(5)}); len(s.Incomplete) != 1 {
		t.Errorf("an echo of a view of another process of the node: it lacks %v", s.Incomplete)
	}
}

// A disk that lost something of a log is another one for the next process, so that it is not taken
// for one that has the log.
func TestADiskThatLostSomethingIsAnotherOne(t *testing.T) {
	disk := &testDisk{}
	m := remembering(t, disk)
	must(t, m.Begin(member(1, 5)))
	if m.Disk() != 5 {
		t.Fatalf("disk %d", m.Disk())
	}
	must(t, m.MarkIncomplete(LogID{Name: "orders"}))
	m = remembering(t, disk)
	if m.Disk() != 0 {
		t.Errorf("it is disk %d still", m.Disk())
	}
	must(t, m.Begin(member(1, 6)))
	if m.Disk() != 6 {
		t.Errorf("it is disk %d", m.Disk())
	}
}

// A disk whose process was started often without becoming a member is still the disk of the member
// that the view in force, an echo or a vote names.
func TestIncarnationsThatAViewNamesAreNotForgotten(t *testing.T) {
	at := func(id order.ViewID, incarnation uint64) *views.View {
		return (&views.View{ID: id, Members: []views.Member{{ID: 1, Incarnation: incarnation}}}).WithKey(fmt.Sprint(id))
	}
	s := State{Node: 1, Incarnations: []uint64{1, 2, 3, 4}, Successor: Successor{View: at(5, 1)}, Echo: &Echo{257, at(6, 2)}, Accepted: &Accepted{Ballot{1, 1}, Successor{View: at(6, 3)}}}
	for incarnation := uint64(5); incarnation < 3*maxIncarnations; incarnation++ {
		s.begin(views.Member{ID: 1, Incarnation: incarnation})
	}
	if len(s.Incarnations) != maxIncarnations || !slices.Equal(s.Incarnations[:3], []uint64{1, 2, 3}) || slices.Contains(s.Incarnations, 4) {
		t.Errorf("%d incarnations, the first are %v", len(s.Incarnations), s.Incarnations[:4])
	}
	for _, v := range []*views.View{s.View, s.Echo.View, s.Accepted.View} {
		if !s.Counts(v) {
			t.Errorf("the disk does not count in view %d of incarnation %d", v.ID, v.Members[0].Incarnation)
		}
	}
}

// The shard's members are nodes 2 and 3, whose disks are gone. The shard holds up the restart until
// an operator gives up the logs of both, and then goes on with the log of the member that gave them
// up.
func TestAShardOfWhichNoDiskIsLeftGoesOnWhenItIsGivenUp(t *testing.T) {
	for _, gaveUp := range [][]order.NodeID{nil, {2}, {2, 3}} {
		members := []views.Member{{ID: 1, Incarnation: 1, Disk: 10}, {ID: 2, Incarnation: 2, Disk: 20}, {ID: 3, Incarnation: 3, Disk: 30}}
		sg := views.Subgroup{Name: "log", Mode: views.Persistent, Members: []order.Rank{1, 2}}
		v := (&views.View{ID: 5, Cluster: "blue", Members: members, Subgroups: []views.Subgroup{sg}}).WithKey("five")
		self := members[0]
		for _, id := range gaveUp {
			self.GaveUp = views.AddMarks(self.GaveUp, sg.Mark(views.Holder{ID: id, Disk: 10 * uint64(id)}))
		}
		c := &Core{
			cfg:   CoreConfig{Self: self, Persistent: func(string) bool { return true }},
			state: State{Node: 1, Incarnations: []uint64{1}, Successor: Successor{View: v}}, attempt: &attempt{accounts: []Message{{From: self}}},
		}
		goesOn := len(gaveUp) == 2
		if met := len(c.unmet()) == 0; met != goesOn {
			t.Errorf("given up are %v: it holds up the restart: %v", gaveUp, !met)
		}
		c.attempt.next.View = &views.View{ID: 6, Members: members, Subgroups: []views.Subgroup{sg}}
		if err := c.agree(); (err == nil) != goesOn {
			t.Errorf("given up are %v: %v", gaveUp, err)
		}
	}
}

// A process that gives up a log declares the disks lost that the last view names, and no others;
// its own log is complete from then on.
func TestWhatIsGivenUpNamesTheDisksThatHadIt(t *testing.T) {
	disk, self := &testDisk{}, views.Member{ID: 1, Incarnation: 5, Addr: "10.0.0.1:1", Disk: 5}
	m := remembering(t, disk)
	waits := views.Subgroup{Name: "log", Shard: 1, Mode: views.Persistent, RingBytes: 1 << 16, Window: 64, Holders: []views.Holder{{ID: 2, Disk: 7}, {ID: 4, Disk: 9}}}
	first := waits
	first.Shard, first.Holders = 0, nil
	v := (&views.View{ID: 3, Cluster: "blue", Members: []views.Member{self}, Subgroups: []views.Subgroup{first, waits}}).WithKey("k")
	must(t, m.Begin(self), m.Enter(v, []LogID{{"log", 1}}))
	lost, err := m.GiveUp(LogID{"log", 1})
	if err != nil || !slices.Equal(lost, []views.Holder{{ID: 2, Disk: 7}, {ID: 4, Disk: 9}}) {
		t.Fatalf("%v, %v", lost, err)
	}
	m = remembering(t, disk)
	self.GaveUp = m.GaveUp()
	if !waits.GivenUp(waits.Holders, []views.Member{self}) || self.StandsIn(first, waits.Holders) || len(m.State().Incomplete) > 0 {
		t.Errorf("after the next start: %q, and %v lacks something", self.GaveUp, m.State().Incomplete)
	}
}

// Only the node that a ballot names may lead it: of two leaders of one ballot each would count the
// promises to the other one.
func TestABallotOfAnotherNodeIsNotTaken(t *testing.T) {
	c := newTrio(t, nil)
	c.meet(2, 3)
	c.e = Effects{}
	before := c.state.Promised
	for _, m := range []Message{
		{Verb: Prepare, Ballot: Ballot{before.Round + 5, 3}},
		{Verb: Accept, Ballot: Ballot{before.Round + 5, 3}, Next: Successor{View: c.next("put to the vote", c.member(2), c.member(3))}},
	} {
		if c.hear(2, m); c.state.Promised != before || c.state.Accepted != nil || len(c.sent(Promise))+len(c.sent(Vote)) > 0 {
			t.Errorf("%s of node 2, for a ballot of node 3: %+v", m.Verb, c.e)
		}
	}
}

// A process that falls silent is not here any more: it makes no quorum, and is waited for.
func TestAProcessThatFallsSilentIsNotHere(t *testing.T) {
	c := newTrio(t, nil)
	c.meet(2)
	if !c.able || c.here().Count() != 2 {
		t.Fatalf("able: %v, %d are here", c.able, c.here().Count())
	}
	c.e = c.Tick(c.now + c.cfg.Silence)
	if !c.able {
		t.Error("it was heard within the time, and does not count")
	}
	c.e = c.Tick(c.now + 1)
	if c.able || c.here().Count() != 1 || len(c.peers) > 0 {
		t.Errorf("able: %v, %d are here, %d peers", c.able, c.here().Count(), len(c.peers))
	}
}

// A view of which a member was started again meanwhile does not come into force: it would wait for
// a process that is gone.
func TestAViewOfAProcessThatStartedAgainIsGivenUp(t *testing.T) {
	c := newTrio(t, nil)
	b := c.leads()
	for _, id := range []order.NodeID{2, 3} {
		c.hear(id, Message{Verb: Promise, Ballot: b})
	}
	if c.attempt == nil || c.attempt.phase != reconciling {
		t.Fatalf("it proposes no view: %+v", c.attempt)
	}
	again := c.view.Members[1]
	again.Incarnation += 20
	c.said++
	m := Message{Verb: Hello, Cluster: "blue", From: again, To: c.cfg.Self.Incarnation, Count: c.said, Counts: true, ViewID: c.view.ID, Key: c.view.Key(), Group: c.view.Group, Lineage: c.view.Lineage}
	c.e = c.Hear(c.now, m.Sealed(c.view.Secret))
	if a := c.attempt; a != nil && a.ballot == b {
		t.Errorf("node 2 was started again, and the view of %v is still to come: %+v", b, a)
	}
}

// Logs that change for a successor of an older view are stopped when a newer one is in force.
func TestAViewThatIsLearnedStopsWhatChangesTheLogs(t *testing.T) {
	c := newTrio(t, nil)
	c.follows(Ballot{7, 2})
	c.hear(2, Message{Verb: Plan, Ballot: Ballot{7, 2}, Next: Successor{View: c.next("planned", c.cfg.Self, c.member(2)), Restarted: true}})
	c.meet(3)
	c.hear(3, Message{Verb: Decided, Next: Successor{View: c.next("decided", c.member(2), c.member(3)), Restarted: true}})
	if c.state.View.Key() != "decided" || !c.e.Stop || c.work == nil || !c.work.stopped {
		t.Errorf("view %d is known, and the logs change on: %+v", c.state.View.ID, c.e)
	}
}

// A ballot that is too far ahead is not promised: one process could use up all of them.
func TestABallotThatIsTooFarAheadIsNotPromised(t *testing.T) {
	c := newTrio(t, nil)
	c.meet(2)
	for _, over := range []uint64{1, 0} {
		b := Ballot{c.state.Promised.Round + maxLead + over, 2}
		if c.hear(2, Message{Verb: Prepare, Ballot: b}); (c.state.Promised == b) != (over == 0) {
			t.Errorf("%d beyond the bound: promised is %v", over, c.state.Promised)
		}
	}
}

// A more senior process that sees too few others to lead holds up no other process.
func TestOnlyAProcessThatIsAbleToLeadIsWaitedFor(t *testing.T) {
	for _, able := range []bool{true, false} {
		c := newTrio(t, func(s *State) { s.Node, s.Incarnations = 2, []uint64{2} })
		self := c.view.Members[1]
		self.Incarnation = 12
		c.cfg.Self = self
		c.Core = NewCore(c.cfg, c.state)
		c.e = c.Start(0)
		c.hear(1, Message{Verb: Hello, Counts: true, Able: able})
		c.e = c.Tick(c.now + c.cfg.Settle)
		if leads := c.attempt != nil; leads == able {
			t.Errorf("the senior process is able to lead: %v, and this one leads: %v", able, leads)
		}
	}
}

// The process before it said that it counts. What a later process of the node says first need not
// be a Hello.
func TestAProcessCountsByItsOwnWord(t *testing.T) {
	c := newTrio(t, nil)
	c.meet(2)
	if !c.here().Has(1) {
		t.Fatal("a process that counts is not here")
	}
	m := Message{Verb: Ready, Cluster: "blue", From: c.member(2), To: c.cfg.Self.Incarnation, ViewID: 5, Key: "five", Group: c.view.Group, Lineage: c.view.Lineage}
	m.From.Incarnation++
	c.Hear(c.now, m.Sealed(c.view.Secret))
	if len(c.peers) != 1 || c.peers[0].member != m.From || c.here().Has(1) {
		t.Errorf("of the node after it was started again, %+v is known, and here are %v", c.peers[0], c.here().List())
	}
}
