package squall_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/testutil"
)

// Neither sending nor delivering allocates, so that no message ever waits for the collector.
func TestNothingIsAllocatedPerMessage(t *testing.T) {
	if raceEnabled || testing.Short() {
		t.Skip("the race detector allocates, and the short tests do not wait for so many messages")
	}
	const warmup, messages = 10_000, 50_000
	for _, fabric := range []squall.Fabric{squall.FabricSHM, squall.FabricTCP} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("fabric=%v/batch=%v", fabric, batch), func(t *testing.T) {
				var delivered [2]atomic.Int64
				groups := cluster(t, 2, func(i int, c *squall.Config) {
					c.Fabric = fabric
					c.Subgroups = []squall.SubgroupConfig{{Name: "a"}}
					if batch {
						c.Subgroups[0].DeliverBatch = func(run []squall.Message) { delivered[i].Add(int64(len(run))) }
					} else {
						c.Subgroups[0].Deliver = func(squall.Message) { delivered[i].Add(1) }
					}
				})
				data := make([]byte, 100)
				total := int64(0)
				pass := func(n int) {
					for range n {
						if err := must(groups[0].Subgroup("a")).Send(t.Context(), data); err != nil {
							t.Fatal(err)
						}
					}
					total += int64(n)
					eventually(t, "deliveries", func() bool { return delivered[0].Load() == total && delivered[1].Load() == total })
				}
				pass(warmup)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				pass(messages)
				runtime.ReadMemStats(&after)
				if n := after.Mallocs - before.Mallocs; n > messages/100 {
					t.Errorf("%d allocations for %d messages", n, messages)
				}
			})
		}
	}
}

var heartbeats = regexp.MustCompile(`(heartbeat|parked)=\d+`)

// G8: when everything is delivered, nothing changes in any row but the heartbeat, and the loops
// sleep.
func TestAnIdleGroupSendsNothingButHeartbeats(t *testing.T) {
	const window = 300 * time.Millisecond
	for _, fabric := range []squall.Fabric{squall.FabricSHM, squall.FabricTCP} {
		t.Run(fabric.String(), func(t *testing.T) {
			js := newJournals(3)
			groups := cluster(t, 3, func(i int, c *squall.Config) {
				c.Fabric = fabric
				c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 16 << 10, Window: 64, Deliver: js[i].deliver}}
			})
			everybodySends(t, "a", 200, groups...)
			same(t, 600, js...)
			// rows are the words of all members as each of them sees them.
			rows := func() string {
				var all strings.Builder
				for _, g := range groups {
					all.WriteString(dump(t, g))
				}
				return all.String()
			}
			still := func(s string) string { return heartbeats.ReplaceAllString(s, "$1") }
			// The news that the last message was delivered may still be under way.
			last := ""
			eventually(t, "every member knows that everything is delivered", func() bool {
				last = rows()
				return settled(last)
			})
			before := make([]float64, len(groups))
			for i, g := range groups {
				before[i] = float64(g.Stats().Cycles)
			}
			time.Sleep(window)
			for i, g := range groups {
				// A heartbeat and the peers' two every 100 ms, some cycles each; a loop that does
				// not sleep makes 100,000.
				cycles := float64(g.Stats().Cycles) - before[i]
				if cycles > 1000 && !raceEnabled {
					t.Errorf("node %d: %v cycles in %v", g.ID(), cycles, window)
				}
			}
			now := ""
			eventually(t, "a heartbeat is sent", func() bool {
				now = rows()
				return now != last
			})
			if still(now) != still(last) {
				t.Errorf("G8: the rows of an idle group changed from\n%s\nto\n%s", last, now)
			}
		})
	}
}

var progress = regexp.MustCompile(`(?:received|delivered)=(\d+)`)

// settled reports whether all counters that show how far members have come are equal.
func settled(rows string) bool {
	counters := progress.FindAllStringSubmatch(rows, -1)
	for _, c := range counters {
		if c[1] != counters[0][1] {
			return false
		}
	}
	return len(counters) > 0
}

func TestCloseGivesEverythingBack(t *testing.T) {
	a := testutil.NewAuthority(t)
	for name, configure := range map[string]func(c *squall.Config){
		"shm":  func(c *squall.Config) { c.Fabric = squall.FabricSHM },
		"tcp":  func(c *squall.Config) { c.Fabric = squall.FabricTCP },
		"auto": func(*squall.Config) {},
		"TLS":  func(c *squall.Config) { c.Fabric, c.TLS = squall.FabricTCP, a.TLS() },
	} {
		t.Run(name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			before := fabrictest.Resources()
			t.Run("group", func(t *testing.T) {
				js := newJournals(3)
				groups := cluster(t, 3, func(i int, c *squall.Config) {
					configure(c)
					c.Subgroups = []squall.SubgroupConfig{{Name: "a", Deliver: js[i].deliver}, {Name: "b", AsyncQueueBytes: 4096, Deliver: func(squall.Message) {}}}
				})
				everybodySends(t, "a", 100, groups...)
				everybodySends(t, "b", 100, groups...)
				same(t, 300, js...)
			})
			fabrictest.Settle(t, before)
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("temporary files are left: %v, %v", left, err)
			}
		})
	}
}

// An attempt that fails leaves as little.
func TestAnOpenThatFailsGivesEverythingBack(t *testing.T) {
	before := fabrictest.Resources()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	c := goodConfig()
	c.InitialMembers, c.Logger = 2, quiet
	if g, err := squall.Open(ctx, c); err == nil {
		g.Close(ctx)
		t.Error("a group of two has formed with one")
	}
	fabrictest.Settle(t, before)
}
