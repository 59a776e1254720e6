package ripc

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// descriptorsOpen is the number of descriptors of this process.
func descriptorsOpen(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(list)
}

// What endpoints and connections take, they give back when they end.
func TestNothingStaysOpen(t *testing.T) {
	for _, transport := range []string{"shm", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			ctx := testutil.Within(t)
			round := func() {
				there, err := Open(ctx, configOf(transport, t.Name()))
				must(t, err)
				here, err := Open(ctx, configOf(transport, t.Name()))
				must(t, err)
				server, client := register(t, there, "server"), register(t, here, "")
				served, stop := context.WithCancel(ctx)
				var serving sync.WaitGroup
				serving.Go(func() { echo(served, server) })
				m, err := client.Call(ctx, client.To("server"), []byte("x"))
				must(t, err)
				m.Release()
				stop()
				serving.Wait()
				must(t, here.Close())
				must(t, there.Close())
			}
			round() // Go's poller opens what it needs
			before := descriptorsOpen(t)
			for range 5 {
				round()
			}
			if after := descriptorsOpen(t); after > before {
				t.Errorf("%d descriptors are open, %d were before", after, before)
			}
		})
	}
}
