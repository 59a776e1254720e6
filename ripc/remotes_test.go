package ripc

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// A service forgets addresses that are not connected when there are too many. A connected one
// stays, and one that the application still has is known again once it is connected, so that it
// learns when the service there moves.
func TestAServiceForgetsAddressesThatAreNotConnected(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		there := open(Config{})
		register(t, there, "server")
		register(t, there, "other")
		client := register(t, open(Config{}), "")
		connected, held := client.To("server"), client.To("other")
		must(t, connected.Connect(ctx))
		known := func() (n int, other bool) {
			client.e.lock()
			defer client.e.unlock()
			for _, all := range client.remotes.byID {
				n += len(all)
			}
			if n != client.remotes.listed {
				t.Errorf("%d addresses are known, and %d are counted", n, client.remotes.listed)
			}
			return n, slices.Contains(client.remotes.byID["other"], held)
		}
		for k := range 3 * maxRemotes {
			client.To(ID(fmt.Sprint("nowhere ", k)))
		}
		if n, other := known(); n > maxRemotes || other {
			t.Fatalf("%d addresses are known, and that of the other service: %v", n, other)
		}
		if client.To("server") != connected {
			t.Error("a connected address was forgotten")
		}
		must(t, client.Send(ctx, held))
		if _, other := known(); !other {
			t.Error("an address that is connected is not known")
		}
	})
}

// The address of a service in one process is kept as long as notices go there, also when nothing
// else does any more.
func TestAnAddressIsKeptAsLongAsNoticesGoThere(t *testing.T) {
	onEach(t, func(t *testing.T, open func(Config) *Endpoint) {
		ctx := testutil.Within(t)
		server, here := register(t, open(Config{}), "server"), open(Config{})
		client := register(t, here, "client")
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() { echo(ctx, server) })
		defer server.Close()
		m, err := client.Call(ctx, client.To("server"), []byte("x"))
		must(t, err)
		defer m.Release()
		r := m.Sender()
		must(t, client.Notify(ctx, r, 1))
		if _, err := client.DialRemote(ctx, r); !errors.Is(err, ErrNoService) {
			t.Errorf("a stream to a service that takes none: %v", err)
		}
		must(t, here.audit(true))
		if m.Sender() != r {
			t.Error("the service has another address")
		}
	})
}
