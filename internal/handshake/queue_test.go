package handshake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

const acceptTimeout = 20 * time.Second // none of these tests waits for it

// queue is an AcceptQueue with the reasons of its rejections.
type queue struct {
	AcceptQueue
	t        *testing.T
	rejected chan error
}

func newQueue(t *testing.T, seats int, patience time.Duration) *queue {
	f := &queue{AcceptQueue: AcceptQueue{Timeout: patience, MaxPending: seats}, t: t, rejected: make(chan error, 4096)}
	f.Reject = func(_ net.Conn, err error) { f.rejected <- err }
	t.Cleanup(f.Close)
	return f
}

// call admits a caller that said hello, and returns its own end of the connection.
func (f *queue) call(h Hello) net.Conn {
	return f.admit(func(conn net.Conn) (Caller, error) { return Caller{conn, challenge, h}, nil })
}

// silence admits a caller that says nothing.
func (f *queue) silence() net.Conn {
	return f.admit(func(conn net.Conn) (Caller, error) {
		_, err := io.ReadFull(conn, make([]byte, 1))
		return Caller{Conn: conn}, err
	})
}

func (f *queue) admit(hear func(net.Conn) (Caller, error)) net.Conn {
	here, there := net.Pipe()
	f.t.Cleanup(func() { there.Close() })
	go f.Admit(here, func() (Caller, error) { return hear(here) })
	return there
}

// holds waits until so many greet and so many are queued.
func (f *queue) holds(greeting, seated int) {
	f.t.Helper()
	for deadline := time.Now().Add(acceptTimeout); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		g, s := len(f.greeting), len(f.queued)
		f.mu.Unlock()
		if g == greeting && s == seated {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d greet and %d are queued, not %d and %d", g, s, greeting, seated)
		}
	}
}

// crowded waits until all seats are taken, and checks that at most the allowed number greet. Their
// number varies: a caller that greets and then sits down leaves its place empty.
func (f *queue) crowded(seats int) {
	f.t.Helper()
	for deadline := time.Now().Add(acceptTimeout); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		g, s := len(f.greeting), len(f.queued)
		f.mu.Unlock()
		switch {
		case g > seats || s > seats || time.Now().After(deadline):
			f.t.Fatalf("%d greet and %d are queued, of %d each", g, s, seats)
		case s == seats:
			return
		}
	}
}

func (f *queue) expectRejected(want error) {
	f.t.Helper()
	select {
	case err := <-f.rejected:
		if !errors.Is(err, want) {
			f.t.Errorf("rejected with %v, not %v", err, want)
		}
	case <-time.After(acceptTimeout):
		f.t.Fatalf("no caller was rejected with %v", want)
	}
}

func expectHungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(acceptTimeout))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// challenge is what every caller in these tests was sent.
var challenge = Challenge{Nonce: trust.NewNonce()}

// people are the processes of these tests.
var people = []*trust.Identity{trust.NewIdentity(), trust.NewIdentity(), trust.NewIdentity()}

// formation is the view of three that rank 0 awaits in these tests, as the member self opens it.
func formation(self order.Rank) *fabric.Spec {
	s := &fabric.Spec{Scope: trust.Scope{Cluster: "c", View: 1, Key: "key"}, Identity: people[self], Self: self}
	for r, i := range people {
		s.Peers = append(s.Peers, fabric.Peer{ID: order.NodeID(r + 1), Shape: fabric.RowShape{ControlBytes: fabric.LineBytes, RowBytes: fabric.LineBytes}, PublicKey: i.PublicKey()})
	}
	return s
}

// says is what a member says to rank 0.
func says(s *fabric.Spec) Hello {
	h, err := NewHello(s, 0, challenge)
	if err != nil {
		panic(err)
	}
	return h
}

func member() Hello { return says(formation(1)) }

// await awaits rank 1 and returns what came of it, and how many were refused.
func (f *queue) await() (refused int, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), acceptTimeout)
	defer cancel()
	came := false
	serve := func(c Caller) error {
		came = true
		cancel()
		_, err := c.Conn.Write([]byte{'w'})
		return err
	}
	f.Await(ctx, formation(0), func(order.Rank) bool { return !came }, serve, func(Caller, error) { refused++ })
	if !came {
		err = context.Cause(ctx)
	}
	return refused, err
}

// joinAttempts is far more than a member needs to get in.
const joinAttempts = 100

// join is a member that comes until it is welcome.
func (f *queue) join() error {
	attempts := 0
	_, err := DialWithRetry(f.t.Context(), func() (Hello, error) {
		if attempts++; attempts > joinAttempts {
			return member(), errors.New("the member stays outside")
		}
		_, err := io.ReadFull(f.call(member()), make([]byte, 1))
		return member(), HungUp(err)
	})
	return err
}

func TestANewcomerGetsTheSeatOfTheOldest(t *testing.T) {
	f := newQueue(t, 2, acceptTimeout)
	oldest := f.call(Hello{Tag: "a"})
	f.holds(0, 1)
	f.call(Hello{Tag: "b"})
	f.holds(0, 2)
	f.call(Hello{Tag: "c"})
	expectHungUp(t, oldest)
	f.expectRejected(fabric.ErrCrowded)
	f.holds(0, 2)
}

func TestWhoDoesNotGreetMakesRoomForThoseWhoDo(t *testing.T) {
	f := newQueue(t, 2, acceptTimeout)
	oldest := f.silence()
	f.holds(1, 0)
	f.silence()
	f.holds(2, 0)
	f.silence()
	expectHungUp(t, oldest)
	f.expectRejected(fabric.ErrCrowded)
	f.holds(2, 0)
}

func TestNobodyIsBorneForLongerThanPatience(t *testing.T) {
	f := newQueue(t, 2, 10*time.Millisecond)
	expectHungUp(t, f.call(Hello{Tag: "guessed"}))
	f.expectRejected(fabric.ErrNotAwaited)
	expectHungUp(t, f.silence())
	f.holds(0, 0)
}

// A member may have installed the next view a moment earlier, while links of this one are still
// pending here.
func TestACallerOfTheNextViewSitsUntilThatIsAwaitedToo(t *testing.T) {
	f := newQueue(t, 64, acceptTimeout)
	var awaiting sync.WaitGroup
	defer awaiting.Wait()
	awaiting.Go(func() {
		if refused, err := f.await(); err != nil || refused != 1 {
			t.Errorf("refused %d, %v", refused, err)
		}
	})
	next, caller := formation(0), formation(1)
	next.Scope.View, next.Scope.Key = 2, "next"
	caller.Scope = next.Scope
	early := f.call(says(caller))
	f.holds(0, 1)
	awaiting.Go(func() {
		ctx, cancel := context.WithCancel(t.Context())
		f.Await(ctx, next, func(order.Rank) bool { return true }, func(c Caller) error {
			defer cancel()
			_, err := c.Conn.Write([]byte{'n'})
			return err
		}, func(_ Caller, err error) { t.Errorf("refused: %v", err) })
	})
	early.SetDeadline(time.Now().Add(acceptTimeout))
	if _, err := io.ReadFull(early, make([]byte, 1)); err != nil {
		t.Errorf("the early caller was not served: %v", err)
	}
	wrong := formation(1)
	wrong.Peers[1].Shape.RowBytes *= 2
	expectHungUp(t, f.call(says(wrong)))
	f.expectRejected(fabric.ErrRefused)
	if err := f.join(); err != nil {
		t.Error(err)
	}
}

func TestWhoIsNotWantedAnyMoreIsRefused(t *testing.T) {
	f := newQueue(t, 8, acceptTimeout)
	ctx, cancel := context.WithCancel(t.Context())
	var awaiting sync.WaitGroup
	defer awaiting.Wait()
	defer cancel()
	awaiting.Go(func() {
		f.Await(ctx, formation(0), func(order.Rank) bool { return false },
			func(Caller) error { t.Error("served"); return nil }, func(Caller, error) {})
	})
	expectHungUp(t, f.call(member()))
	f.expectRejected(fabric.ErrRefused)
}

func TestAFloodOfStrangersDoesNotKeepAMemberOut(t *testing.T) {
	const seats, strangers = 8, 400
	f := newQueue(t, seats, acceptTimeout)
	flood := func() {
		for i := range strangers {
			f.call(Hello{Tag: fmt.Sprint("guess ", i)})
			f.silence()
		}
	}
	flood()
	f.crowded(seats)
	var awaiting sync.WaitGroup
	awaiting.Go(func() {
		if _, err := f.await(); err != nil {
			t.Error(err)
		}
	})
	flood()
	if err := f.join(); err != nil {
		t.Error(err)
	}
	awaiting.Wait()
	f.Close()
	close(f.rejected)
	strange := 0
	for err := range f.rejected {
		if errors.Is(err, fabric.ErrNotAwaited) || errors.Is(err, fabric.ErrCrowded) {
			strange++
		}
	}
	if most := 4*strangers + joinAttempts; strange > most {
		t.Errorf("%d connections were rejected %d times", most, strange)
	}
}

func TestCloseSendsEverybodyAwayAtOnceAndSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // what does not wait takes no time there
		f := newQueue(t, 8, acceptTimeout)
		for range 3 {
			f.silence()
			f.call(Hello{Tag: "early"})
		}
		f.holds(3, 3)
		began := time.Now()
		f.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		expectHungUp(t, f.call(Hello{Tag: "late"}))
		if len(f.rejected) > 0 {
			t.Errorf("reported: %v", <-f.rejected)
		}
	})
}

func TestADialerComesAgainUntilItIsAnswered(t *testing.T) {
	calls := 0
	got, err := DialWithRetry(t.Context(), func() (int, error) {
		if calls++; calls < 4 {
			return 0, HungUp(fmt.Errorf("read: %w", io.EOF))
		}
		return calls, nil
	})
	if err != nil || got != 4 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := DialWithRetry(t.Context(), func() (int, error) { return 0, HungUp(fabric.ErrRefused) }); !errors.Is(err, fabric.ErrRefused) || errors.Is(err, fabric.ErrHungUp) {
		t.Errorf("a refusal is final: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err = DialWithRetry(ctx, func() (int, error) {
		cancel(enough)
		return 0, HungUp(io.EOF)
	})
	if !errors.Is(err, enough) || !errors.Is(err, fabric.ErrHungUp) {
		t.Errorf("the end of a context names its cause and the last failure: %v", err)
	}
}

// A member of the view knows everything but the private keys of the others.
func TestNobodyIsTakenForAnotherMember(t *testing.T) {
	real := formation(1)
	evil := formation(2)
	for name, make := range map[string]func() Hello{
		"its own hello in another name": func() Hello {
			h := says(evil)
			h.From = 1
			return h
		},
		"a key made with its own private key": func() Hello {
			e := formation(1)
			e.Identity = people[2]
			h := says(formation(1))
			k, err := e.Identity.Key(trust.Rows, e.Scope, party(&e.Peers[2]), party(&e.Peers[0]))
			if err != nil {
				t.Fatal(err)
			}
			h.MAC = trust.MAC{}
			h.MAC = k.MAC(trust.Dialer, challenge, h)
			return h
		},
		"what the real one said on another connection": func() Hello {
			h, err := NewHello(real, 0, Challenge{trust.NewNonce()})
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		"what the real one said in another view": func() Hello {
			old := formation(1)
			old.Scope.View, old.Scope.Key = 0, "older"
			h := says(old)
			h.View, h.Tag = 1, real.Scope.Tag()
			return h
		},
		"what the real one said to another member": func() Hello {
			h, err := NewHello(evil, 1, challenge)
			if err != nil {
				t.Fatal(err)
			}
			h.To = 0
			return h
		},
		"the real one's hello with another row": func() Hello {
			h := says(real)
			h.Shape.RowBytes += fabric.LineBytes
			return h
		},
		"no key at all":   func() Hello { h := says(real); h.MAC = trust.MAC{}; return h },
		"a rank too high": func() Hello { h := says(real); h.From = 9; return h },
		"a rank below 0":  func() Hello { h := says(real); h.From = -1; return h },
		"this member":     func() Hello { h := says(real); h.From = 0; return h },
	} {
		t.Run(name, func(t *testing.T) {
			f := newQueue(t, 8, acceptTimeout)
			h := make()
			var awaiting sync.WaitGroup
			defer awaiting.Wait()
			awaiting.Go(func() {
				if refused, err := f.await(); err != nil || refused != 0 {
					t.Errorf("%d callers were answered, %v", refused, err)
				}
			})
			expectHungUp(t, f.call(h))
			f.expectRejected(fabric.ErrUnproven)
			if err := f.join(); err != nil { // the real one is none the worse for it
				t.Error(err)
			}
		})
	}
}

func TestAnAnswerThatIsNotThePeersIsNoAnswer(t *testing.T) {
	listener, dialer, other := formation(0), formation(1), formation(2)
	said := says(dialer)
	answer := func(s *fabric.Spec, h Hello, why error) Welcome {
		w, err := Answer(s, h, why)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if err := Heed(dialer, nil, said, answer(listener, said, nil)); err != nil {
		t.Fatal(err)
	}
	gone := answer(listener, said, fabric.ErrGivenUp)
	if err := Heed(dialer, nil, said, gone); !errors.Is(err, fabric.ErrGivenUp) || errors.Is(err, fabric.ErrHungUp) {
		t.Errorf("the peer itself: %v", err)
	}
	again := says(dialer)
	gone.MAC = trust.MAC{}
	mine := answer(listener, said, nil)
	mine.Refused, mine.GivenUp = "go away", true
	reflected := Welcome{Refused: "go away", GivenUp: true, MAC: said.MAC}
	for name, c := range map[string]struct {
		hello  Hello
		answer Welcome
	}{
		"without a MAC":                      {said, gone},
		"of another member":                  {said, answer(other, Hello{From: 1, To: 0}, fabric.ErrGivenUp)},
		"to what was said before":            {again, answer(listener, said, fabric.ErrGivenUp)},
		"of the peer, and changed":           {said, mine},
		"with the MAC of the dialer's Hello": {said, reflected},
	} {
		if err := Heed(dialer, nil, c.hello, c.answer); !errors.Is(err, fabric.ErrHungUp) || !errors.Is(err, fabric.ErrUnproven) || errors.Is(err, fabric.ErrGivenUp) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHelloIsCheckedAgainstTheView(t *testing.T) {
	here := formation(0)
	if err := Check(here, nil, challenge, says(formation(2))); err != nil {
		t.Fatal(err)
	}
	for name, shape := range map[string]fabric.RowShape{
		"control": {ControlBytes: 2 * fabric.LineBytes, RowBytes: fabric.LineBytes},
		"row":     {ControlBytes: fabric.LineBytes, RowBytes: 2 * fabric.LineBytes},
	} {
		there := formation(2)
		there.Peers[2].Shape = shape
		if err := Check(here, nil, challenge, says(there)); !errors.Is(err, fabric.ErrRefused) || errors.Is(err, fabric.ErrUnproven) {
			t.Errorf("%s: a row of another shape: %v", name, err)
		}
	}
	for name, change := range map[string]func(*fabric.Spec){
		"group":       func(s *fabric.Spec) { s.Scope.Group = "other" },
		"cluster":     func(s *fabric.Spec) { s.Scope.Cluster = "other" },
		"view":        func(s *fabric.Spec) { s.Scope.View = 2 },
		"key":         func(s *fabric.Spec) { s.Scope.Key = "other" },
		"incarnation": func(s *fabric.Spec) { s.Peers[2].Incarnation = 9 },
		"node":        func(s *fabric.Spec) { s.Peers[2].ID = 9 },
	} {
		there := formation(2)
		change(there)
		if err := Check(here, nil, challenge, says(there)); !errors.Is(err, fabric.ErrUnproven) {
			t.Errorf("a hello for another %s passes: %v", name, err)
		}
	}
}
