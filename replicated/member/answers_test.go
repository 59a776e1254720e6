package member_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/member"
	"github.com/squall-go/squall/ripc"
)

// fixed resolves every service to one address.
type fixed string

func (f fixed) Resolve(context.Context, ripc.ID) (ripc.Place, error) {
	return ripc.Place{Addr: string(f)}, nil
}

func (f fixed) Publish(context.Context, ripc.ID, ripc.Place) (func() error, error) {
	return func() error { return nil }, nil
}

// TestRequestsOfAClientThatTakesNoAnswersWait has a client send many requests and take few of the
// answers. The member computes as many as it may keep; the other requests wait, and other clients
// do not. When the client takes the answers, it gets all.
func TestRequestsOfAClientThatTakesNoAnswersWait(t *testing.T) {
	t.Parallel()
	const bytes, calls, most, taken = 1 << 20, 48, 4, 2
	var executed atomic.Int64
	get := replicated.NewQuery[int, []byte]("get")
	all := open(t, 1, func(int) *member.Object[*bank] {
		return member.New(squall.SubgroupConfig{Name: "accounts"}, newBank,
			member.Handle(deposit, (*bank).deposit),
			member.Handle(get, func(_ *bank, _ *member.Context, n int) ([]byte, error) {
				executed.Add(1)
				return make([]byte, n), nil
			}))
	}, nil)
	s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}, MaxAnswerBytes: most * bytes}, all[0].bank)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e, err := ripc.Open(t.Context(), ripc.Config{Transport: ripc.TransportTCP, Resolver: fixed(s.Addr()), MoveTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	caller, err := e.Register(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := caller.TakeLong(ripc.LongConfig{MaxBytes: (taken + 1) * bytes, MaxPeerBytes: (taken + 1) * bytes}); err != nil { // an answer has a head
		t.Fatal(err)
	}
	to := caller.To(ripc.ID("squall object\x00test\x00" + all[0].group.View().Group + "\x00accounts"))
	request := (&client.Request{Ask: client.Query, Consistency: byte(invoke.Local), Name: []byte("get"), Args: []byte{0x1a, 0x00, 0x10, 0x00, 0x00}}).AppendTo(nil) // CBOR of 1 MiB
	answers := make(chan ripc.Message, calls)
	for range calls {
		go func() {
			m, err := caller.Call(testutil.Within(t), to, request)
			if err != nil {
				t.Error(err)
			}
			answers <- m
		}()
	}
	for ctx := testutil.Within(t); int(executed.Load())+s.Waiting() < calls; time.Sleep(time.Millisecond) { // polls
		if ctx.Err() != nil {
			t.Fatalf("of %d requests %d were executed, and %d wait", calls, executed.Load(), s.Waiting())
		}
	}
	if n := executed.Load(); n > most+taken {
		t.Errorf("%d answers are made for a client that takes %d", n, taken)
	}
	other := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}}) // through shared memory: it is another party
	if n, err := deposit.Call(testutil.Within(t), other.Object("accounts"), depositArgs{"ann", 1}); n != 1 || err != nil {
		t.Errorf("another client: %d, %v", n, err)
	}
	for range calls {
		m := <-answers
		if m.BodySize() < bytes {
			t.Errorf("an answer of %d bytes", m.BodySize())
		}
		m.Release()
	}
	if n := executed.Load(); n != calls || s.Waiting() != 0 {
		t.Errorf("%d requests were executed, and %d wait", n, s.Waiting())
	}
}

// TestGoroutinesForRequestsAreBounded has two clients, which are two parties, send large commands
// while a handler of another member waits. Of each client as many requests have a goroutine as may
// have one, and in all; the others wait, and all are served in the end.
func TestGoroutinesForRequestsAreBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		all, each, first, second int
		stalls                   bool // what the second client sends waits, too
	}{
		"of one party": {100, 4, 12, 1, false},
		"in all":       {5, 4, 12, 12, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate, entered := make(chan struct{}), make(chan struct{})
			enter := sync.OnceFunc(func() { close(entered) })
			all := open(t, 2, func(i int) *member.Object[*sharer] {
				return member.New(squall.SubgroupConfig{Name: "sharer", RingBytes: 64 << 10, Window: 4}, func() *sharer { return &sharer{} },
					member.Handle(grow, func(_ *sharer, _ *member.Context, n int) (int, error) { return n, nil }),
					member.Handle(stash, func(_ *sharer, _ *member.Context, b []byte) (int, error) {
						if i == 1 {
							enter()
							<-gate
						}
						return len(b), nil
					}))
			}, func(_ int, c *squall.Config) { c.FailAfter = time.Minute })
			open := sync.OnceFunc(func() { close(gate) })
			s, err := member.Serve(t.Context(), member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, all[0].bank)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if all, each := s.WorkingBounds(); all != 1024 || each != 64 {
				t.Errorf("%d goroutines in all, and %d of one party", all, each)
			}
			s.LimitWorking(c.all, c.each)
			first := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}, Endpoint: ripc.Config{Transport: ripc.TransportTCP}})
			second := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}})
			t.Cleanup(open)
			ctx := testutil.Within(t)
			for _, c := range []*replicated.Client{first, second} { // which opens the sessions
				if _, err := grow.Call(ctx, c.Object("sharer"), 1); err != nil {
					t.Fatal(err)
				}
			}
			var calls sync.WaitGroup
			stashes := func(at replicated.Target, n int) {
				for range n {
					calls.Go(func() {
						if got, err := stash.Call(ctx, at, make([]byte, 12<<10)); got != 12<<10 || err != nil {
							t.Errorf("%d, %v", got, err)
						}
					})
				}
			}
			stashes(all[0].bank, 1)
			<-entered
			stashes(all[0].bank, 12) // fill the ring, so that no client's command gets a place in the order
			for ; ; time.Sleep(time.Millisecond) {
				c, err := all[0].bank.Subgroup().TryClaim(12 << 10)
				if err != nil {
					break
				}
				if err := c.Abort(); err != nil {
					t.Fatal(err)
				}
			}
			sent := 0
			send := func(c *replicated.Client, n, each int) {
				t.Helper()
				stashes(c.Object("sharer"), n)
				for sent += n; s.Working()+s.Waiting() < sent; time.Sleep(time.Millisecond) { // polls
					if ctx.Err() != nil {
						t.Fatalf("of %d requests %d have a goroutine, and %d wait", sent, s.Working(), s.Waiting())
					}
				}
				if n := s.Working(); n > each {
					t.Errorf("%d requests have a goroutine each", n)
				}
			}
			send(first, c.first, c.each)
			waiting := s.Waiting()
			send(second, c.second, min(c.all, 2*c.each))
			if n := s.Waiting(); waiting == 0 || n > waiting != c.stalls {
				t.Errorf("%d requests wait, and before the second client's %d", n, waiting)
			}
			open()
			calls.Wait()
			for ; s.Working()+s.Waiting() > 0; time.Sleep(time.Millisecond) { // polls
				if ctx.Err() != nil {
					t.Fatalf("in the end %d requests have a goroutine, and %d wait", s.Working(), s.Waiting())
				}
			}
		})
	}
}

// TestRequestsThatWaitedDoNotWaitForAnotherObject has a client's requests to three objects wait:
// the client has as much in progress as it may have, a large command to the first object. When that
// is over, commands to the second object go on waiting, because its ring is full, and a query to
// the third one does not.
func TestRequestsThatWaitedDoNotWaitForAnotherObject(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	addr := testutil.FreeAddress(t)
	var objects [2][3]*member.Object[*sharer]
	var groups [2]*squall.Group
	var gates [3]chan struct{}
	var opening sync.WaitGroup
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	close(gates[2])
	for i := range objects {
		for k, name := range []string{"first", "second", "third"} {
			objects[i][k] = member.New(squall.SubgroupConfig{Name: name, RingBytes: 32 << 10, Window: 4, AsyncQueueBytes: 64 << 10}, func() *sharer { return &sharer{} },
				member.Handle(grow, func(_ *sharer, _ *member.Context, n int) (int, error) { return n, nil }),
				member.Handle(kept, func(*sharer, *member.Context, []byte) ([]byte, error) { return nil, nil }),
				member.Handle(stash, func(_ *sharer, _ *member.Context, b []byte) (int, error) {
					if i == 1 {
						<-gates[k]
					}
					return len(b), nil
				}))
		}
		c := squall.Config{Cluster: "test", ID: squall.NodeID(i + 1), Listen: "127.0.0.1:0", Join: []string{addr}, InitialMembers: 2, Logger: quiet}
		if i == 0 {
			c.Listen = addr
		}
		opening.Go(func() {
			var err error
			if groups[i], err = member.Open(ctx, c, objects[i][0], objects[i][1], objects[i][2]); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() {
		var closing sync.WaitGroup
		for _, g := range groups {
			closing.Go(func() { _ = g.Close(testutil.Within(t)) })
		}
		closing.Wait()
	})
	first, second := sync.OnceFunc(func() { close(gates[0]) }), sync.OnceFunc(func() { close(gates[1]) })
	t.Cleanup(first)
	t.Cleanup(second)
	s, err := member.Serve(ctx, member.ServerConfig{Endpoint: ripc.Config{Listen: "127.0.0.1:0"}}, objects[0][0], objects[0][1], objects[0][2])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.LimitWorking(100, 1)
	client := dial(t, replicated.ClientConfig{Addresses: []string{s.Addr()}, MemberTimeout: time.Hour, SessionTimeout: time.Hour})
	for _, name := range []string{"first", "second", "third"} { // which opens the sessions
		if _, err := grow.Call(ctx, client.Object(name), 1); err != nil {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	stashes := func(at replicated.Target, n, bytes int) {
		for range n {
			calls.Go(func() {
				if got, err := stash.Call(ctx, at, make([]byte, bytes)); got != bytes || err != nil {
					t.Errorf("%d, %v", got, err)
				}
			})
		}
	}
	await := func(what string, n int, f func() int) {
		t.Helper()
		for ; f() != n; time.Sleep(time.Millisecond) { // polls
			if ctx.Err() != nil {
				t.Fatalf("%s: %d, want %d", what, f(), n)
			}
		}
	}
	for _, o := range objects[0][:2] { // fill the rings
		stashes(o, 24, 12<<10)
		for ; ; time.Sleep(time.Millisecond) {
			c, err := o.Subgroup().TryClaim(12 << 10)
			if err != nil {
				break
			}
			if err := c.Abort(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stashes(client.Object("first"), 1, 12<<10)
	await("in progress", 1, s.Working)
	stashes(client.Object("third"), 1, 12<<10) // which is one too many
	await("waiting", 1, s.Waiting)
	stashes(client.Object("second"), 7, 3<<9) // more than two batches
	await("waiting", 8, s.Waiting)
	var asked sync.WaitGroup
	asked.Go(func() {
		if _, err := kept.Local(ctx, client.Object("third"), nil); err != nil {
			t.Errorf("a query to the third object: %v", err)
		}
	})
	await("waiting", 9, s.Waiting)
	first()
	asked.Wait()
	second()
	calls.Wait()
}
