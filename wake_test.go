package squall_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

// Calls ring the loop at every moment of its way to sleep. Four members have three sockets each, so
// that every step looks at the sockets after it looked for calls; a halted member has no heartbeat
// that would end a sleep without a bell.
func TestEveryCallOfAHaltedMemberIsAnswered(t *testing.T) {
	t.Parallel()
	groups := cluster(t, 4, func(i int, c *squall.Config) {
		c.Fabric, c.Heartbeat, c.FailAfter, c.MaxSpin = squall.FabricTCP, 4*time.Second, 60*time.Second, -1
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	g := groups[0]
	groups[1].ReportFailure(g.ID())
	select {
	case <-g.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("it was reported, and does not halt")
	}
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	end := time.Now().Add(time.Duration(testutil.Seeds(1, 4)) * time.Second)
	calls := 0
	for ; time.Now().Before(end); calls++ {
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			must(g.Debug().Link(2))
		}()
		select {
		case <-answered:
		case <-time.After(10 * time.Second):
			t.Fatalf("P2: call %d of Link does not return", calls)
		}
		// The loop is on its way to sleep now; the next call shall find it at any place of it.
		for next := time.Now().Add(time.Duration(rng.IntN(60)) * time.Microsecond); time.Now().Before(next); {
		}
	}
	t.Logf("%d calls", calls)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := g.Close(ctx); ctx.Err() != nil {
		t.Errorf("P2: Close waits for ever: %v", err)
	}
}
