package ripc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

// tally counts how often each request and each message was executed, wherever the service was.
type tally struct {
	mu       sync.Mutex
	requests map[uint64]int
	messages int
	total    atomic.Int64
}

// serve executes what comes, until the service is closed.
func (c *tally) serve(s *Service) error {
	return s.Serve(context.Background(), func(_ context.Context, m *Message) {
		c.mu.Lock()
		if m.IsRequest() {
			c.requests[binary.LittleEndian.Uint64(m.Data)]++
		} else {
			c.messages++
		}
		c.mu.Unlock()
		c.total.Add(1)
		if m.IsRequest() {
			m.Reply(m.Data)
		}
	})
}

// A service that moves between processes, transports and endpoints while it is called answers every
// call, and executes each request once. Its senders learn the exact number of messages that it did
// not receive.
func TestAServiceMovesUnderLoadWithoutLosingARequest(t *testing.T) {
	t.Parallel()
	moves := 100
	if testing.Short() {
		moves = 20
	}
	ctx := testutil.Within(t)
	secured := testutil.NewAuthority(t).TLS()
	domain := OneHost(fmt.Sprint(t.Name(), os.Getpid()))
	places := []Config{{Transport: TransportSHM}, {Transport: TransportTCP, Listen: "127.0.0.1:0", TLS: secured}, {Listen: "127.0.0.1:0", TLS: secured}}
	client := open(t, Config{Listen: "127.0.0.1:0", TLS: secured, Resolver: domain})
	count := tally{requests: map[uint64]int{}}

	running, stop := context.WithCancel(ctx)
	defer stop()
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	var next, sent, unreceived atomic.Int64
	begin := make(chan struct{})
	var clients []*Service
	for range 6 {
		s := register(t, client, "")
		clients = append(clients, s)
		load.Go(func() {
			if !begun(running, begin) {
				return
			}
			for running.Err() == nil {
				id := uint64(next.Add(1))
				m, err := s.Call(ctx, s.To("moving"), binary.LittleEndian.AppendUint64(nil, id))
				if err != nil {
					t.Errorf("call %d: %v", id, err)
					return
				}
				if got := binary.LittleEndian.Uint64(m.Data); got != id {
					t.Errorf("call %d was answered with %d", id, got)
				}
				m.Release()
				count.mu.Lock()
				if n := count.requests[id]; n != 1 {
					t.Errorf("request %d was executed %d times", id, n)
				}
				count.mu.Unlock()
			}
		})
	}
	sender := register(t, client, "")
	clients = append(clients, sender)
	load.Go(func() {
		if !begun(running, begin) {
			return
		}
		for running.Err() == nil {
			gone := (*GoneError)(nil)
			switch err := sender.Send(ctx, sender.To("moving"), []byte("message")); {
			case err == nil:
				sent.Add(1)
			case errors.As(err, &gone) && gone.Exact:
				unreceived.Add(int64(gone.Unreceived))
			default:
				t.Errorf("send: %v", err)
				return
			}
		}
	})

	for move := range moves {
		cfg := places[move%len(places)]
		cfg.Resolver = domain
		e, err := Open(ctx, cfg)
		must(t, err)
		s := register(t, e, "moving")
		if move == 0 {
			for _, c := range clients {
				must(t, c.To("moving").Connect(ctx))
			}
			close(begin)
		}
		var serving sync.WaitGroup
		for range 1 + move%2 {
			serving.Go(func() {
				if err := count.serve(s); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		for from := count.total.Load(); count.total.Load() < from+40 && ctx.Err() == nil && !t.Failed(); {
			time.Sleep(100 * time.Microsecond)
		}
		if move == moves-1 {
			stop()
			load.Wait()
		}
		if move%2 == 0 { // odd moves end the endpoint with its service
			must(t, s.Close())
			serving.Wait()
		}
		must(t, e.Close())
		serving.Wait()
		if ctx.Err() != nil || t.Failed() {
			t.Fatalf("at move %d", move)
		}
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond) // the service is nowhere now
	defer cancel()
	for {
		err := sender.Send(short, sender.To("moving"))
		if err == nil { // the end of the last place was not seen yet
			sent.Add(1)
			continue
		}
		if gone, ok := errors.AsType[*GoneError](err); ok {
			unreceived.Add(int64(gone.Unreceived))
		}
		break
	}
	count.mu.Lock()
	defer count.mu.Unlock()
	if got, want := int64(count.messages), sent.Load()-unreceived.Load(); got != want {
		t.Errorf("%d messages were received: %d were sent, %d of them reported as not received", got, sent.Load(), unreceived.Load())
	}
}

// begun waits for a beginning, and reports whether it came before ctx ended.
func begun(ctx context.Context, begin <-chan struct{}) bool {
	select {
	case <-begin:
		return true
	case <-ctx.Done():
		return false
	}
}

// A call waits for a service that comes back within MoveTimeout, and for no other.
func TestACallWaitsForAServiceThatMoves(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		first := register(t, there, "server")
		client := register(t, open(Config{MoveTimeout: time.Minute}), "")
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() { echo(ctx, first) })
		call := func(ctx context.Context) error {
			m, err := client.Call(ctx, client.To("server"), []byte("x"))
			m.Release()
			return err
		}
		if err := call(ctx); err != nil {
			t.Fatal(err)
		}
		must(t, first.Close())
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		if err := call(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that waited until its context ended returned %v", err)
		}
		called := make(chan error, 1)
		go func() { called <- call(ctx) }()
		second := register(t, open(Config{}), "server")
		serving.Go(func() { echo(ctx, second) })
		must(t, <-called)
		if missed := client.To("server").search.missed; !missed.IsZero() { // else the next move had less time
			t.Errorf("a service that was found is missed since %v", missed)
		}
		must(t, second.Close())
		if err := client.Send(ctx, client.To("never seen")); !errors.Is(err, ErrNoService) {
			t.Errorf("%v", err)
		}
	})
}

// Many callers of a service that is gone wait together, and not one after the other: that would
// take longer than the test has.
func TestCallersOfAServiceThatIsGoneWaitTogether(t *testing.T) {
	t.Parallel()
	ctx := testutil.Within(t)
	there := open(t, Config{Transport: TransportSHM})
	server := register(t, there, "server")
	const moveTime = time.Second / 4
	client := register(t, open(t, Config{Transport: TransportSHM, MoveTimeout: moveTime}), "")
	must(t, client.To("server").Connect(ctx))
	must(t, server.Close())
	var calling sync.WaitGroup
	for k := range 100 {
		calling.Go(func() {
			if _, err := client.Call(ctx, client.To("server"), fmt.Append(nil, k)); !errors.Is(err, ErrNoService) {
				t.Error(err)
			}
		})
	}
	calling.Wait()
}
