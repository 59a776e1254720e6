package ripc

import (
	"bytes"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
)

var (
	clientCount = flag.Int("clients", 40, "clients of the server of a test with many clients, over each transport")
	clientTime  = flag.Duration("busy", 300*time.Millisecond, "how long they call")
)

// A server with many clients answers each of them while all call at once, and while most of them
// say nothing. When they have gone, it knows none any more.
func TestAServerAnswersManyClients(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		server := register(t, there, "server")
		var serving sync.WaitGroup
		serving.Go(func() { echo(ctx, server) })
		defer serving.Wait()
		clients := make([]*Service, *clientCount)
		ends := make([]*Endpoint, len(clients))
		for k := range clients {
			ends[k] = open(Config{})
			clients[k] = register(t, ends[k], "")
			must(t, clients[k].To("server").Connect(ctx))
		}
		if there.Peers() != len(clients) {
			t.Errorf("%d connections of %d clients", there.Peers(), len(clients))
		}
		var mu sync.Mutex
		calls := make([]int, len(clients))
		call := func(k int, until time.Time) {
			for n := 0; time.Now().Before(until); n++ {
				want := fmt.Appendf(nil, "%d of %d", n, k)
				m, err := clients[k].Call(ctx, clients[k].To("server"), want)
				if err != nil {
					t.Errorf("client %d, call %d: %v", k, n, err)
					return
				}
				if !bytes.Equal(m.Data, want) {
					t.Errorf("%q was answered with %q", want, m.Data)
				}
				m.Release()
				mu.Lock()
				calls[k]++
				mu.Unlock()
			}
		}
		var calling sync.WaitGroup
		for k := range clients { // all
			calling.Go(func() { call(k, time.Now().Add(*clientTime)) })
		}
		calling.Wait()
		fewest, sum := calls[0], 0
		for _, n := range calls {
			fewest, sum = min(fewest, n), sum+n
		}
		if fewest == 0 {
			t.Error("a client was not answered while all others called")
		}
		t.Logf("%d calls of %d clients, %d of the one with the fewest", sum, len(clients), fewest)
		for k := range 3 { // few
			calling.Go(func() { call(k, time.Now().Add(*clientTime/2)) })
		}
		calling.Wait()
		for _, e := range ends {
			must(t, e.Close())
		}
		for there.Peers() > 0 {
			if ctx.Err() != nil {
				t.Fatalf("%d peers are left", there.Peers())
			}
			time.Sleep(time.Millisecond)
		}
		must(t, server.Close())
	})
}
