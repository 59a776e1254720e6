package squall_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// spoil writes garbage into a member's own row and pushes it to the others until stop is true. It
// leaves the suspicions alone: the other members believe a well-formed suspicion.
func spoil(table *fabric.Table, v *views.View, draw *rand.Rand, stop *atomic.Bool) error {
	layout, err := member.NewLayout(v)
	if err != nil {
		return err
	}
	self := table.Self()
	shape, row := layout.Shape(self), table.Row(self)
	const heartbeat, suspected = fabric.LineBytes, 2 * fabric.LineBytes // the words begin the second and the third line
	var to []order.Rank
	for r := range order.Rank(len(v.Members)) {
		to = append(to, r)
	}
	number := func(now uint64) uint64 {
		return []uint64{0, draw.Uint64(), now + draw.Uint64N(100), now - draw.Uint64N(100), 1 << draw.IntN(64), now + draw.Uint64N(1<<41)}[draw.IntN(6)]
	}
	for !stop.Load() {
		for range 1 + draw.IntN(4) {
			if off := 8 * draw.IntN(shape.ControlBytes/8); off != suspected {
				word := fabric.Word(row, off)
				*word = number(*word)
			}
		}
		off := shape.ControlBytes + 8*draw.IntN((shape.RowBytes-shape.ControlBytes)/8)
		n := min(1+draw.IntN(1000), shape.RowBytes-off)
		for i := range n {
			row[off+i] = byte(draw.Uint32())
		}
		table.Push(to, off, n)
		if draw.IntN(2) == 0 { // it seems to live
			*fabric.Word(row, heartbeat)++
		}
		for off := 0; off < shape.ControlBytes; off += fabric.LineBytes {
			if draw.IntN(4) > 0 {
				table.PushLine(to, off)
			}
		}
		table.Poll()
		table.Flush()
		time.Sleep(time.Millisecond) // the others are to see many states of it, and to have processors
	}
	return nil
}

// TestAMemberThatSpoilsItsSharedOrSentRowIsLeftBehind has one member write garbage into its row
// over real links, while the others send.
func TestAMemberThatSpoilsItsSharedOrSentRowIsLeftBehind(t *testing.T) {
	for name, mode := range map[string]squall.Fabric{"shm": squall.FabricSHM, "tcp": squall.FabricTCP} {
		t.Run(name, func(t *testing.T) {
			seed := testutil.Seed(t)
			for k := range uint64(3) {
				spoiledRow(t, mode, seed+k)
			}
		})
	}
}

func spoiledRow(t *testing.T, mode squall.Fabric, seed uint64) {
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	const n, messages = 4, 50
	draw := rand.New(rand.NewPCG(seed, 1))
	evil := draw.IntN(n)
	var mu sync.Mutex
	got := make([][]string, n) // what the others sent
	groups := cluster(t, n, func(i int, c *squall.Config) {
		c.Cluster = fmt.Sprint(t.Name(), seed)
		c.Fabric, c.Heartbeat, c.FailAfter = mode, 20*time.Millisecond, 2*time.Second
		c.Subgroups = []squall.SubgroupConfig{{Name: "a", RingBytes: 16 << 10, Deliver: func(m squall.Message) {
			mu.Lock()
			defer mu.Unlock()
			if m.Sender != squall.NodeID(evil+1) {
				got[i] = append(got[i], fmt.Sprint(m.Sender, string(m.Data)))
			}
		}}}
	})
	defer closeAll(groups...)
	v := groups[0].View()
	var stop atomic.Bool
	var failed error
	spoiled := make(chan struct{})
	var sending sync.WaitGroup
	for i, g := range groups {
		if i == evil {
			continue
		}
		sending.Go(func() {
			for k := range messages {
				if k == messages/5 && i == (evil+1)%n {
					groups[evil].Spoil(func(table *fabric.Table) {
						defer close(spoiled)
						failed = spoil(table, v, draw, &stop)
					})
				}
				sub, err := g.Subgroup("a")
				if err == nil {
					err = sub.Send(t.Context(), fmt.Append(nil, " ", k))
				}
				if err != nil {
					t.Errorf("node %d: %v", i+1, err)
					return
				}
			}
		})
	}
	sending.Wait()
	for i, g := range groups {
		if i == evil {
			continue
		}
		eventually(t, "a view without the one that spoils its row", func() bool { return g.Err() != nil || len(g.View().Members) < n })
		if err := g.Err(); err != nil || len(g.View().Members) != n-1 {
			t.Errorf("node %d: %d members, %v; node %d spoils its row", i+1, len(g.View().Members), err, evil+1)
			continue
		}
		eventually(t, "all messages of the others", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(got[i]) >= messages*(n-1)
		})
	}
	stop.Store(true)
	<-spoiled
	if failed != nil {
		t.Error(failed)
	}
	mu.Lock()
	defer mu.Unlock()
	first := got[(evil+1)%n]
	for i := range n {
		if i != evil && (len(got[i]) != messages*(n-1) || !slices.Equal(got[i], first)) {
			t.Errorf("node %d delivered %d messages, or in another order than node %d, which delivered %d", i+1, len(got[i]), (evil+1)%n+1, len(first))
		}
	}
}
