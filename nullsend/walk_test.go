package nullsend

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/order"
)

// group is a subgroup of any size that takes steps from bytes: the exploration's world without its
// bounds. Nodes receive batches here, and pay once per batch.
type group struct {
	turns         order.Turns
	sent, skipped []order.Index
	got           [][]order.Index
	real          order.Seq // half-open: one past the highest position that holds an application's message
}

func newGroup(senders int) *group {
	g := &group{turns: order.Turns(senders), sent: make([]order.Index, senders), skipped: make([]order.Index, senders)}
	for range senders {
		g.got = append(g.got, make([]order.Index, senders))
	}
	return g
}

// step interprets three bytes: the action, the acting sender, and its peer or a distance.
func (g *group) step(what, who, arg byte) {
	r, s := int(who)%len(g.sent), int(arg)%len(g.sent)
	switch what % 8 {
	case 0, 1:
		g.send(r)
	case 2:
		g.skipped[r] = g.count(r) + 1 + order.Index(arg%16)
	case 3:
		g.receiveAll(r)
	default:
		g.got[r][s] += min(g.sent[s]-g.got[r][s], 1+order.Index(what/8))
		g.pay(r)
	}
}

func (g *group) send(r int) {
	index := g.count(r)
	g.sent[r] = index + 1
	g.real = max(g.real, g.turns.Seq(index, order.SenderRank(r))+1)
}

func (g *group) receiveAll(r int) {
	copy(g.got[r], g.sent)
	g.pay(r)
}

func (g *group) pay(r int) {
	if owed := Owed(order.SenderRank(r), g.count(r), g.got[r]); owed > 0 {
		g.sent[r] = g.count(r) + owed
	}
}

func (g *group) count(r int) order.Index { return Count(g.sent[r], g.skipped[r]) }

// drain lets all senders receive until none sends any more, and returns the number of rounds, or
// false if it does not end. Nulls fill gaps below the last message, so that each round in which
// something happens fills at least one.
func (g *group) drain() (rounds int, ok bool) {
	for limit := int(g.real) + 2; rounds < limit; rounds++ {
		before := g.total()
		for r := range g.sent {
			g.receiveAll(r)
		}
		if g.total() == before {
			return rounds, true
		}
	}
	return rounds, false
}

func (g *group) total() (n order.Index) {
	for _, c := range g.sent {
		n += c
	}
	return n
}

// checkWalk plays the bytes and checks N4 after each step, N1, N2 and N3 after the last.
func checkWalk(senders int, steps []byte) error {
	g := newGroup(senders)
	for ; len(steps) >= 3; steps = steps[3:] {
		g.step(steps[0], steps[1], steps[2])
		if err := g.checkNeed(); err != nil {
			return err
		}
	}
	if rounds, ok := g.drain(); !ok {
		return fmt.Errorf("N1: nulls are still sent after %d rounds: %v", rounds, g)
	}
	return errors.Join(g.checkNeed(), g.checkEnd())
}

func (g *group) checkNeed() error {
	for s, c := range g.sent {
		if reach := g.turns.CountBefore(g.real, order.SenderRank(s)); c > reach {
			return fmt.Errorf("N4: sender %d needs %d turns before the last message: %v", s, reach, g)
		}
	}
	return nil
}

func (g *group) checkEnd() error {
	counts := make([]order.Index, len(g.sent))
	for s := range counts {
		counts[s] = g.count(s)
		reach := g.turns.CountBefore(g.real, order.SenderRank(s))
		if counts[s] < reach || g.skipped[s] == 0 && counts[s] != reach {
			return fmt.Errorf("N3: sender %d took %d turns, want %d: %v", s, counts[s], reach, g)
		}
	}
	if received := g.turns.Received(counts); received < g.real {
		return fmt.Errorf("N2: the order stalls at %d: %v", received, g)
	}
	return nil
}

func (g *group) String() string {
	return fmt.Sprintf("%d senders, sent %v, skipped %v, last message below position %d", g.turns, g.sent, g.skipped, g.real)
}

func TestRandomWalksOfUpToSixteenSendersEndQuietAndComplete(t *testing.T) {
	walks := uint64(20_000)
	if testing.Short() {
		walks = 500
	}
	for seed := range walks {
		rng := rand.New(rand.NewPCG(seed, 0))
		steps := make([]byte, 3*rng.IntN(200))
		for i := range steps {
			steps[i] = byte(rng.Uint32())
		}
		if err := checkWalk(1+rng.IntN(16), steps); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func FuzzWalk(f *testing.F) {
	f.Add(byte(2), []byte{0, 1, 0, 4, 0, 1, 3, 0, 0})
	f.Add(byte(3), []byte{0, 2, 0, 2, 0, 5, 4, 0, 2, 0, 0, 0, 3, 1, 0})
	f.Add(byte(15), []byte{0, 15, 0, 0, 15, 0, 3, 0, 0, 12, 7, 15, 2, 3, 9, 1, 3, 0})
	f.Fuzz(func(t *testing.T, senders byte, steps []byte) {
		if err := checkWalk(1+int(senders%16), steps); err != nil {
			t.Fatal(err)
		}
	})
}
