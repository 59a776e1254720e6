package member_test

import (
	"flag"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/ripc"
)

var failing = flag.Int("clients", 60, "clients that lose their member at the same time")

// TestManyClientsLoseTheirMemberAtOnce closes the server that all clients use, while each of them
// calls.
func TestManyClientsLoseTheirMemberAtOnce(t *testing.T) {
	all := open(t, 3, ordered, nil)
	_, servers := serve(t, all, ripc.TransportTCP)
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	var ready, done sync.WaitGroup
	closed := make(chan struct{})
	const each = 5
	var mu sync.Mutex
	longest := time.Duration(0)
	for range *failing {
		bank := dial(t, replicated.ClientConfig{Addresses: addrs, Endpoint: ripc.Config{Transport: ripc.TransportTCP}, MemberTimeout: time.Minute}).Object("accounts")
		ready.Add(1)
		done.Go(func() {
			one := func() {
				began := time.Now()
				if _, err := deposit.Call(t.Context(), bank, depositArgs{"ann", 1}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				longest = max(longest, time.Since(began))
			}
			one()
			ready.Done()
			for n := 1; n < each; {
				select {
				case <-closed: // at least one call comes after that
					one()
					n++
				default:
					if n < each-1 {
						one()
						n++
					} else {
						<-closed
					}
				}
			}
		})
	}
	ready.Wait()
	if err := servers[0].Close(); err != nil {
		t.Fatal(err)
	}
	close(closed)
	done.Wait()
	want := int64(*failing * each)
	for i, m := range all {
		if n, err := balance.Call(t.Context(), m.bank, "ann"); n != want || err != nil {
			t.Errorf("member %d has %d deposits of %d, %v", i+1, n, want, err)
		}
	}
	if longest > ripc.DefaultMoveTimeout {
		t.Errorf("a call took %v: its client waited for a member that said that it ends", longest)
	}
	t.Logf("%d clients, the longest call took %v", *failing, longest)
}
