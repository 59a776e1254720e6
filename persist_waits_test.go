package squall_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// With little memory for what waits for disks, every message is a run of its own and more.
func afterPersist(_ int, c *squall.Config) {
	c.Subgroups[0].Log.DeliverAfterPersist, c.Subgroups[0].Log.MemoryBytes = true, 2000
}

// Messages that wait for disks when a view ends wait for the disks of the members of the next view.
// Messages of the next view wait behind them.
func TestAViewChangesWhileAsMuchWaitsForDisksAsMay(t *testing.T) {
	t.Parallel()
	groups, keepers := durableCluster(t, t.TempDir(), 3, afterPersist)
	ctx := testutil.Within(t)
	const each = 400
	var senders sync.WaitGroup
	begun := make(chan struct{}, 2)
	for _, g := range groups[:2] {
		senders.Go(func() {
			for m := range each {
				f, err := must(g.Subgroup("log")).SendFuture(ctx, make([]byte, 500))
				if m == each/8 {
					begun <- struct{}{}
				}
				if err == nil && m == each-1 {
					_, err = f.Persisted(ctx, squall.OnEveryDisk)
				}
				if err != nil {
					t.Errorf("message %d: %v", m, err)
					return
				}
			}
		})
	}
	<-begun
	closeAll(groups[2])
	senders.Wait()
	for i, j := range keepers[:2] {
		eventually(t, fmt.Sprintf("node %d delivered everything", i+1), func() bool { return len(j.all()) == 2*each })
	}
}

func TestWhoLeavesSeesItsMessagesThatWaitForDisks(t *testing.T) {
	for range 4 {
		groups, keepers := durableCluster(t, t.TempDir(), 2, func(_ int, c *squall.Config) { c.Subgroups[0].Log.DeliverAfterPersist = true })
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var last *squall.Future
		for range 256 {
			var err error
			if last, err = must(groups[1].Subgroup("log")).SendFuture(ctx, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
		}
		if err := groups[1].Leave(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := last.Wait(ctx); err != nil || len(keepers[1].all()) != 256 {
			t.Fatalf("it saw %d of 256 messages; the last one: %v", len(keepers[1].all()), err)
		}
		closeAll(groups...)
	}
}

// A run of messages that are together more than may wait for disks comes through all the same, bit
// by bit.
func TestARunIsLargerThanWhatMayWaitForDisks(t *testing.T) {
	groups, keepers := durableCluster(t, t.TempDir(), 2, afterPersist)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for m := range 50 {
		if err := must(groups[m%2].Subgroup("log")).Send(ctx, make([]byte, 1500)); err != nil {
			t.Fatal(err)
		}
	}
	for i, j := range keepers {
		eventually(t, fmt.Sprintf("node %d delivered everything", i+1), func() bool { return len(j.all()) == 50 })
	}
}
