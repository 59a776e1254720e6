package join

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// running is a group that has formed. Its view changes are decided by the test.
type running struct {
	t       *testing.T
	all     []*process
	doors   []*Server
	view    *views.View
	changed chan struct{}
}

// formedOf forms the first view of n processes and opens their doors.
func formedOf(t *testing.T, all []*process) *running {
	t.Helper()
	g := &running{t: t, all: all, changed: make(chan struct{}, 1)}
	ctx := within(t)
	var results []<-chan result
	for i, p := range all {
		if p.FailAfter = time.Second; p.silence == 0 {
			p.silence = time.Second
		}
		results = append(results, p.start(ctx))
		if i > 0 {
			all[0].await("asked", asked(i+1))
		}
	}
	var sessions []*Session
	var outcomes []*Outcome
	for _, r := range results {
		got := get(t, r)
		if got.err != nil {
			t.Fatal(got.err)
		}
		sessions, outcomes = append(sessions, got.Session), append(outcomes, got.outcome)
	}
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
	g.view = outcomes[0].View
	for _, o := range outcomes {
		g.serve(o)
	}
	return g
}

func (g *running) serve(o *Outcome) *Server {
	d := o.Serve(func() {
		select {
		case g.changed <- struct{}{}:
		default:
		}
	})
	g.doors = append(g.doors, d)
	g.t.Cleanup(d.Close)
	return d
}

// candidates waits until so many are ready at the leader.
func (g *running) candidates(n int) []views.Member {
	g.t.Helper()
	for {
		if c := g.doors[0].Candidates(); len(c) == n {
			return c
		}
		get(g.t, g.changed)
	}
}

// admit makes a view with the candidates.
func (g *running) admit(candidates []views.Member) *views.View {
	g.t.Helper()
	v, _, err := views.Place(views.Placement{
		ID: g.view.ID + 1, Cluster: g.view.Cluster, Key: "next", Members: slices.Concat(g.view.Members, candidates),
		Declarations: g.all[0].Declarations, Previous: g.view,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	g.view = v
	return v
}

func (g *running) installAt(i int) []views.Member {
	return g.doors[i].Installed(g.view, order.Rank(i))
}

// newcomer is a process that knows the addresses of the group's members from the one of rank first
// on.
func (g *running) newcomer(id order.NodeID, first int) *process {
	g.t.Helper()
	p := cluster(g.t, 2)[1]
	p.Self.ID, p.Expect, p.FailAfter, p.silence, p.TLS = id, 7, time.Second, time.Second, g.all[0].TLS
	p.Join = nil
	for _, m := range g.all[first:] {
		p.Join = append(p.Join, m.Port.Addr())
	}
	return p
}

func TestAProcessJoinsAGroupThatHasFormed(t *testing.T) {
	g := formedOf(t, cluster(t, 3))
	p := g.newcomer(9, 2)
	joining := p.start(within(t))
	v := g.admit(g.candidates(1))
	if lost := g.installAt(1); len(lost) > 0 { // not the leader, and not the member that it asked
		t.Fatalf("%v is lost", lost)
	}
	got := get(t, joining)
	if got.err != nil || got.Session != nil || got.outcome.View.ID != 2 || !has(got.outcome.View, v.Members[3]) {
		t.Fatalf("%+v, %v", got.outcome, got.err)
	}
	g.serve(got.outcome)
	for _, i := range []int{0, 2} {
		if lost := g.installAt(i); len(lost) > 0 {
			t.Fatalf("at %d, %v is lost", i, lost)
		}
	}
	p.await("redirected", is[Redirected])
	p.await("admitted", is[Admitted])
	for _, what := range []func(Event) bool{is[Applied], is[Reached], is[Admitted]} {
		g.all[0].await("the way of the joiner", what)
	}

	again := g.newcomer(10, 0) // greets the first one too
	joining = again.start(within(t))
	g.admit(g.candidates(1))
	g.installAt(3)
	if got := get(t, joining); got.err != nil || got.outcome.View.ID != 3 {
		t.Fatal(got.err)
	}
}

func TestAProcessJoinsOverMutualTLS(t *testing.T) {
	config := selfSigned(t)
	all := cluster(t, 2)
	secure := func(p *process) {
		other, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		p.Port, p.TLS = other, config
	}
	for i, p := range all {
		if secure(p); i > 0 {
			p.Join = []string{all[0].Port.Addr()}
		}
	}
	g := formedOf(t, all)
	p := g.newcomer(9, 0)
	secure(p)
	joining := p.start(within(t))
	g.admit(g.candidates(1))
	g.installAt(0)
	if got := get(t, joining); got.err != nil || got.outcome.View.ID != 2 {
		t.Fatal(got.err)
	}
	if lost := g.installAt(1); len(lost) > 0 {
		t.Fatalf("%v is lost", lost)
	}
}

func TestAFirstMemberThatIsStartedAgainJoinsTheGroupThatItBootstrapped(t *testing.T) {
	all := cluster(t, 3)
	for _, p := range all {
		p.Join = []string{all[0].Port.Addr(), all[1].Port.Addr(), all[2].Port.Addr()}
	}
	g := formedOf(t, all)
	g.doors[0].Close()
	again := &process{t: t, signal: make(chan struct{}, 1), Config: all[0].Config}
	again.Self.Incarnation, again.OnEvent = 0, again.note
	joining := again.start(within(t))
	g.all[0].Port.Handle(port.KindControl, nil) // it is the same port, and no process uses it but the asking one
	v := *g.view
	v.ID, v.Members = 2, v.Members[1:]
	v.Subgroups = nil
	g.view = &v
	g.doors = g.doors[1:]
	g.installAt(0)
	g.installAt(1)
	g.admit(g.candidates(1))
	g.installAt(1)
	got := get(t, joining)
	if got.err != nil || got.Session != nil || got.outcome.View.ID != 3 || got.outcome.View.Members[2].ID != 1 {
		t.Fatalf("%+v, %v", got.outcome, got.err)
	}
}

func TestTheFirstMemberDoesNotMindOthersThatAreNoGroup(t *testing.T) {
	all := cluster(t, 3)
	for _, p := range all {
		p.Join = []string{all[0].Port.Addr(), all[1].Port.Addr(), "127.0.0.1:1"}
	}
	ctx := within(t)
	joiner := all[1].start(ctx)
	all[1].await("retry", is[AttemptFailed])
	first := all[0].start(ctx)
	all[0].await("asked", asked(2))
	third := all[2].start(ctx)
	var sessions []*Session
	for _, r := range []<-chan result{first, joiner, third} {
		got := get(t, r)
		if got.err != nil {
			t.Fatal(got.err)
		}
		sessions = append(sessions, got.Session)
	}
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
}

func TestAJoinerIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	g := formedOf(t, cluster(t, 2))
	for name, c := range map[string]struct {
		change func(*process)
		names  []string
	}{
		"cluster":      {func(p *process) { p.Cluster = "green" }, []string{`"blue"`, `"green"`}},
		"declarations": {func(p *process) { p.Declarations[0].Window = 128 }, []string{`"orders"`, "window", "64", "128"}},
		"id":           {func(p *process) { p.Self.ID = 2 }, []string{"id 2", "held by node 2 at " + g.all[1].Port.Addr()}},
	} {
		t.Run(name, func(t *testing.T) {
			p := g.newcomer(9, 0)
			c.change(p)
			_, err := Join(within(t), p.Config)
			expectError(t, err, ErrRefused, append(c.names, g.all[0].Port.Addr())...)
		})
	}
}

func TestAJoinerThatIsCanceledSaysWhatItWaitedFor(t *testing.T) {
	g := formedOf(t, cluster(t, 2))
	ctx, cancel := context.WithCancel(within(t))
	joining := g.newcomer(9, 0).start(ctx)
	g.candidates(1)
	cancel()
	expectError(t, get(t, joining).err, context.Canceled, g.all[0].Port.Addr(), "all members of view 1 were greeted")
	g.candidates(0)
	g.all[0].await("forgotten", is[Forgotten])
}

func TestAJoinerThatDiesBeforeItIsInstalledIsReportedAtOnce(t *testing.T) {
	g := formedOf(t, cluster(t, 2))
	ctx, cancel := context.WithCancel(within(t))
	joining := g.newcomer(9, 0).start(ctx)
	candidates := g.candidates(1)
	cancel()
	get(t, joining)
	g.candidates(0)
	g.admit(candidates)
	if lost := g.installAt(0); len(lost) != 1 || lost[0].ID != 9 {
		t.Fatalf("lost: %v", lost)
	}
}

func TestTheOthersTakeInAJoinerWhoseLeaderIsGone(t *testing.T) {
	g := formedOf(t, cluster(t, 3))
	joining := g.newcomer(9, 0).start(within(t))
	g.admit(g.candidates(1))
	g.doors[0].Halted(errors.New("died"))
	g.installAt(2)
	if got := get(t, joining); got.err != nil || got.outcome.View.ID != 2 {
		t.Fatal(got.err)
	}
}

func TestWhoLeadsNoMoreSendsJoinersToTheLeader(t *testing.T) {
	g := formedOf(t, cluster(t, 2))
	p := g.newcomer(9, 0)
	joining := p.start(within(t))
	g.candidates(1)
	for _, d := range g.doors {
		d.Lead(1)
	}
	g.doors[0], g.doors[1] = g.doors[1], g.doors[0]
	g.admit(g.candidates(1))
	g.doors[0].Installed(g.view, 1)
	if got := get(t, joining); got.err != nil || got.outcome.View.ID != 2 {
		t.Fatal(got.err)
	}
}

// A door is shown everything that is no joiner, and works as before.
func TestADoorOutlivesWhatIsThrownAtIt(t *testing.T) {
	all := cluster(t, 2)
	all[0].silence = patience // none of these connections ends by its silence
	g := formedOf(t, all)
	addr := g.all[0].Port.Addr()
	garbage := dialByHand(t, addr)
	_ = wire.WriteMessage(garbage, []int{})
	expectHungUp(t, garbage)
	all[0].await("garbage", turnedAway(port.Garbage, wire.ErrMalformed))

	proposing := dialByHand(t, addr)
	proposing.say(g.stranger(77))
	proposing.hear(sayMeet)
	proposing.say(Message{Verb: "propose"})
	proposing.hear(sayRefuse)
	expectHungUp(t, proposing)
	all[0].await("out of turn", forgotten(77, errBad))

	trailing := dialByHand(t, addr)
	trailing.say(g.stranger(78))
	trailing.hear(sayMeet)
	_, _ = io.WriteString(trailing, huge)
	all[0].await("garbage in place of a message", forgotten(78, wire.ErrTooLarge))

	g.forgotOnce(77, 78)
	g.takesOneIn()
}

// Connections that say nothing end, each after its time, and the door works as before.
func TestADoorOutlivesSilence(t *testing.T) {
	t.Parallel()
	all := cluster(t, 2)
	g := formedOf(t, all)
	silent := dialByHand(t, all[0].Port.Addr())
	silent.say(g.stranger(79))
	half := dialByHand(t, all[0].Port.Addr())
	_, _ = half.Write([]byte{200, 0, 0, 0, '{'})
	silent.hear(sayMeet)
	silent.hear(sayLater)
	all[0].await("silence", forgotten(79, errSilent))
	expectHungUp(t, half)
	all[0].await("half a request", func(e Event) bool { r, ok := e.(rejected); return ok && r.Reason == port.TimedOut })
	g.forgotOnce(79)
	g.takesOneIn()
}

// stranger is the request of a process that is played by hand.
func (g *running) stranger(id order.NodeID) Request {
	q := g.all[1].request()
	q.Member.ID, q.Member.Incarnation, q.Member.Addr = id, 5, fmt.Sprintf("10.0.0.1:%d", id)
	return q
}

// forgotOnce expects one event for each joiner that the leader forgot.
func (g *running) forgotOnce(ids ...order.NodeID) {
	g.t.Helper()
	for _, id := range ids {
		if n := g.all[0].count(func(e Event) bool { f, ok := e.(Forgotten); return ok && f.Member.ID == id }); n != 1 {
			g.t.Fatalf("node %d was told of %d times", id, n)
		}
	}
}

// takesOneIn has one more process join.
func (g *running) takesOneIn() {
	g.t.Helper()
	joining := g.newcomer(9, 0).start(within(g.t))
	g.admit(g.candidates(1))
	g.installAt(0)
	if got := get(g.t, joining); got.err != nil {
		g.t.Fatal(got.err)
	}
}

func forgotten(id order.NodeID, because error) func(Event) bool {
	return func(e Event) bool {
		f, ok := e.(Forgotten)
		return ok && f.Member.ID == id && errors.Is(f.Err, because)
	}
}

func expectHungUp(t *testing.T, h hand) {
	t.Helper()
	if n, err := h.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// count is how many events satisfy.
func (p *process) count(satisfies func(Event) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.seen {
		if satisfies(e) {
			n++
		}
	}
	return n
}

func TestADoorOutlivesAFlood(t *testing.T) {
	t.Parallel()
	const flood = 1100
	all := cluster(t, 2)
	g := formedOf(t, all)
	var conns []net.Conn
	for range flood {
		conn, err := port.Dial(within(t), all[0].Port.Addr(), port.KindControl, nil)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	all[0].await("too many", turnedAway(port.TooMany, errBusy))
	for _, conn := range conns {
		conn.Close()
	}
	joining := g.newcomer(9, 0).start(within(t))
	g.admit(g.candidates(1))
	g.installAt(0)
	if got := get(t, joining); got.err != nil {
		t.Fatal(got.err)
	}
	if n := all[0].count(is[rejected]); n > flood {
		t.Fatalf("%d rejections of %d connections", n, flood)
	}
}

func TestAClosedDoorTellsThoseThatWait(t *testing.T) {
	g := formedOf(t, cluster(t, 2))
	p := g.newcomer(9, 0)
	ctx, cancel := context.WithCancel(within(t))
	joining := p.start(ctx)
	g.candidates(1)
	for _, d := range g.doors {
		d.Halted(errors.New("the group is over"))
		d.Close()
		d.Close()
		d.Lead(1) // after which nothing happens
	}
	p.await("told", func(e Event) bool {
		f, ok := e.(AttemptFailed)
		return ok && strings.Contains(f.Err.Error(), "the group is over")
	})
	cancel()
	get(t, joining)
}

func TestAnOutcomeThatIsAbortedLeavesNothing(t *testing.T) {
	g := formedOf(t, cluster(t, 2))
	p := g.newcomer(9, 0)
	joining := p.start(within(t))
	g.admit(g.candidates(1))
	g.installAt(0)
	got := get(t, joining)
	if got.err != nil {
		t.Fatal(got.err)
	}
	got.outcome.Abort(errors.New("no memory"))
	if conn, err := port.Dial(within(t), p.Port.Addr(), port.KindControl, nil); !errors.Is(err, port.ErrKindRefused) {
		t.Fatalf("%v, %v", conn, err)
	}
}
