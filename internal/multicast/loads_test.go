//go:build mutants

package multicast_test

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// atLoad runs step, and between before the load number k of a shared word in it. It reports whether
// the step had so many loads.
func atLoad(k int, step func(), between func()) (reached bool) {
	n := 0
	sst.BeforeLoad = func(*sst.Line) {
		if n++; n == k+1 {
			hook := sst.BeforeLoad
			sst.BeforeLoad = nil // what others load meanwhile does not count
			between()
			sst.BeforeLoad, reached = hook, true
		}
	}
	defer func() { sst.BeforeLoad = nil }()
	step()
	return reached
}

// arrive lets what a member pushed be visible to another one, in the middle of a step of that.
func (g *group) arrive(from, to int) {
	g.nodes[from].cycle()
	g.nodes[to].table.Poll()
}

// N5: a message and a skip behind it become visible between two loads of a step, which is the last
// one of the view. If skipped were loaded after sent, the message would count as a null that every
// member has.
func TestAMessageBeforeASkipIsNoNullWhateverIsLoadedBetween(t *testing.T) {
	loads := 0
	for reached := true; reached; loads++ {
		g := newGroup(t, 2, views.Unordered, multicast.Tuning{})
		g.send(1, "first")
		g.settle()
		reached = atLoad(loads, func() { g.nodes[0].Exchange() }, func() {
			g.send(1, "second")
			g.arrive(1, 0)
			g.nodes[1].Skip(5)
			g.arrive(1, 0)
		})
		for _, n := range g.nodes {
			n.Wedge()
		}
		var trim []order.Index
		for k := range g.nodes {
			trim = append(trim, min(g.nodes[0].Reach()[k], g.nodes[1].Reach()[k]))
		}
		for _, n := range g.nodes {
			if err := n.Trim(trim); err != nil {
				t.Fatal(err)
			}
			for !n.Finished() {
				n.Subgroup.Deliver()
			}
		}
		want := "[2:first]"
		if trim[1] > 1 {
			want = "[2:first 2:second]"
		}
		if got := fmt.Sprint(g.nodes[0].log); got != want {
			t.Errorf("N5: load %d: the trim of the sender is %d, and %s was delivered", loads, trim[1], got)
		}
	}
	if loads < 3 {
		t.Errorf("%d loads in a step", loads)
	}
}

// M1, M11: whatever a member does between two loads of another one's step, that one takes it for
// correct.
func TestProgressBetweenTwoLoadsIsNoViolation(t *testing.T) {
	for _, mode := range []views.Mode{views.Ordered, views.Unordered, views.Persistent} {
		loads := 0
		for reached := true; reached; loads++ {
			g := newGroupAfter(t, func(_ int, cfg *multicast.Config) {
				cfg.Clock = func() order.Time { return 1 }
			}, 3, mode, multicast.Tuning{})
			send := func(r int) {
				c, ok := g.nodes[r].Sender.Claim(16)
				if !ok {
					t.Fatal("no room")
				}
				if err := g.nodes[r].Sender.Commit(c); err != nil {
					t.Fatal(err)
				}
			}
			others := func() {
				for _, r := range []int{1, 2, 1, 2, 1, 2} {
					send(r)
					g.nodes[r].cycle()
					if mode == views.Persistent {
						g.nodes[r].Persist(g.nodes[r].Delivered(), true)
					}
					g.nodes[r].Settle()
					g.nodes[r].table.Flush()
				}
				g.nodes[0].table.Poll()
			}
			g.settle()
			for _, r := range []int{1, 0, 2} { // rank 1 is behind: it has seen nothing of the others' answers
				send(r)
				g.nodes[r].cycle()
			}
			for range 5 {
				g.nodes[0].cycle()
				g.nodes[2].cycle()
			}
			reached = atLoad(loads, func() {
				g.nodes[0].Exchange()
				g.nodes[0].Subgroup.Deliver()
				g.nodes[0].Everywhere()
			}, others)
			g.settle()
			for r, n := range g.nodes {
				if f := n.table.Failures(); len(f) > 0 {
					t.Errorf("%v, load %d: rank %d: %v", mode, loads, r, f)
				}
				if got, first := fmt.Sprint(n.log), fmt.Sprint(g.nodes[0].log); mode != views.Unordered && got != first {
					t.Errorf("%v, load %d: rank %d delivered %s, rank 0 %s", mode, loads, r, got, first)
				}
			}
		}
		if loads < 5 {
			t.Errorf("%v: %d loads in a step", mode, loads)
		}
	}
}
