package schedule

import (
	"errors"
	"slices"
	"testing"
)

// FuzzPlan makes plans of larger groups and messages. SC1 to SC4 of all moves where they are few
// enough, otherwise of some ranks: they get every block once, what they send was here before, and
// both ends of a move know of it.
func FuzzPlan(f *testing.F) {
	f.Add(uint8(Pipeline), 1024, 5000, 0, 1)
	f.Add(uint8(Pipeline), 1023, 5000, 0, 700)
	f.Add(uint8(Pipeline), 513, 3, 0, 256)
	f.Add(uint8(Hybrid), 1000, 777, 37, 370)
	f.Add(uint8(Hybrid), 1000, 777, -37, 36)
	f.Add(uint8(Tree), 1000, 12, 0, 999)
	f.Add(uint8(Chain), 1024, 5000, 0, 1023)
	f.Add(uint8(Sequential), 1024, 50, 0, 5)
	f.Add(uint8(99), -1, 1<<40, 0, -1)
	f.Fuzz(func(t *testing.T, a uint8, nodes, blocks, racks, rank int) {
		if nodes > 1024 || blocks > 5000 {
			nodes, blocks = min(nodes, 1<<30), min(blocks, 1<<30)
			nodes, blocks = (nodes-1)%1024+1, (blocks-1)%5000+1
		}
		var in []string
		switch {
		case racks > 0 && nodes > 0:
			in = labels(nodes, racks)
		case racks < 0 && nodes > 0:
			in = dealt(nodes, max(1, -racks%1000))
		}
		p, err := New(Algorithm(a), nodes, blocks, in)
		if err != nil {
			if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrSize) {
				t.Fatalf("%v is no error of ours", err)
			}
			return
		}
		if nodes*blocks < 20_000 {
			if err := check(p); err != nil {
				t.Fatal(err)
			}
		}
		sampled(t, p, rank)
	})
}

// sampled looks at one rank, and at what its peers know of it.
func sampled(t *testing.T, p *Plan, rank int) {
	receives, sends := p.Receives(rank), p.Sends(rank)
	if rank < 0 || rank >= p.Nodes() {
		if len(receives)+len(sends) > 0 {
			t.Fatalf("%v: rank %d has a part", p, rank)
		}
		return
	}
	here := whole(t, p, rank, receives)
	for i, m := range sends {
		if here != nil && here[m.Block] >= m.Step {
			t.Fatalf("SC2: %v: %+v is sent before its sender has the block", p, m)
		}
		if i > 0 && m.Step <= sends[i-1].Step || int(m.Step) >= p.Steps() || int(m.From) != rank {
			t.Fatalf("SC3: %v: %+v follows %+v", p, m, sends[max(i, 1)-1])
		}
	}
	for _, m := range slices.Concat(few(receives), few(sends)) {
		if !slices.Contains(p.Receives(int(m.To)), m) || !slices.Contains(p.Sends(int(m.From)), m) {
			t.Fatalf("SC4: %v: one end of %+v does not know of it", p, m)
		}
	}
}

// whole checks that a rank gets every block once and returns when; nil for the root, which has them
// all.
func whole(t *testing.T, p *Plan, rank int, receives []Move) []int32 {
	if rank == 0 {
		if len(receives) > 0 {
			t.Fatalf("SC1: %v: the root is sent %+v", p, receives[0])
		}
		return nil
	}
	if len(receives) != p.Blocks() {
		t.Fatalf("SC1: %v: rank %d gets %d blocks", p, rank, len(receives))
	}
	here := make([]int32, p.Blocks())
	for i := range here {
		here[i] = none
	}
	for i, m := range receives {
		if here[m.Block] != none || int(m.To) != rank {
			t.Fatalf("SC1: %v: %+v comes to %d again", p, m, rank)
		}
		if i > 0 && m.Step <= receives[i-1].Step || int(m.Step) >= p.Steps() {
			t.Fatalf("SC3: %v: %+v follows %+v", p, m, receives[max(i, 1)-1])
		}
		here[m.Block] = m.Step
	}
	return here
}

// few are some moves out of many, the first and the last among them.
func few(moves []Move) (some []Move) {
	for i := 0; i < len(moves); i += 1 + len(moves)/8 {
		some = append(some, moves[i])
	}
	if len(moves) > 0 {
		some = append(some, moves[len(moves)-1])
	}
	return some
}
