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
// nothing, and nobody waits for it a second time.
func TestASenderWithoutRoomHoldsItsNullsForFewSteps(t *testing.T) {
	g := newGroup(t, 2, views.Ordered, multicast.Tuning{})
	for k := 0; g.send(0, "%d", k); k++ { // refused at the end
	}
	g.settle()
	g.send(1, "in the last round of the other one")
	g.settle()
	for round := range 3 {
		g.send(1, "%d", round)
		g.nodes[1].cycle()
		held := 0
		if round == 0 {
			held = multicast.HoldSteps
		}
		for step := range held {
			if g.nodes[0].cycle(); !g.nodes[0].Holding() {
				t.Fatalf("after step %d the loop would sleep on its nulls", step)
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

// While another sender's turn is missing before its own, nobody waits for what a sender without
// room has to send. It does not count the steps until then, and sleeps.
func TestASenderWithoutRoomHoldsItsNullsWhileAnEarlierTurnIsMissing(t *testing.T) {
	g := newGroup(t, 3, views.Ordered, multicast.Tuning{})
	n := g.nodes[0]
	for k := 0; g.send(0, "%01000d", k); k++ {
	}
	n.cycle()
	for g.send(1, "small") {
	}
	g.nodes[1].cycle()
	nulls := func() uint64 { return n.Stats.NullsSent.Load() }
	for range 3 * multicast.HoldSteps {
		if n.cycle(); n.Holding() || nulls() > 0 {
			t.Fatalf("the turn of the third sender is missing: %d nulls, holding: %v", nulls(), n.Holding())
		}
	}
	g.nodes[2].cycle()
	for range multicast.HoldSteps {
		if n.cycle(); !n.Holding() || nulls() > 0 {
			t.Fatalf("its own turn is missing: %d nulls, holding: %v", nulls(), n.Holding())
		}
	}
	if n.cycle(); n.Holding() || nulls() == 0 {
		t.Fatalf("after the last step: %d nulls, holding: %v", nulls(), n.Holding())
	}
	g.settle()
	g.same()
}

// A sender that publishes in every step, but less than the others, holds its nulls for as few steps
// all in all: it does not slow them down to its own pace.
func TestASlowSenderHoldsItsNullsForFewSteps(t *testing.T) {
	sg := views.Subgroup{Name: "a", Mode: views.Ordered, RingBytes: 4096, Window: 64}
	g := newGroupOf(t, sg, func(int, *multicast.Config) {}, 2, multicast.Tuning{})
	for k := range 60 {
		g.send(1, "%d", k)
	}
	g.nodes[1].cycle()
	publish := func() {
		for k := range 3 { // of 64: more than a 32nd of the window
			g.send(0, "%d", k)
		}
		g.nodes[0].cycle()
	}
	for step := range multicast.HoldSteps {
		publish()
		if nulls := g.nodes[0].Stats.NullsSent.Load(); nulls != 0 {
			t.Fatalf("%d nulls after step %d", nulls, step)
		}
	}
	publish()
	if nulls := g.nodes[0].Stats.NullsSent.Load(); nulls != 60-3*(multicast.HoldSteps+1) {
		t.Fatalf("%d nulls after the last step", nulls)
	}
	g.settle()
	if got := len(g.same()); got != 60+3*(multicast.HoldSteps+1) {
		t.Fatalf("%d messages were delivered", got)
	}
}

// A sender that is given space again holds its nulls for as long as before, although it begins with
// few messages: more are likely to follow.
func TestASenderThatBeginsWithFewMessagesHoldsItsNulls(t *testing.T) {
	sg := views.Subgroup{Name: "a", Mode: views.Ordered, RingBytes: 16384, Window: 64}
	g := newGroupOf(t, sg, func(int, *multicast.Config) {}, 2, multicast.Tuning{})
	n := g.nodes[0]
	fill := func(r int) {
		t.Helper()
		for k := 0; g.send(r, "%d", k); k++ {
			if k == 64 {
				t.Fatal("the window does not fill")
			}
		}
		g.nodes[r].cycle()
	}
	fill(0)
	fill(1)
	g.settle()
	fill(1)
	n.cycle()
	g.send(0, "few") // of 64: less than a 32nd of the window
	for step := 1; step < multicast.HoldSteps; step++ {
		if n.cycle(); !n.Holding() || n.Stats.NullsSent.Load() > 0 {
			t.Fatalf("step %d after it was given space: %d nulls, holding: %v", step, n.Stats.NullsSent.Load(), n.Holding())
		}
	}
	if n.cycle(); n.Holding() || n.Stats.NullsSent.Load() != 63 {
		t.Fatalf("after the last step: %d nulls, holding: %v", n.Stats.NullsSent.Load(), n.Holding())
	}
	g.settle()
	g.same()
}
