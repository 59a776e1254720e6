package join

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

var decls = []views.Declaration{
	{Name: "orders", RingBytes: 1 << 16, Window: 64},
	{Name: "audit", Mode: views.Unordered, RingBytes: 1 << 12, Window: 16, Members: []order.NodeID{1, 2}, Senders: []order.NodeID{2}},
}

func member(id int) views.Member {
	return views.Member{ID: order.NodeID(id), Addr: fmt.Sprintf("10.0.0.%d:7000", id)}
}

func bootstrapOf(expect int) *bootstrap {
	return newBootstrap(Config{Cluster: "blue", Self: member(1), Expect: expect, Declarations: decls})
}

func requestOf(id, expect int) Request {
	return Request{Cluster: "blue", Member: member(id), Expect: expect, Declarations: slices.Clone(decls)}
}

// said renders sends as "ticket:verb", so that an expectation is one line.
func said(e effects) string {
	var out []string
	for _, s := range e.sends {
		out = append(out, fmt.Sprintf("%d:%s", s.to, s.msg.Verb))
	}
	return strings.Join(out, " ")
}

func expectSaid(t *testing.T, e effects, want string) {
	t.Helper()
	if got := said(e); got != want {
		t.Fatalf("said %q, want %q", got, want)
	}
}

// fullRoll has proposed a view of 1, 2 and 3 on tickets 0, 10 and 20.
func fullRoll(t *testing.T) *bootstrap {
	t.Helper()
	r := bootstrapOf(3)
	expectSaid(t, r.ask(10, requestOf(2, 3)), "10:wait")
	expectSaid(t, r.ask(20, requestOf(3, 3)), "20:wait 10:view 20:view")
	return r
}

// J1.
func TestRanksAreTheFirstMemberThenTheOrderOfArrival(t *testing.T) {
	r := bootstrapOf(4)
	for i, id := range []int{9, 2, 5} {
		r.ask(Ticket(i+1), requestOf(id, 4))
	}
	var ids []order.NodeID
	for _, m := range r.view.Members {
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []order.NodeID{1, 9, 2, 5}) || r.view.ID != 1 || r.view.Cluster != "blue" {
		t.Fatalf("view %d of %q: %v", r.view.ID, r.view.Cluster, ids)
	}
}

// J3: and nothing is said after it.
func TestInstallIsSaidWhenTheLastMemberIsReady(t *testing.T) {
	r := fullRoll(t)
	expectSaid(t, r.ready(10), "")
	expectSaid(t, r.ready(self), "")
	expectSaid(t, r.ready(self), "")
	expectSaid(t, r.ready(20), "10:install 20:install")
	expectSaid(t, r.fail(10, errGone), "")
	if r.phase != installed || r.cause != nil {
		t.Fatalf("phase %d, cause %v", r.phase, r.cause)
	}
}

func TestAGroupOfOneNeedsNobody(t *testing.T) {
	r := newBootstrap(Config{Self: member(1), Expect: 1})
	var e effects
	r.propose(&e)
	r.ready(self)
	if r.phase != installed || len(e.sends) != 0 {
		t.Fatalf("phase %d, said %q", r.phase, said(e))
	}
}

func TestEveryRefusalNamesBothSides(t *testing.T) {
	change := func(f func(*Request)) Request {
		q := requestOf(2, 3)
		f(&q)
		return q
	}
	field := func(f func(d *views.Declaration)) Request {
		return change(func(q *Request) { f(&q.Declarations[1]) })
	}
	for name, c := range map[string]struct {
		q     Request
		names []string
	}{
		"cluster":   {change(func(q *Request) { q.Cluster = "green" }), []string{`"blue"`, `"green"`}},
		"expect":    {requestOf(2, 5), []string{"expects 3", "expects 5"}},
		"id":        {change(func(q *Request) { q.Member.ID = 7 }), []string{"id 7", "node 7 at 10.0.0.7:7000"}},
		"own id":    {change(func(q *Request) { q.Member.ID = 1 }), []string{"id 1", "node 1 at 10.0.0.1:7000"}},
		"itself":    {change(func(q *Request) { q.Member = member(1) }), []string{"node 1 at 10.0.0.1:7000"}},
		"address":   {change(func(q *Request) { q.Member.Addr = member(7).Addr }), []string{"10.0.0.7:7000", "node 7"}},
		"malformed": {change(func(q *Request) { q.Member.Addr = "nowhere" }), []string{"nowhere"}},
		"too long":  {change(func(q *Request) { q.Member.Host = strings.Repeat("x", 1000) }), []string{"longer than 256"}},
		"fewer":     {change(func(q *Request) { q.Declarations = q.Declarations[:1] }), []string{`"audit"`, "group only"}},
		"more": {change(func(q *Request) { q.Declarations = append(q.Declarations, views.Declaration{Name: "extra"}) }),
			[]string{`"extra"`, "joiner only"}},
		"name":    {field(func(d *views.Declaration) { d.Name = "log" }), []string{"name", `"audit"`, `"log"`}},
		"members": {field(func(d *views.Declaration) { d.Members = nil }), []string{`"audit"`, "members", "[1 2]", "[]"}},
		"senders": {field(func(d *views.Declaration) { d.Senders = []order.NodeID{1} }), []string{`"audit"`, "senders", "[2]", "[1]"}},
		"mode":    {field(func(d *views.Declaration) { d.Mode = views.Ordered }), []string{`"audit"`, "mode", "unordered", "ordered"}},
		"ring":    {field(func(d *views.Declaration) { d.RingBytes = 8192 }), []string{`"audit"`, "ring_bytes", "4096", "8192"}},
		"window":  {field(func(d *views.Declaration) { d.Window = 32 }), []string{`"audit"`, "window", "16", "32"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := bootstrapOf(3)
			r.ask(10, requestOf(7, 3))
			e := r.ask(20, c.q)
			expectSaid(t, e, "20:refuse")
			for _, want := range c.names {
				if !strings.Contains(e.sends[0].msg.Text, want) {
					t.Errorf("%q does not name %s", e.sends[0].msg.Text, want)
				}
			}
			if len(r.seats) != 2 || !e.events[0].(Refused).Final {
				t.Fatalf("%d seats, %v", len(r.seats), e.events)
			}
		})
	}
}

func TestTheOrderOfMembersInADeclarationMeansNothing(t *testing.T) {
	q := requestOf(2, 3)
	q.Declarations[1].Members = []order.NodeID{2, 1}
	expectSaid(t, bootstrapOf(3).ask(10, q), "10:wait")
}

func TestAReasonIsCutBeforeItIsSent(t *testing.T) {
	q := requestOf(2, 3)
	q.Cluster = strings.Repeat("é", 500_000)
	e := bootstrapOf(3).ask(10, q)
	if text := e.sends[0].msg.Text; len(text) > maxTextBytes+len("…") {
		t.Fatalf("%d bytes", len(text))
	}
}

// J2, before the View.
func TestBeforeTheViewABrokenJoinerIsForgottenAndAnotherTakesItsPlace(t *testing.T) {
	r := bootstrapOf(3)
	r.ask(10, requestOf(2, 3))
	e := r.fail(10, errGone)
	if f, ok := e.events[0].(Forgotten); !ok || f.Member.ID != 2 || len(r.seats) != 1 {
		t.Fatalf("%v, %d seats", e.events, len(r.seats))
	}
	r.ask(20, requestOf(3, 3))
	r.ask(30, requestOf(2, 3))
	if r.phase != proposed || r.view.Members[1].ID != 3 {
		t.Fatalf("phase %d", r.phase)
	}
}

func TestANodeThatAsksAgainWaitsUntilItsOldConnectionIsGone(t *testing.T) {
	r := bootstrapOf(4)
	r.ask(10, requestOf(2, 4))
	e := r.ask(20, requestOf(2, 4))
	expectSaid(t, e, "20:later")
	if e.events[0].(Refused).Final || len(r.seats) != 2 || r.seats[1].ticket != 10 {
		t.Fatalf("%v, %+v", e.events, r.seats)
	}
	expectSaid(t, r.fail(20, errGone), "") // the newcomer's connection holds nothing
	r.fail(10, errGone)
	expectSaid(t, r.ask(30, requestOf(2, 4)), "30:wait")
}

// J4, and J2 after the View: no other process takes the place of a member that failed.
func TestAfterTheViewAnyFailureAbortsForAllAndNamesTheNode(t *testing.T) {
	for _, failing := range []Ticket{self, 10, 20} {
		r := fullRoll(t)
		r.ready(10)
		cause := errors.New("no route")
		id := r.seat(failing).member.ID
		e := r.fail(failing, cause)
		expectSaid(t, e, "10:abort 20:abort")
		want := fmt.Sprintf("node %d at 10.0.0.%d:7000: no route", id, id)
		if !errors.Is(r.cause, ErrAborted) || !errors.Is(r.cause, cause) || !strings.Contains(r.cause.Error(), want) || e.sends[1].msg.Text != want {
			t.Fatalf("cause %v, text %q", r.cause, e.sends[1].msg.Text)
		}
		expectSaid(t, r.ready(20), "")
		expectSaid(t, r.fail(20, errGone), "")
		expectSaid(t, r.ask(30, requestOf(4, 3)), "30:later")
	}
}

func TestAFirstMemberThatGivesUpBeforeTheViewSendsJoinersAway(t *testing.T) {
	r := bootstrapOf(4)
	r.ask(10, requestOf(2, 4))
	expectSaid(t, r.fail(self, errors.New("tired")), "10:later")
	expectSaid(t, r.ask(20, requestOf(3, 4)), "20:later")
	if r.cause == nil || !strings.Contains(r.cause.Error(), "2 of 4") || !strings.Contains(r.cause.Error(), "node 2 at") {
		t.Fatal(r.cause)
	}
}

func TestLatecomersAskAgainUntilADoorTakesThem(t *testing.T) {
	r := fullRoll(t)
	expectSaid(t, r.ask(30, requestOf(4, 3)), "30:later")
	for _, t := range []Ticket{self, 10, 20} {
		r.ready(t)
	}
	expectSaid(t, r.ask(40, requestOf(4, 3)), "40:later")
	expectSaid(t, r.ask(50, Request{Verb: Inquire, Cluster: "blue", Member: member(4)}), "50:later")
}

func TestASubgroupThatLacksMembersDoesNotHoldUpTheView(t *testing.T) {
	r := bootstrapOf(3)
	r.ask(10, requestOf(3, 3)) // "audit" is of nodes 1 and 2
	expectSaid(t, r.ask(20, requestOf(4, 3)), "20:wait 10:view 20:view")
	if audit := r.view.Subgroups[1]; !slices.Equal(audit.Members, []order.Rank{0}) || len(audit.Senders) != 0 {
		t.Fatalf("%+v", audit)
	}
}

func TestMembersThatDeclareWhatNobodyCanMeetAreAllRefused(t *testing.T) {
	r := bootstrapOf(2)
	q := requestOf(2, 2)
	q.Declarations[0].Shards = views.MaxMembers + 1
	r.decls = q.Declarations
	e := r.ask(10, q)
	expectSaid(t, e, "10:wait 10:refuse")
	if text := e.sends[1].msg.Text; r.phase != failed || !strings.Contains(text, "65 shards") {
		t.Fatalf("phase %d, %q", r.phase, text)
	}
}

func TestSpeakingOutOfTurnCostsThePlaceOrTheAttempt(t *testing.T) {
	r := bootstrapOf(3)
	r.ask(10, requestOf(2, 3))
	expectSaid(t, r.hear(10, Message{Verb: sayReady}), "10:refuse")
	r = fullRoll(t)
	r.hear(10, Message{Verb: sayReady})
	expectSaid(t, r.hear(10, Message{Verb: sayReady}), "10:abort 20:abort")
	r = fullRoll(t)
	expectSaid(t, r.hear(20, Message{Verb: "sing"}), "10:abort 20:abort")
	if !errors.Is(r.cause, errOutOfTurn) {
		t.Fatal(r.cause)
	}
	expectSaid(t, r.hear(99, Message{Verb: sayReady}), "")
}

func TestNobodyIsToldMoreThanAQueueHolds(t *testing.T) {
	// Every run of five inputs over two conversations; the queue of a line takes lineMessages.
	inputs := []func(r *bootstrap) effects{
		func(r *bootstrap) effects { return r.ask(10, requestOf(2, 3)) },
		func(r *bootstrap) effects { return r.ask(20, requestOf(3, 3)) },
		func(r *bootstrap) effects { return r.ready(10) },
		func(r *bootstrap) effects { return r.ready(20) },
		func(r *bootstrap) effects { return r.ready(self) },
		func(r *bootstrap) effects { return r.fail(10, errGone) },
		func(r *bootstrap) effects { return r.fail(self, errGone) },
	}
	for n := range 7 * 7 * 7 * 7 * 7 {
		r, told, last, asked := bootstrapOf(3), map[Ticket]int{}, map[Ticket]bool{}, map[int]bool{}
		for i, rest := 0, n; i < 5; i, rest = i+1, rest/7 {
			if k := rest % 7; k > 1 || !asked[k] { // a conversation has one request
				asked[k] = true
				for _, s := range inputs[k](r).sends {
					if told[s.to]++; told[s.to] > lineMessages || last[s.to] {
						t.Fatalf("run %d: ticket %d is told %s after its last message, or %d messages", n, s.to, s.msg.Verb, told[s.to])
					}
					last[s.to] = s.msg.last()
				}
			}
		}
	}
}
