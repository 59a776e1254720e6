package join

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests; none of them comes near it unless something is broken.
const patience = 15 * time.Second

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// process is one member under test, on a port of its own.
type process struct {
	Config
	t      *testing.T
	mu     sync.Mutex
	seen   []Event
	signal chan struct{}
}

// cluster makes n processes with ids 1 to n; number 1 is the first member, and all know only its
// address.
func cluster(t *testing.T, n int) []*process {
	t.Helper()
	var all []*process
	for id := 1; id <= n; id++ {
		one := &process{t: t, signal: make(chan struct{}, 1)}
		p, err := port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", OnReject: func(r port.Rejection) { one.note(rejected{r}) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		one.Config = Config{
			Cluster: "blue", Self: views.Member{ID: order.NodeID(id)}, Expect: n, Port: p,
			Declarations: []views.Declaration{{Name: "orders", RingBytes: 1 << 16, Window: 64}}, OnEvent: one.note,
		}
		if all = append(all, one); id > 1 {
			one.Join = []string{all[0].Port.Addr()}
		}
	}
	return all
}

// rejected is what the process's port reported, among the events.
type rejected struct{ port.Rejection }

// turnedAway is satisfied by a control connection that was rejected for a reason.
func turnedAway(reason port.Reason, because error) func(Event) bool {
	return func(e Event) bool {
		r, ok := e.(rejected)
		return ok && r.Kind == port.KindControl && r.Reason == reason && errors.Is(r.Err, because)
	}
}

func (p *process) note(e Event) {
	p.mu.Lock()
	p.seen = append(p.seen, e)
	p.mu.Unlock()
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// await waits until the process has had an event that satisfies.
func (p *process) await(what string, satisfies func(Event) bool) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		p.mu.Lock()
		for _, e := range p.seen {
			if satisfies(e) {
				p.mu.Unlock()
				return
			}
		}
		p.mu.Unlock()
		select {
		case <-p.signal:
		case <-deadline:
			p.t.Fatalf("node %d: no event: %s; saw %v", p.Self.ID, what, p.seen)
		}
	}
}

func is[E Event](e Event) bool { _, ok := e.(E); return ok }

// asked is satisfied when the first member has k places taken.
func asked(k int) func(Event) bool {
	return func(e Event) bool { j, ok := e.(JoinRequested); return ok && j.Asked == k }
}

// result is what one process got.
type result struct {
	*Session
	outcome *Outcome
	err     error
}

// start forms in the background.
func (p *process) start(ctx context.Context) <-chan result {
	out := make(chan result, 1)
	go func() {
		o, err := Join(ctx, p.Config)
		if err != nil {
			out <- result{err: err}
			return
		}
		if o.joiner != nil {
			p.t.Cleanup(o.joiner.stop)
		}
		out <- result{o.Session, o, nil}
	}()
	return out
}

func get[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("no result")
		panic("unreachable")
	}
}

// proposedTo starts the processes one after the other, so that ranks are known, and returns their
// sessions.
func proposedTo(t *testing.T, all []*process) []*Session {
	t.Helper()
	ctx := within(t)
	var results []<-chan result
	for i, p := range all {
		results = append(results, p.start(ctx))
		if i > 0 {
			all[0].await("asked", asked(i+1))
		}
	}
	var sessions []*Session
	for _, r := range results {
		got := get(t, r)
		if got.err != nil {
			t.Fatal(got.err)
		}
		sessions = append(sessions, got.Session)
	}
	return sessions
}

// ready calls Ready everywhere at once and returns the errors by rank.
func ready(t *testing.T, sessions []*Session) []error {
	t.Helper()
	ctx, errs := within(t), make([]error, len(sessions))
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() { errs[i] = s.Ready(ctx) })
	}
	all.Wait()
	return errs
}

func installedOn(t *testing.T, all []*process) []*Session {
	t.Helper()
	sessions := proposedTo(t, all)
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
	return sessions
}

func expectError(t *testing.T, err error, is error, parts ...string) {
	t.Helper()
	if err == nil || is != nil && !errors.Is(err, is) {
		t.Fatalf("error %v is not %q", err, is)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Fatalf("error %q does not name %s", err, part)
		}
	}
}

func (p *process) request() Request {
	p.Self.Addr, p.Self.Incarnation = p.Port.Addr(), uint64(p.Self.ID)
	p.Self.PublicKey, p.Identity = byHand.PublicKey(), byHand
	return Request{Cluster: p.Cluster, Member: p.Self, Expect: p.Expect, Declarations: p.Declarations}
}

func TestGroupsFormAndInstallTheSameView(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		all := cluster(t, n)
		sessions := installedOn(t, all)
		for i, s := range sessions {
			if s.View().Members[i].ID != all[i].Self.ID || !reflect.DeepEqual(s.View(), sessions[0].View()) {
				t.Fatalf("node %d has %+v", i+1, s.View())
			}
			if s.Context().Err() != nil {
				t.Fatal(context.Cause(s.Context()))
			}
			s.Abort(errors.New("too late to matter"))
			if err := s.Ready(within(t)); err != nil {
				t.Fatal(err)
			}
			all[i].await("installed", is[ViewInstalled])
		}
	}
}

func TestAllMayNameTheSameAddressesTheFirstMembersFirst(t *testing.T) {
	all := cluster(t, 3)
	for _, p := range all {
		p.Join = []string{all[0].Port.Addr(), all[1].Port.Addr(), all[2].Port.Addr()}
	}
	installedOn(t, all)
}

func TestRefusalsReachTheJoinerAndAreFinal(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		names  []string
	}{
		"cluster":      {func(c *Config) { c.Cluster = "green" }, []string{`"blue"`, `"green"`}},
		"id":           {func(c *Config) { c.Self.ID = 1 }, []string{"id 1", "held by node 1 at 127.0.0.1:"}},
		"declarations": {func(c *Config) { c.Declarations[0].Window = 128 }, []string{`"orders"`, "window", "64", "128"}},
		"expect":       {func(c *Config) { c.Expect = 7 }, []string{"expects 2", "expects 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			all := cluster(t, 2)
			ctx, cancel := context.WithCancelCause(within(t))
			first := all[0].start(ctx)
			c.change(&all[1].Config)
			o, err := Join(within(t), all[1].Config)
			if o != nil {
				t.Fatal("a refused joiner got a session")
			}
			expectError(t, err, ErrRefused, append(c.names, all[0].Port.Addr())...)
			tired := errors.New("tired")
			cancel(tired)
			expectError(t, get(t, first).err, tired, "1 of 2 members")
			all[0].await("refused", is[Refused])
		})
	}
}

func TestAViewThatCannotBePlacedIsAnErrorForEverybody(t *testing.T) {
	all := cluster(t, 2)
	for _, p := range all {
		p.Declarations[0].Shards = 65
	}
	ctx := within(t)
	first, joiner := all[0].start(ctx), all[1].start(ctx)
	err := get(t, first).err
	expectError(t, err, err, "65 shards", `"orders"`)
	expectError(t, get(t, joiner).err, ErrRefused, "65 shards", `"orders"`)
}

func TestAJoinerIsRedirectedToTheFirstMember(t *testing.T) {
	all := cluster(t, 3)
	all[2].Join = []string{all[1].Port.Addr()}
	installedOn(t, all)
	all[2].await("redirected", func(e Event) bool {
		r, ok := e.(Redirected)
		return ok && r.From == all[1].Port.Addr() && r.To == all[0].Port.Addr()
	})
}

func TestRedirectsInARowAreBounded(t *testing.T) {
	all := cluster(t, 4) // nodes 1 to 3 each take the next one for the first member
	ctx, cancel := context.WithCancel(within(t))
	var rest []<-chan result
	for i := range 3 {
		all[i].Join = []string{all[(i+1)%3].Port.Addr()}
		rest = append(rest, all[i].start(ctx))
	}
	all[3].Join = []string{all[0].Port.Addr()}
	rest = append(rest, all[3].start(ctx))
	all[3].await("too many redirects", func(e Event) bool {
		f, ok := e.(AttemptFailed)
		return ok && errors.Is(f.Err, ErrTooManyRedirects)
	})
	cancel()
	for _, r := range rest {
		expectError(t, get(t, r).err, context.Canceled)
	}
}

func TestAProcessThatTheFirstAddressLeadsToIsTheFirstMember(t *testing.T) {
	all := cluster(t, 2)
	_, number, _ := net.SplitHostPort(all[0].Port.Addr())
	for _, p := range all { // a name that node 1 does not advertise
		p.Join = []string{net.JoinHostPort("localhost", number)}
	}
	first := all[0].start(within(t))
	joiner := all[1].start(within(t))
	sessions := []*Session{get(t, first).Session, get(t, joiner).Session}
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
	if first := sessions[0].View().Members[0].ID; first != 1 {
		t.Fatalf("node %d is the first member", first)
	}
}

func TestAProcessThatALaterAddressLeadsToIsNotTheFirstMember(t *testing.T) {
	all := cluster(t, 2)
	_, number, _ := net.SplitHostPort(all[1].Port.Addr())
	all[1].Join = []string{all[0].Port.Addr(), net.JoinHostPort("localhost", number)}
	joiner := all[1].start(within(t))
	all[1].await("asked itself", func(e Event) bool { f, ok := e.(AttemptFailed); return ok && errors.Is(f.Err, errItself) })
	first := all[0].start(within(t))
	if err := errors.Join(ready(t, []*Session{get(t, first).Session, get(t, joiner).Session})...); err != nil {
		t.Fatal(err)
	}
}

func TestAProcessWithTheSameIDAndAddressIsNotTakenForOneself(t *testing.T) {
	all := cluster(t, 2)
	ctx, cancel := context.WithCancel(within(t))
	joiner := all[1].start(ctx)
	all[1].await("asked", is[AttemptFailed])
	h := dialByHand(t, all[1].Port.Addr())
	q := all[1].request()
	q.Nonce = "another one's"
	h.say(q)
	if m := h.hear(sayLater); !strings.Contains(m.Text, "two processes") {
		t.Fatal(m.Text)
	}
	cancel()
	if err := get(t, joiner).err; !errors.Is(err, context.Canceled) || errors.Is(err, errItself) {
		t.Fatal(err)
	}
}

func TestJoinersWaitForAFirstMemberThatStartsLast(t *testing.T) {
	all := cluster(t, 3)
	ctx := within(t)
	joiners := []<-chan result{all[1].start(ctx), all[2].start(ctx)}
	for _, p := range all[1:] {
		p.await("retry", func(e Event) bool { f, ok := e.(AttemptFailed); return ok && errors.Is(f.Err, port.ErrKindRefused) })
	}
	first := get(t, all[0].start(ctx))
	sessions := []*Session{first.Session, get(t, joiners[0]).Session, get(t, joiners[1]).Session}
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
}

func TestACanceledJoinerNamesTheLastFailureOfEachAddress(t *testing.T) {
	all := cluster(t, 2)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	all[1].Join = []string{dead.Addr().String(), all[0].Port.Addr()}
	ctx, cancel := context.WithCancelCause(within(t))
	joiner := all[1].start(ctx)
	all[1].await("second address", func(e Event) bool { f, ok := e.(AttemptFailed); return ok && f.Addr == all[0].Port.Addr() })
	reason := errors.New("changed my mind")
	cancel(reason)
	expectError(t, get(t, joiner).err, reason, dead.Addr().String(), "refused", all[0].Port.Addr(), port.ErrKindRefused.Error())
}

func TestAJoinerThatIsCanceledWhileItWaitsIsForgotten(t *testing.T) {
	all := cluster(t, 3)
	first := all[0].start(within(t))
	ctx, cancel := context.WithCancel(within(t))
	canceled := all[1].start(ctx)
	all[1].await("held", is[Held])
	cancel()
	expectError(t, get(t, canceled).err, context.Canceled, all[0].Port.Addr(), errHeld.Error())
	all[0].await("forgotten", is[Forgotten])
	again, third := all[1].start(within(t)), all[2].start(within(t))
	var sessions []*Session
	for _, r := range []<-chan result{first, again, third} {
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

func TestAFirstMemberThatGivesUpMayBootstrapAgain(t *testing.T) {
	all := cluster(t, 2)
	all[0].Expect, all[1].Expect = 3, 3
	ctx, cancel := context.WithCancel(within(t))
	first, joiner := all[0].start(ctx), all[1].start(within(t))
	all[0].await("asked", asked(2))
	cancel()
	expectError(t, get(t, first).err, context.Canceled, "2 of 3 members", "node 2 at")
	all[1].await("told to ask again", is[AttemptFailed])
	third := cluster(t, 3)[2]
	third.Join = all[1].Join
	first, other := all[0].start(within(t)), third.start(within(t))
	sessions := []*Session{get(t, first).Session, get(t, joiner).Session, get(t, other).Session}
	if err := errors.Join(ready(t, sessions)...); err != nil {
		t.Fatal(err)
	}
}

func TestAJoinerThatAbortsAfterTheViewFailsEverybodyWithItsReason(t *testing.T) {
	all := cluster(t, 3)
	sessions := proposedTo(t, all)
	cause := errors.New("no route to node 3")
	sessions[1].Abort(cause)
	who := "node 2 at " + all[1].Port.Addr()
	for i, err := range ready(t, sessions) {
		expectError(t, err, ErrAborted, who, cause.Error())
		expectError(t, context.Cause(sessions[i].Context()), ErrAborted)
		all[i].await("aborted", is[Aborted])
	}
}

func TestAFirstMemberThatAbortsAfterTheViewFailsEverybodyWithItsReason(t *testing.T) {
	all := cluster(t, 3)
	sessions := proposedTo(t, all)
	sessions[0].Abort(errors.New("out of memory"))
	for _, err := range ready(t, sessions) {
		expectError(t, err, ErrAborted, "node 1 at "+all[0].Port.Addr(), "out of memory")
	}
}

func TestAReadyThatIsCanceledAbortsForEverybody(t *testing.T) {
	for canceled := range 3 {
		all := cluster(t, 3)
		sessions := proposedTo(t, all)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		expectError(t, sessions[canceled].Ready(ctx), context.Canceled)
		for _, err := range ready(t, sessions) {
			expectError(t, err, ErrAborted, "node "+string(rune('1'+canceled))+" at", "waiting for the others")
		}
	}
}

func TestAJoinerThatBreaksAfterTheViewFailsEverybody(t *testing.T) {
	all := cluster(t, 3)
	first := all[0].start(within(t))
	joiner := all[1].start(within(t))
	all[0].await("asked", asked(2))
	h := dialByHand(t, all[0].Port.Addr())
	h.say(all[2].request())
	h.hear(sayWait)
	h.hear(sayView)
	h.Close()
	for _, r := range []<-chan result{first, joiner} {
		got := get(t, r)
		if got.err == nil { // the first member may see the break before Form has returned
			got.err = got.Ready(within(t))
		}
		expectError(t, got.err, ErrAborted, "node 3 at "+all[2].Port.Addr(), errGone.Error())
	}
}

func TestAFirstMemberThatBreaksAfterTheViewFailsItsJoiner(t *testing.T) {
	all := cluster(t, 2)
	ended := make(chan struct{})
	all[0].Port.Handle(port.KindControl, playFirstMember(t, all, ended, func(hand) {}))
	got := get(t, all[1].start(within(t)))
	if got.err != nil {
		t.Fatal(got.err)
	}
	<-ended
	expectError(t, got.Ready(within(t)), ErrAborted, "node 1 at "+all[0].Port.Addr(), errGone.Error())
}

// playFirstMember answers one request with a correct view, then calls then, and closes the
// connection.
func playFirstMember(t *testing.T, all []*process, ended chan struct{}, then func(hand)) func(net.Conn) {
	first := all[0].request().Member
	return func(conn net.Conn) {
		defer close(ended)
		defer conn.Close()
		talk, q, err := answering(all[0], conn)
		if err != nil {
			t.Error(err)
			return
		}
		v, _, err := views.Place(views.Placement{ID: 1, Cluster: q.Cluster, Members: []views.Member{first, q.Member}, Declarations: q.Declarations})
		if err != nil {
			t.Error(err)
			return
		}
		_ = talk.say(Message{Verb: sayView, View: v})
		then(hand{talk, t})
	}
}

func TestInstallBeforeReadyIsOutOfTurn(t *testing.T) {
	all := cluster(t, 2)
	ended := make(chan struct{})
	all[0].Port.Handle(port.KindControl, playFirstMember(t, all, ended, func(h hand) {
		_ = wire.WriteMessage(h, Message{Verb: sayInstall})
		_, _ = io.Copy(io.Discard, h)
	}))
	got := get(t, all[1].start(within(t)))
	if got.err != nil {
		t.Fatal(got.err)
	}
	<-got.Context().Done()
	expectError(t, got.Ready(within(t)), ErrAborted, "node 1 at", errOutOfTurn.Error())
	<-ended
}

// J5.
func TestAViewThatIsNotOursIsNotUsed(t *testing.T) {
	all := cluster(t, 2)
	all[1].request()
	c := all[1].applicant("")
	good := func() *views.View {
		v, _, err := views.Place(views.Placement{ID: 1, Cluster: c.Cluster, Members: []views.Member{all[0].request().Member, c.Self}, Declarations: c.Declarations})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if err := checkFirst(c, good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*views.View){
		"id":             func(v *views.View) { v.ID = 2 },
		"cluster":        func(v *views.View) { v.Cluster = "green" },
		"too few":        func(v *views.View) { v.Members = v.Members[1:]; v.Subgroups = nil },
		"without us":     func(v *views.View) { v.Members[1].ID = 7 },
		"other address":  func(v *views.View) { v.Members[1].Addr = "10.0.0.1:1" },
		"twice":          func(v *views.View) { v.Members[0].ID = 2 },
		"bad peer":       func(v *views.View) { v.Members[0].Addr = "nowhere" },
		"no subgroups":   func(v *views.View) { v.Subgroups = nil },
		"other members":  func(v *views.View) { v.Subgroups[0].Members = v.Subgroups[0].Members[:1]; v.Subgroups[0].Senders = nil },
		"other ring":     func(v *views.View) { v.Subgroups[0].RingBytes *= 2 },
		"invalid window": func(v *views.View) { v.Subgroups[0].Window = 3 },
	} {
		v := good()
		spoil(v)
		if err := checkFirst(c, v); !errors.Is(err, ErrBadView) {
			t.Errorf("%s: %v", name, err)
		}
	}
	expectError(t, checkFirst(c, nil), ErrBadView)
}

func TestAJoinerThatCannotUseTheViewTellsTheFirstMemberAndStops(t *testing.T) {
	all := cluster(t, 2)
	heard := make(chan Message, 1)
	all[0].Port.Handle(port.KindControl, func(conn net.Conn) {
		defer conn.Close()
		h, _, err := answering(all[0], conn)
		if err != nil {
			t.Error(err)
		}
		_ = h.say(Message{Verb: sayView, View: &views.View{ID: 1}})
		var m Message
		_ = h.Hear(&m)
		heard <- m
	})
	_, err := Join(within(t), all[1].Config)
	expectError(t, err, ErrBadView)
	if m := get(t, heard); m.Verb != sayAbort || !strings.Contains(m.Text, ErrBadView.Error()) {
		t.Fatalf("the first member heard %+v", m)
	}
}

func TestASilentJoinerTimesOutAndTheGroupForms(t *testing.T) {
	all := cluster(t, 2)
	all[0].silence = 20 * time.Millisecond
	first := all[0].start(within(t))
	silent, half := dialWhenServed(t, all[0].Port.Addr()), dialWhenServed(t, all[0].Port.Addr())
	_, _ = half.Write([]byte{200, 0, 0, 0, '{'})
	for _, h := range []hand{silent, half} {
		if _, err := h.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatalf("a silent joiner got %v", err)
		}
	}
	all[0].await("rejected", turnedAway(port.TimedOut, os.ErrDeadlineExceeded))
	joiner := all[1].start(within(t))
	if err := errors.Join(ready(t, []*Session{get(t, first).Session, get(t, joiner).Session})...); err != nil {
		t.Fatal(err)
	}
}

func TestGarbageInPlaceOfARequestIsRejectedAndReported(t *testing.T) {
	all := cluster(t, 2)
	ctx, cancel := context.WithCancel(within(t))
	first := all[0].start(ctx)
	for want, send := range map[error]func(io.Writer) error{
		wire.ErrMalformed: func(to io.Writer) error { return wire.WriteMessage(to, []int{}) },
		wire.ErrTooLarge:  func(to io.Writer) error { _, err := io.WriteString(to, huge); return err },
		wire.ErrChecksum:  func(to io.Writer) error { _, err := to.Write(make([]byte, wire.HeaderBytes)); return err },
	} {
		h := dialWhenServed(t, all[0].Port.Addr())
		_ = send(h)
		all[0].await("rejected", turnedAway(port.Garbage, want))
	}
	cancel()
	expectError(t, get(t, first).err, context.Canceled)
}

func TestAFloodOfRequestsIsBoundedAndTheGroupForms(t *testing.T) {
	all := cluster(t, 2)
	first := all[0].start(within(t))
	joiner := all[1]
	var idle []hand
	for range requestsPerMember*2 + 1 {
		idle = append(idle, dialWhenServed(t, all[0].Port.Addr()))
	}
	all[0].await("too many", turnedAway(port.TooMany, errBusy))
	for _, h := range idle {
		h.Close()
	}
	got := get(t, joiner.start(within(t)))
	if err := errors.Join(ready(t, []*Session{get(t, first).Session, got.Session})...); err != nil {
		t.Fatal(err)
	}
}
