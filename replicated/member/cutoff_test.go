package member_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

// wire carries connections from an address of its own to another one. A direction that is cut loses
// what is sent in it, and no connection ends: this is what both ends see of a network partition.
type wire struct {
	listener  net.Listener
	to        string
	there     atomic.Bool // requests are lost
	back      atomic.Bool // answers are lost
	lost      atomic.Int64
	mu        sync.Mutex
	ends      []net.Conn
	forwarded sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: to}
	w.forwarded.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, c := range w.ends {
			_ = c.Close()
		}
		w.ends = nil
		w.mu.Unlock()
		w.forwarded.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		from, err := w.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		w.mu.Lock()
		w.ends = append(w.ends, from, to)
		w.mu.Unlock()
		w.forwarded.Go(func() { w.carry(to, from, &w.there) })
		w.forwarded.Go(func() { w.carry(from, to, &w.back) })
	}
}

// carry copies what is sent in one direction. A connection in which bytes were lost carries nothing
// any more.
func (w *wire) carry(to, from net.Conn, cut *atomic.Bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	lost := false
	for {
		n, err := from.Read(buf)
		if lost = lost || cut.Load(); lost {
			w.lost.Add(int64(n))
		} else if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if err != nil {
			return
		}
	}
}

// A client that is cut off from its member, in both directions or only from the answers, goes on
// with another member. Each command is executed once.
func TestAClientLeavesAMemberFromWhichItIsCutOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ there, back bool }{"both directions": {true, true}, "requests": {true, false}, "answers": {false, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := open(t, 3, ordered, nil)
			_, servers := serve(t, all, ripc.TransportTCP)
			wire := newWire(t, servers[0].Addr())
			bank := dial(t, replicated.ClientConfig{
				Addresses: []string{wire.listener.Addr().String(), servers[1].Addr(), servers[2].Addr()}, Seed: 1,
				Endpoint: ripc.Config{Transport: ripc.TransportTCP}, MemberTimeout: time.Second,
			}).Object("accounts")
			ctx := testutil.Within(t)
			if n, err := deposit.Call(ctx, bank, depositArgs{"ann", 1}); n != 1 || err != nil {
				t.Fatalf("before: %d, %v", n, err)
			}
			wire.there.Store(c.there)
			wire.back.Store(c.back)
			const commands = 8
			var wg sync.WaitGroup
			for range commands {
				wg.Go(func() {
					if _, err := deposit.Call(ctx, bank, depositArgs{"ann", 1}); err != nil {
						t.Error(err)
					}
				})
				wg.Go(func() {
					if _, err := balance.Call(ctx, bank, "ann"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if wire.lost.Load() == 0 {
				t.Error("the client did not use the member from which it is cut off")
			}
			if n, err := balance.Call(ctx, bank, "ann"); n != 1+commands || err != nil {
				t.Errorf("the balance is %d, %v", n, err)
			}
		})
	}
}
