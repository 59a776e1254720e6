package multicast_test

import (
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/views"
)

// A sender that was refused room is likely to send as soon as there is some. So it holds the nulls
// that it owes, for a few steps: the messages that follow take their turns, and no order consists
// of nulls by half because senders fill their windows in turn.
func TestASenderWithoutRoomHoldsItsNulls(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
	fill := func(r int) {
		t.Helper()
		for k := 0; g.send(r, "%d", k); k++ {
			if k == 8 {
				t.Fatal("the window does not fill")
			}
		}
	}
	fill(0)
	fill(1)
	for range 4 {
		g.settle()
		before := len(g.same())
		fill(1)
		g.nodes[1].cycle()
		g.nodes[0].cycle() // it owes nulls for all of these
		fill(0)
		g.settle()
		if got := len(g.same()) - before; got != 16 {
			t.Fatalf("%d messages were delivered in a round, want two windows", got)
		}
	}
	for r, n := range g.nodes {
		if nulls := n.Stats.NullsSent.Load(); nulls != 0 {
			t.Errorf("rank %d, which always had something to send, sent %d nulls", r, nulls)
		}
	}
}

// The bound is in steps: nobody waits longer for a sender that was refused room and then sends
// nothing.
func TestASenderWithoutRoomHoldsItsNullsForFewSteps(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
	for k := 0; g.send(0, "%d", k); k++ { // refused at the end
	}
	g.settle()
	g.send(1, "in the last round of the other one")
	g.settle()
	for round := range 3 { // each time anew
		g.send(1, "%d", round)
		g.nodes[1].cycle()
		for step := range multicast.StarvedSteps {
			if g.nodes[0].cycle() == 0 {
				t.Fatalf("step %d reports no work: the loop would sleep on its nulls", step)
			}
			if nulls := g.nodes[0].Stats.NullsSent.Load(); nulls != uint64(round) {
				t.Fatalf("round %d: %d nulls after step %d", round, nulls, step)
			}
		}
		g.nodes[0].cycle()
		if nulls := g.nodes[0].Stats.NullsSent.Load(); nulls != uint64(round)+1 {
			t.Fatalf("round %d: %d nulls after the last step", round, nulls)
		}
		g.settle()
	}
	if got := len(g.same()); got != 8+1+3 {
		t.Fatalf("%d messages were delivered, want 12", got)
	}
}
