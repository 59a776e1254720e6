package member

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
)

// writing reports whether a writer has the lock or waits for it.
func (n *nested) writing() bool { return n.word.Load()&1 != 0 }

// tally is the state of objects whose queries call queries.
type tally struct{ N int }

var (
	countUp = replicated.NewCommand[int, int]("count up")
	tallied = replicated.NewQuery[int, int]("tallied")
	calling = replicated.NewQuery[int, int]("calling")
)

// tallies opens a group of one member with two objects. Called runs in countUp, unless it counts 0,
// and in calling, which name themselves.
func tallies(t *testing.T, called func(o *Object[*tally], operation string) error) (all [2]*Object[*tally]) {
	t.Helper()
	for i, name := range []string{"one", "other"} {
		all[i] = New(squall.SubgroupConfig{Name: name}, func() *tally { return &tally{} },
			Handle(countUp, func(s *tally, _ *Context, n int) (int, error) {
				var err error
				if n != 0 {
					err = called(all[i], "count up")
				}
				s.N += n
				return s.N, err
			}),
			Handle(tallied, func(s *tally, _ *Context, _ int) (int, error) { return s.N, nil }),
			Handle(calling, func(s *tally, _ *Context, _ int) (int, error) { return s.N, called(all[i], "calling") }))
	}
	g, err := Open(testutil.Within(t), squall.Config{
		Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, all[0], all[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	for _, o := range all { // from now on nothing is ordered but what the test calls
		if _, err := countUp.Call(testutil.Within(t), o, 0); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// until waits for a condition of a lock, which nothing signals.
func until(ctx context.Context, is func() bool) error {
	for !is() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		runtime.Gosched()
	}
	return nil
}

// waitsToWrite reports whether a writer of an object whose lock is held for reading waits.
func waitsToWrite(o *Object[*tally]) bool {
	if o.object.mu.TryRLock() {
		o.object.mu.RUnlock()
		return false
	}
	return true
}

func nestedWaiting(o *Object[*tally]) bool {
	o.object.nested.mu.Lock()
	defer o.object.nested.mu.Unlock()
	return o.object.nested.waiting > 0
}

// A query that the handler of a query calls waits for a command of the other object that is
// executed.
func TestAQueryInAQueryWaitsForACommandOfAnotherObject(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	began, release := make(chan struct{}), make(chan struct{})
	var all [2]*Object[*tally]
	all = tallies(t, func(o *Object[*tally], operation string) error {
		switch {
		case operation == "calling":
			n, err := tallied.Local(ctx, all[1], 0)
			if err == nil && n != 7 {
				err = errors.New("it did not wait")
			}
			return err
		case o == all[1]:
			close(began)
			<-release
		}
		return nil
	})
	held, err := countUp.Go(ctx, all[1], 7)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	read := make(chan error, 1)
	go func() {
		_, err := calling.Local(ctx, all[0], 0)
		read <- err
	}()
	err = until(ctx, func() bool { return len(read) > 0 || nestedWaiting(all[1]) })
	close(release)
	if err := errors.Join(err, <-read); err != nil {
		t.Error(err)
	}
	if _, err := held.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// A query in a query of its own object waits for no command that waits for the first query.
func TestAQueryInAQueryDoesNotWaitForACommandThatWaitsForIt(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	var all [2]*Object[*tally]
	var wg sync.WaitGroup
	all = tallies(t, func(o *Object[*tally], operation string) error {
		if operation != "calling" {
			return nil
		}
		wg.Go(func() {
			if _, err := countUp.Call(ctx, o, 1); err != nil {
				t.Error(err)
			}
		})
		if err := until(ctx, func() bool { return waitsToWrite(o) }); err != nil {
			return err
		}
		n, err := tallied.Local(ctx, o, 0)
		if err == nil && n != 0 {
			err = errors.New("a command was executed within a query")
		}
		return err
	})
	if _, err := calling.Local(ctx, all[0], 0); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if n, err := tallied.Local(ctx, all[0], 0); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// A query at a depth of two is refused where it would wait: a command may wait for the query that
// calls it.
func TestAQueryTwoDeepIsRefusedWhereItWouldWait(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	viewing, leave := make(chan struct{}), make(chan struct{})
	var all [2]*Object[*tally]
	var deep error
	all = tallies(t, func(o *Object[*tally], operation string) error {
		switch {
		case operation != "calling":
		case o == all[0]:
			_, err := calling.Local(ctx, all[1], 0)
			return err
		default: // the lock of all[1] is nested: a command waits for its view
			close(leave)
			if err := until(ctx, all[1].object.nested.writing); err != nil {
				return err
			}
			_, deep = tallied.Local(ctx, all[1], 0)
		}
		return nil
	})
	go all[1].View(func(*tally) {
		close(viewing)
		<-leave
	})
	<-viewing
	written, err := countUp.Go(ctx, all[1], 1)
	if err == nil {
		err = until(ctx, func() bool { return waitsToWrite(all[1]) })
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := calling.Local(ctx, all[0], 0); err != nil || !errors.Is(deep, replicated.ErrInHandler) {
		t.Errorf("%v; two deep: %v", err, deep)
	}
	if n, err := written.Wait(ctx); n != 1 || err != nil {
		t.Errorf("the command: %d, %v", n, err)
	}
}

// Writers of the lock for nested queries exclude readers, and each reader has its turn although
// writers go on.
func TestTheLockOfNestedQueries(t *testing.T) {
	t.Parallel()
	var n nested
	var mu sync.Mutex // object.mu
	var inside, writes atomic.Int64
	shared := 0
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := range 2000 {
				for (i%2 == 0 || !n.tryRLock()) && !n.rlock() {
					runtime.Gosched()
				}
				if inside.Add(1) <= 0 {
					t.Error("a reader is in while a writer is")
				}
				_ = shared
				runtime.Gosched()
				inside.Add(-1)
				n.runlock()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		readers.Wait()
		close(done)
	}()
	var writers sync.WaitGroup
	for i := range 2 {
		writers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				mu.Lock()
				n.refuse(i == 0)
				n.lock()
				if !inside.CompareAndSwap(0, -1000) {
					t.Error("a writer is in while another one is")
				}
				shared++
				writes.Add(1)
				inside.Add(1000)
				n.unlock()
				mu.Unlock()
				runtime.Gosched()
			}
		})
	}
	writers.Wait()
	if n.word.Load() != 0 || n.reading != 0 || n.waiting != 0 || writes.Load() == 0 {
		t.Errorf("afterwards: word %d, %d invoke.Reading, %d waiting, %d writes", n.word.Load(), n.reading, n.waiting, writes.Load())
	}
}

// While a state is restored, which comes from another member, queries in queries are refused: the
// caller's object would wait with them.
func TestAQueryInAQueryDoesNotWaitForAStateThatIsRestored(t *testing.T) {
	var n nested
	n.refuse(true)
	if !n.rlock() {
		t.Error("refused before")
	}
	n.runlock()
	n.lock()
	if n.rlock() || n.tryRLock() {
		t.Error("not refused")
	}
	n.unlock()
	n.refuse(false)
	if !n.rlock() || n.word.Load() != 2 {
		t.Error("refused afterwards, or a reader is counted that was refused")
	}
	n.runlock()
}
