package multicast_test

import (
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// keeper is a receiver that keeps messages.
type keeper struct {
	*node
	kept []multicast.Message
	was  []string // their data, as they were taken
}

// Deliver implements multicast.Receiver.
func (k *keeper) Deliver(run []multicast.Message) int {
	taken := k.node.Deliver(run)
	for _, m := range run[:taken] {
		k.kept, k.was = append(k.kept, m), append(k.was, string(m.Data))
	}
	return taken
}

// Kept implements multicast.Keeper.
func (k *keeper) Kept() order.Seq {
	if len(k.kept) == 0 {
		return multicast.NoSeq
	}
	return k.kept[0].Seq
}

// LetGo implements multicast.Keeper.
func (k *keeper) LetGo() { k.forget(len(k.kept)) }

func (k *keeper) forget(n int) { k.kept, k.was = k.kept[n:], k.was[n:] }

// rest is settle, and has what waits for company pushed.
func (g *group) rest() {
	g.t.Helper()
	g.settle()
	for _, n := range g.nodes {
		n.Settle()
	}
	g.settle()
}

// newKeepers makes a group of two members, of which the second one keeps what it takes.
func newKeepers(t *testing.T, mode views.Mode) (*group, *keeper) {
	k := &keeper{}
	g := newGroupAfter(t, func(r int, cfg *multicast.Config) {
		if r == 1 {
			k.node = cfg.Receiver.(*node)
			cfg.Receiver, cfg.Keeper = k, k
		}
	}, 2, mode, multicast.Tuning{}, 0)
	return g, k
}

// M12: the room of messages that one member keeps is not used again by their sender, and everything
// is delivered all the same.
func TestMessagesStayAsTheyAreWhileTheyAreKept(t *testing.T) {
	g, k := newKeepers(t, views.Ordered)
	sent := 0
	for ; g.send(0, "%03d%s", sent, strings.Repeat("x", 200)); sent++ {
	}
	g.settle()
	if len(g.same()) != sent || len(k.kept) != sent {
		t.Fatalf("of %d messages %d are delivered, and %d kept", sent, len(g.nodes[0].log), len(k.kept))
	}
	if g.send(0, "more") {
		t.Fatal("there is room, and all messages are kept")
	}
	for ; sent < 100; sent++ {
		k.forget(1)
		g.rest()
		if !g.send(0, "%03d%s", sent, strings.Repeat("y", 100)) {
			t.Fatalf("no room for message %d where one was let go", sent)
		}
		if g.send(0, "more") {
			t.Fatal("there is room for more than what was let go")
		}
		g.settle()
		for i, m := range k.kept {
			if string(m.Data) != k.was[i] {
				t.Fatalf("seq %d changed from %s to %s", m.Seq, k.was[i], m.Data)
			}
		}
	}
	if delivered := g.nodes[1].Delivered(); delivered != order.Seq(sent) || len(g.same()) != sent {
		t.Errorf("of %d messages %d are delivered", sent, delivered)
	}
	k.LetGo()
	g.rest()
	if g.nodes[0].Sender.InUse() != 0 {
		t.Error("room is in use, and nothing is kept")
	}
}

// What is kept of a view is let go before its memory goes, once.
func TestAReceiverLetsGoWhatItKeepsOfAView(t *testing.T) {
	for name, end := range map[string]func(*multicast.Subgroup){"delivered": (*multicast.Subgroup).LetGo, "halted": (*multicast.Subgroup).Drop} {
		g, k := newKeepers(t, views.Ordered)
		g.send(0, "a")
		g.settle()
		g.nodes[1].Wedge()
		g.nodes[1].Subgroup.Deliver()
		if len(k.kept) != 1 {
			t.Fatalf("%s: %d messages are kept", name, len(k.kept))
		}
		end(k.Subgroup)
		if len(k.kept) != 0 {
			t.Errorf("%s: %d messages are kept", name, len(k.kept))
		}
		k.kept, k.was = make([]multicast.Message, 1), make([]string, 1) // of the next view
		if k.Drop(); len(k.kept) != 1 {
			t.Errorf("%s: what is kept of the next view is let go with this one", name)
		}
	}
}

// In the other modes room is not held for a receiver.
func TestOnlyOrderedMessagesAreKept(t *testing.T) {
	g, k := newKeepers(t, views.Unordered)
	g.send(0, "a")
	g.rest()
	if len(k.kept) != 1 || g.nodes[0].Sender.InUse() != 0 {
		t.Errorf("%d messages are kept, and %d hold room", len(k.kept), g.nodes[0].Sender.InUse())
	}
}
