package fabric

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
)

const lobbyPatience = 20 * time.Second // none of these tests waits for it

// foyer is a lobby, and what it rejected.
type foyer struct {
	Lobby
	t        *testing.T
	rejected chan error
}

func newFoyer(t *testing.T, seats int, patience time.Duration) *foyer {
	f := &foyer{Lobby: Lobby{Patience: patience, Seats: seats}, t: t, rejected: make(chan error, 4096)}
	f.Reject = func(_ net.Conn, err error) { f.rejected <- err }
	t.Cleanup(f.Close)
	return f
}

// call admits a caller that said hello, and returns its own end of the connection.
func (f *foyer) call(h Hello) net.Conn {
	return f.admit(func(conn net.Conn) (Caller, error) { return Caller{conn, h}, nil })
}

// silence admits a caller that says nothing.
func (f *foyer) silence() net.Conn {
	return f.admit(func(conn net.Conn) (Caller, error) {
		_, err := io.ReadFull(conn, make([]byte, 1))
		return Caller{Conn: conn}, err
	})
}

func (f *foyer) admit(hear func(net.Conn) (Caller, error)) net.Conn {
	here, there := net.Pipe()
	f.t.Cleanup(func() { there.Close() })
	go f.Admit(here, func() (Caller, error) { return hear(here) })
	return there
}

// holds waits until so many greet and so many are seated.
func (f *foyer) holds(greeting, seated int) {
	f.t.Helper()
	for deadline := time.Now().Add(lobbyPatience); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		g, s := len(f.greeting), len(f.seated)
		f.mu.Unlock()
		if g == greeting && s == seated {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%d greet and %d are seated, not %d and %d", g, s, greeting, seated)
		}
	}
}

// crowded waits until all seats are taken, and checks that no more greet than may. How many do depends on who was made
// room for: a caller that greets and then sits down leaves its place empty.
func (f *foyer) crowded(seats int) {
	f.t.Helper()
	for deadline := time.Now().Add(lobbyPatience); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		g, s := len(f.greeting), len(f.seated)
		f.mu.Unlock()
		switch {
		case g > seats || s > seats || time.Now().After(deadline):
			f.t.Fatalf("%d greet and %d are seated, of %d each", g, s, seats)
		case s == seats:
			return
		}
	}
}

func (f *foyer) expectRejected(want error) {
	f.t.Helper()
	select {
	case err := <-f.rejected:
		if !errors.Is(err, want) {
			f.t.Errorf("rejected with %v, not %v", err, want)
		}
	case <-time.After(lobbyPatience):
		f.t.Fatalf("nobody was rejected with %v", want)
	}
}

func expectHungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetDeadline(time.Now().Add(lobbyPatience))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is not closed: %v", err)
	}
}

// formation is the view of two that rank 0 awaits in these tests.
func formation() *Spec {
	shape := RowShape{LineBytes, LineBytes}
	return &Spec{Cluster: "c", View: 1, Key: "key", Peers: []Peer{{ID: 1, Shape: shape}, {ID: 2, Shape: shape}}}
}

func member() Hello {
	return Hello{Cluster: "c", View: 1, Key: "key", From: 1, Shape: RowShape{LineBytes, LineBytes}}
}

// await awaits rank 1 and returns what came of it, and how many were refused.
func (f *foyer) await() (refused int, err error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), lobbyPatience)
	defer cancel()
	came := false
	serve := func(c Caller) error {
		came = true
		cancel()
		_, err := c.Conn.Write([]byte{'w'})
		return err
	}
	f.Await(ctx, formation(), func(order.Rank) bool { return !came }, serve, func(Caller, error) { refused++ })
	if !came {
		err = context.Cause(ctx)
	}
	return refused, err
}

// joinAttempts is far more than a member needs to get in.
const joinAttempts = 100

// join is a member that comes until it is welcome.
func (f *foyer) join() error {
	attempts := 0
	_, err := Insist(f.t.Context(), func() (Hello, error) {
		if attempts++; attempts > joinAttempts {
			return member(), errors.New("the member stays outside")
		}
		_, err := io.ReadFull(f.call(member()), make([]byte, 1))
		return member(), HungUp(err)
	})
	return err
}

func TestANewcomerGetsTheSeatOfTheOldest(t *testing.T) {
	f := newFoyer(t, 2, lobbyPatience)
	oldest := f.call(Hello{Key: "a"})
	f.holds(0, 1)
	f.call(Hello{Key: "b"})
	f.holds(0, 2)
	f.call(Hello{Key: "c"})
	expectHungUp(t, oldest)
	f.expectRejected(ErrCrowded)
	f.holds(0, 2)
}

func TestWhoDoesNotGreetMakesRoomForThoseWhoDo(t *testing.T) {
	f := newFoyer(t, 2, lobbyPatience)
	oldest := f.silence()
	f.holds(1, 0)
	f.silence()
	f.holds(2, 0)
	f.silence()
	expectHungUp(t, oldest)
	f.expectRejected(ErrCrowded)
	f.holds(2, 0)
}

func TestNobodyIsBorneForLongerThanPatience(t *testing.T) {
	f := newFoyer(t, 2, 10*time.Millisecond)
	expectHungUp(t, f.call(Hello{Key: "guessed"}))
	f.expectRejected(ErrNotAwaited)
	expectHungUp(t, f.silence())
	f.holds(0, 0)
}

// A member may have installed the next view a moment earlier, while links of this one are still coming here.
func TestACallerOfTheNextViewSitsUntilThatIsAwaitedToo(t *testing.T) {
	f := newFoyer(t, 64, lobbyPatience)
	var awaiting sync.WaitGroup
	defer awaiting.Wait()
	awaiting.Go(func() {
		if refused, err := f.await(); err != nil || refused != 1 {
			t.Errorf("refused %d, %v", refused, err)
		}
	})
	next := formation()
	next.View, next.Key = 2, "next"
	caller := member()
	caller.View, caller.Key = 2, "next"
	early := f.call(caller)
	f.holds(0, 1)
	awaiting.Go(func() {
		ctx, cancel := context.WithCancel(t.Context())
		f.Await(ctx, next, func(order.Rank) bool { return true }, func(c Caller) error {
			defer cancel()
			_, err := c.Conn.Write([]byte{'n'})
			return err
		}, func(_ Caller, err error) { t.Errorf("refused: %v", err) })
	})
	early.SetDeadline(time.Now().Add(lobbyPatience))
	if _, err := io.ReadFull(early, make([]byte, 1)); err != nil {
		t.Errorf("who came early was not served: %v", err)
	}
	wrong := member()
	wrong.To = 1
	expectHungUp(t, f.call(wrong))
	f.expectRejected(ErrRefused)
	if err := f.join(); err != nil {
		t.Error(err)
	}
}

func TestWhoIsNotWantedAnyMoreIsRefused(t *testing.T) {
	f := newFoyer(t, 8, lobbyPatience)
	ctx, cancel := context.WithCancel(t.Context())
	var awaiting sync.WaitGroup
	defer awaiting.Wait()
	defer cancel()
	awaiting.Go(func() {
		f.Await(ctx, formation(), func(order.Rank) bool { return false },
			func(Caller) error { t.Error("served"); return nil }, func(Caller, error) {})
	})
	expectHungUp(t, f.call(member()))
	f.expectRejected(ErrRefused)
}

func TestAFloodOfStrangersDoesNotKeepAMemberOut(t *testing.T) {
	const seats, strangers = 8, 400
	f := newFoyer(t, seats, lobbyPatience)
	flood := func() {
		for i := range strangers {
			f.call(Hello{Key: fmt.Sprint("guess ", i)})
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
		if errors.Is(err, ErrNotAwaited) || errors.Is(err, ErrCrowded) {
			strange++
		}
	}
	if most := 4*strangers + joinAttempts; strange > most {
		t.Errorf("%d connections were rejected %d times", most, strange)
	}
}

func TestCloseSendsEverybodyAwayAtOnceAndSilently(t *testing.T) {
	f := newFoyer(t, 8, lobbyPatience)
	for range 3 {
		f.silence()
		f.call(Hello{Key: "early"})
	}
	f.holds(3, 3)
	began := time.Now()
	f.Close()
	if took := time.Since(began); took > lobbyPatience/2 {
		t.Errorf("it took %v", took)
	}
	expectHungUp(t, f.call(Hello{Key: "late"}))
	if len(f.rejected) > 0 {
		t.Errorf("reported: %v", <-f.rejected)
	}
}

func TestADialerComesAgainUntilItIsAnswered(t *testing.T) {
	calls := 0
	got, err := Insist(t.Context(), func() (int, error) {
		if calls++; calls < 4 {
			return 0, HungUp(fmt.Errorf("read: %w", io.EOF))
		}
		return calls, nil
	})
	if err != nil || got != 4 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := Insist(t.Context(), func() (int, error) { return 0, HungUp(ErrRefused) }); !errors.Is(err, ErrRefused) || errors.Is(err, ErrHungUp) {
		t.Errorf("a refusal is final: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	_, err = Insist(ctx, func() (int, error) {
		cancel(enough)
		return 0, HungUp(io.EOF)
	})
	if !errors.Is(err, enough) || !errors.Is(err, ErrHungUp) {
		t.Errorf("the end of a context names its cause and the last failure: %v", err)
	}
}
