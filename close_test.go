package squall_test

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

// What Send accepted before Close is delivered at the other member, whatever the moment, and Close
// says nothing else.
func TestCloseLosesNothingThatSendAccepted(t *testing.T) {
	t.Parallel()
	for round := range 20 {
		var delivered atomic.Int64
		groups := cluster(t, 2, func(i int, c *squall.Config) {
			c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {
				if i == 1 {
					delivered.Add(1)
				}
			}}}
		})
		accepted := int64(0)
		var sender sync.WaitGroup
		sending := make(chan struct{})
		sender.Go(func() {
			for k := 0; ; k++ {
				if k == 50*round {
					close(sending)
				}
				if err := must(groups[0].Subgroup("a")).Send(context.Background(), make([]byte, 100)); err != nil {
					if !errors.Is(err, squall.ErrClosed) {
						t.Error(err)
					}
					return
				}
				accepted++
			}
		})
		<-sending
		if err := groups[0].Close(context.Background()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		sender.Wait()
		if n := delivered.Load(); n != accepted {
			t.Fatalf("round %d: %d messages accepted, %d delivered", round, accepted, n)
		}
	}
}

// Close keeps to its context while an upcall runs, and releases behind the upcall.
func TestCloseDoesNotWaitForAnUpcallForEver(t *testing.T) {
	t.Parallel()
	release, running := make(chan struct{}), make(chan struct{})
	groups := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {
			close(running)
			<-release
		}}}
	})
	if err := must(groups[0].Subgroup("a")).Send(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	<-running
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := groups[0].Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close says %v", err)
	}
	close(release)
}

// A claim that failed is no claim.
func TestAFailedClaimCanBeAbortedWithoutHarm(t *testing.T) {
	var delivered atomic.Int64
	groups := cluster(t, 1, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) { delivered.Add(1) }}}
	})
	sg := must(groups[0].Subgroup("a"))
	c, err := sg.TryClaim(sg.MaxMessageBytes() + 1)
	if !errors.Is(err, squall.ErrTooLarge) {
		t.Fatal(err)
	}
	if err := c.Abort(); !errors.Is(err, squall.ErrClaimDone) {
		t.Errorf("abort says %v", err)
	}
	if err := c.Commit(); !errors.Is(err, squall.ErrClaimDone) {
		t.Errorf("commit says %v", err)
	}
	if err := sg.Send(context.Background(), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := groups[0].Close(context.Background()); err != nil || delivered.Load() != 1 {
		t.Errorf("close says %v, %d delivered", err, delivered.Load())
	}
}

// A group that halted with the table of an old view, for the sake of a claim that is given back
// then, leaves no row behind.
func TestCloseGivesTheRowsOfAllViewsBack(t *testing.T) {
	groups := cluster(t, 4, func(i int, c *squall.Config) {
		c.Fabric = squall.FabricSHM
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	awaitView(t, 4, groups...)
	c := claim(t, must(groups[0].Subgroup("a")), "held")
	if err := groups[3].Close(t.Context()); err != nil {
		t.Error(err)
	}
	awaitView(t, 3, groups[:3]...)
	groups[1].ReportFailure(groups[0].ID())
	<-groups[0].Done()
	if err := c.Abort(); err != nil {
		t.Error(err)
	}
	for _, g := range groups {
		g.Close(t.Context()) // the first one was evicted, and says so
	}
	if n := rows(t); n > 0 {
		t.Errorf("%d rows stay", n)
	}
}

// rows counts the segments of this process that are rows.
func rows(t *testing.T) (n int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, fd := range open {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.Contains(to, "squall-row") {
			n++
		}
	}
	return n
}

// A claim that is open when its group is closed keeps its memory: the application may still write
// into it.
func TestAClaimThatIsOpenWhenItsGroupIsClosedCanBeWritten(t *testing.T) {
	groups := cluster(t, 2, func(_ int, c *squall.Config) {
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: func(squall.Message) {}}}
	})
	c, err := must(groups[0].Subgroup("a")).TryClaim(100)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := groups[0].Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "its memory stays") {
		t.Fatalf("close says %v", err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if what := recover(); what != nil {
			t.Errorf("writing to the claim: %v", what)
		}
	}()
	for i := range c.Bytes {
		c.Bytes[i] = 1
	}
}
