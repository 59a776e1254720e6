package member_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// What waits in the handler of a query, for the object that waits for the query, is an error at
// once.
func TestACallInAQueryIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	other := ordered(0)
	self := func() *member.Object[*nester] { return nil }
	inside := func() (errs [5]error) {
		o := self()
		_, errs[0] = nest.Call(ctx, o, 0)
		_, errs[1] = nest.Go(ctx, o, 0)
		_, errs[2] = total.Call(ctx, other, "ann")
		errs[3] = o.Sync(ctx)
		errs[4] = member.Send(&member.Context{}, "nester", nest, 0)
		return errs
	}
	reflect := replicated.NewQuery[int, int]("reflect")
	refused := func(t *testing.T, errs [5]error) {
		t.Helper()
		for i, err := range errs[:4] {
			reads := i == 2 || i == 3 // they may have nothing to wait for
			if !errors.Is(err, replicated.ErrInHandler) && !(reads && err == nil) {
				t.Errorf("call %d: %v", i, err)
			}
		}
		if errs[4] == nil {
			t.Error("a query sends a command")
		}
	}
	o := member.New(squall.SubgroupConfig{Name: "nester"}, func() *nester { return &nester{} },
		member.Handle(nest, func(*nester, *member.Context, int) (int, error) { return 0, nil }),
		member.Handle(reflect, func(*nester, *member.Context, int) (int, error) {
			refused(t, inside())
			return 7, nil
		}))
	self = func() *member.Object[*nester] { return o }
	g, err := member.Open(ctx, squall.Config{Cluster: "test", ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}, o, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	s, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}})
	for name, target := range map[string]replicated.Target{"member": o, "client": c.Object("nester")} {
		if n, err := reflect.Call(ctx, target, 0); n != 7 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
		if n, err := reflect.Local(ctx, target, 0); n != 7 || err != nil {
			t.Errorf("%s, its own copy: %d, %v", name, n, err)
		}
	}
	o.View(func(*nester) { refused(t, inside()) })
	// The same calls are right outside.
	if _, err := nest.Call(ctx, o, 0); err != nil {
		t.Error(err)
	}
}

// Queries that run elsewhere do not forbid anything.
func TestACallBesideAQueryIsMade(t *testing.T) {
	t.Parallel()
	o := open(t, 1, ordered, nil)[0].bank
	began, release := make(chan struct{}), make(chan struct{})
	go o.View(func(*bank) {
		close(began)
		<-release
	})
	<-began
	time.AfterFunc(50*time.Millisecond, func() { close(release) }) // the call may wait for the query
	if n, err := deposit.Call(t.Context(), o, depositArgs{"ann", 1}); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A future that is waited for in a handler would wait for the handler.
func TestWaitingInAHandlerIsRefused(t *testing.T) {
	t.Parallel()
	var f *replicated.Future[int]
	var err, going error
	ready := make(chan struct{})
	var o *member.Object[*nester]
	o = open(t, 1, func(int) *member.Object[*nester] {
		return member.New(squall.SubgroupConfig{Name: "nester"}, func() *nester { return &nester{} },
			member.Handle(nest, func(_ *nester, _ *member.Context, n int) (int, error) {
				if n == 0 {
					<-ready
					_, err = f.Wait(context.Background())
					_, going = nest.Go(context.Background(), o, 1)
				}
				return n, nil
			}))
	}, nil)[0].bank
	first, e := nest.Go(t.Context(), o, 0)
	if e != nil {
		t.Fatal(e)
	}
	if f, e = nest.Go(t.Context(), o, 2); e != nil {
		t.Fatal(e)
	}
	close(ready)
	if _, e := first.Wait(t.Context()); e != nil || !errors.Is(err, replicated.ErrInHandler) || !errors.Is(going, replicated.ErrInHandler) {
		t.Errorf("%v; waiting: %v, going: %v", e, err, going)
	}
	if n, e := f.Wait(t.Context()); n != 2 || e != nil {
		t.Errorf("later: %d, %v", n, e)
	}
}

// A handler may call an object of another group of its process, also while that one executes a
// command or runs a query.
func TestAHandlerCallsAnObjectOfAnotherGroup(t *testing.T) {
	ctx := testutil.Within(t)
	type state struct{}
	enter, release := make(chan struct{}), make(chan struct{})
	errs := make(chan error, 2)
	hold := replicated.NewCommand[int, int]("hold")
	reads := replicated.NewQuery[int, int]("reads")
	ready := replicated.NewCommand[int, int]("ready")
	object := func(f func(*state, *member.Context, int) (int, error)) *member.Object[*state] {
		o := member.New(squall.SubgroupConfig{Name: "o"}, func() *state { return &state{} }, member.Handle(hold, f), member.Handle(reads, f),
			member.Handle(ready, func(_ *state, _ *member.Context, n int) (int, error) { return n, nil }))
		g, err := member.Open(ctx, squall.Config{Cluster: t.Name(), ID: 1, Listen: "127.0.0.1:0", InitialMembers: 1, Logger: quiet}, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close(context.Background()) })
		if n, err := ready.Call(ctx, o, 1); n != 1 || err != nil { // from now on its operations are enabled
			t.Fatal(n, err)
		}
		return o
	}
	other := object(func(_ *state, _ *member.Context, n int) (int, error) {
		if n == 1 {
			enter <- struct{}{}
			<-release
		}
		return n, nil
	})
	o := object(func(*state, *member.Context, int) (int, error) {
		_, err := hold.Go(ctx, other, 2)
		errs <- err
		return 0, nil
	})
	for name, held := range map[string]func(context.Context, replicated.Target, int) (int, error){"command": hold.Call, "query": reads.Local} {
		for _, call := range []func(context.Context, replicated.Target, int) (int, error){hold.Call, reads.Local} {
			done := make(chan error)
			go func() {
				_, err := held(ctx, other, 1)
				done <- err
			}()
			<-enter
			if _, err := call(ctx, o, 0); err != nil {
				t.Error(err)
			}
			if err := <-errs; err != nil {
				t.Errorf("while a %s is held: %v", name, err)
			}
			release <- struct{}{}
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}
