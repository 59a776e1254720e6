package schedule

import (
	"fmt"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
)

// labels puts so many nodes into racks of so many.
func labels(nodes, perRack int) []string {
	racks := make([]string, nodes)
	for rank := range racks {
		racks[rank] = fmt.Sprint("rack ", rank/perRack)
	}
	return racks
}

// dealt deals the nodes out to so many racks in turn, so that no rack has neighbours.
func dealt(nodes, racks int) []string {
	labels := make([]string, nodes)
	for rank := range labels {
		labels[rank] = fmt.Sprint("rack ", rank%racks)
	}
	return labels
}

func mustNew(t testing.TB, a Algorithm, nodes, blocks int, racks []string) *Plan {
	t.Helper()
	p, err := New(a, nodes, blocks, racks)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// check executes SC1 to SC4 on a plan.
func check(p *Plan) error {
	if err := checkMoves(p); err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	if err := checkViews(p); err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	return nil
}

// checkMoves executes SC1, SC2, SC3 and half of SC5: the last step has a move.
func checkMoves(p *Plan) error {
	const never = -1
	arrived := make([]int32, p.Nodes()*p.Blocks())
	for i := range arrived {
		arrived[i] = never
	}
	sent, received := make([]int32, p.Nodes()), make([]int32, p.Nodes())
	for i := range sent {
		sent[i], received[i] = never, never
	}
	count, last := 0, Move{Step: never}
	for m := range p.All() {
		at := func(rank int32) *int32 { return &arrived[int(rank)*p.Blocks()+int(m.Block)] }
		switch {
		case m.Step < last.Step || m.Step == last.Step && m.From <= last.From:
			return fmt.Errorf("SC4: %+v follows %+v", m, last)
		case m.To == 0 || m.From == m.To:
			return fmt.Errorf("SC1: %+v goes where the block is", m)
		case *at(m.To) != never:
			return fmt.Errorf("SC1: %+v comes again", m)
		case m.From != 0 && (*at(m.From) == never || *at(m.From) >= m.Step):
			return fmt.Errorf("SC2: %+v is sent before its sender has the block", m)
		case sent[m.From] == m.Step || received[m.To] == m.Step:
			return fmt.Errorf("SC3: %+v is the second of its step", m)
		}
		*at(m.To), sent[m.From], received[m.To] = m.Step, m.Step, m.Step
		last = m
		count++
	}
	if want := p.Blocks() * (p.Nodes() - 1); count != want {
		return fmt.Errorf("SC1: %d moves, want %d", count, want)
	}
	if int(last.Step) != p.Steps()-1 {
		return fmt.Errorf("SC5: the last move is in step %d", last.Step)
	}
	return nil
}

// checkViews executes SC4: what each rank computes for itself is its share of all moves.
func checkViews(p *Plan) error {
	sends, receives := make([][]Move, p.Nodes()), make([][]Move, p.Nodes())
	for rank := range sends {
		sends[rank], receives[rank] = p.Sends(rank), p.Receives(rank)
	}
	for m := range p.All() {
		if s := sends[m.From]; len(s) == 0 || s[0] != m {
			return fmt.Errorf("SC4: sender %d does not know of %+v", m.From, m)
		}
		if r := receives[m.To]; len(r) == 0 || r[0] != m {
			return fmt.Errorf("SC4: receiver %d does not know of %+v", m.To, m)
		}
		sends[m.From], receives[m.To] = sends[m.From][1:], receives[m.To][1:]
	}
	for rank := range sends {
		if len(sends[rank])+len(receives[rank]) > 0 {
			return fmt.Errorf("SC4: rank %d expects %v and %v, which no other rank does", rank, sends[rank], receives[rank])
		}
	}
	return nil
}

// sizes calls visit with every number of nodes and blocks of the exhaustive tests.
func sizes(visit func(nodes, blocks int)) {
	maxNodes, maxBlocks := 33, 40
	if testing.Short() {
		maxNodes, maxBlocks = 17, 12
	}
	for nodes := 1; nodes <= maxNodes; nodes++ {
		for blocks := 1; blocks <= maxBlocks; blocks++ {
			visit(nodes, blocks)
		}
	}
}

// SC1 to SC5, exhaustively.
func TestEveryNodeGetsEveryBlockOnceInThePublishedSteps(t *testing.T) {
	for _, a := range []Algorithm{Auto, Sequential, Chain, Tree, Pipeline, Hybrid} {
		t.Run(a.String(), func(t *testing.T) {
			sizes(func(nodes, blocks int) {
				p := mustNew(t, a, nodes, blocks, nil)
				if err := check(p); err != nil {
					t.Fatal(err)
				}
				if want := Steps(a, nodes, blocks); p.Steps() != want {
					t.Fatalf("SC5: %v; published are %d", p, want)
				}
			})
		})
	}
}

// SC1 to SC5 for racks of every size, in a row and mixed.
func TestEveryNodeInEveryRackGetsEveryBlockOnce(t *testing.T) {
	sizes(func(nodes, blocks int) {
		for n := 1; n <= nodes; n++ {
			if blocks > 8 && (n+blocks)%testutil.Seeds(15, 5) != 0 { // all sizes come up, not in all combinations
				continue
			}
			for _, racks := range [][]string{labels(nodes, n), dealt(nodes, n)} {
				p := mustNew(t, Hybrid, nodes, blocks, racks)
				if err := check(p); err != nil {
					t.Fatalf("racks of %d: %v", n, err)
				}
				if most := 2 * (blocks + 2*rounds(nodes)); p.Steps() > most {
					t.Fatalf("SC5: %v with %q: want at most %d", p, racks, most)
				}
			}
		}
	})
}

func TestStepsAreThoseOfThePapers(t *testing.T) {
	for _, c := range []struct {
		a                    Algorithm
		nodes, blocks, steps int
	}{
		{Sequential, 8, 3, 21}, {Chain, 8, 3, 9}, {Tree, 8, 3, 9}, {Pipeline, 8, 3, 5}, {Tree, 8, 1, 3}, {Pipeline, 8, 1, 3},
		{Pipeline, 13, 9, 3 + 9}, {Pipeline, 16, 9, 4 + 9 - 1}, {Pipeline, 1024, 512, 10 + 512 - 1}, {Pipeline, 1023, 512, 9 + 512},
		{Pipeline, 2, 7, 7}, {Pipeline, 3, 7, 8}, {Hybrid, 8, 3, 5}, {Auto, 8, 3, 5}, {Pipeline, 1, 5, 0}, {Pipeline, 5, 0, 0},
	} {
		if got := Steps(c.a, c.nodes, c.blocks); got != c.steps {
			t.Errorf("%v of %d blocks to %d nodes: %d steps, want %d", c.a, c.blocks, c.nodes, got, c.steps)
		}
	}
}

// A hybrid of 4 racks of 4: all is over when the last rack is, which starts delay steps of its
// pipeline late.
func TestAHybridTakesTwiceTheStepsOfItsPipelines(t *testing.T) {
	p := mustNew(t, Hybrid, 16, 100, labels(16, 4))
	if want := 2 * (100 + 2 + 2 - 1); p.Steps() != want {
		t.Fatalf("%v, want %d", p, want)
	}
}

func TestABlockEntersARackOnce(t *testing.T) {
	for _, racks := range [][]string{labels(24, 5), dealt(24, 5), labels(24, 24), dealt(24, 24)} {
		p := mustNew(t, Hybrid, 24, 10, racks)
		entered := map[string]int{}
		for m := range p.All() {
			if from, to := racks[m.From], racks[m.To]; from != to {
				entered[to]++
			}
		}
		if entered[racks[0]] != 0 {
			t.Errorf("%d blocks come back to the root's rack", entered[racks[0]])
		}
		for _, label := range slices.Compact(slices.Sorted(slices.Values(racks))) {
			if label != racks[0] && entered[label] != p.Blocks() {
				t.Errorf("%d blocks enter %s, want %d", entered[label], label, p.Blocks())
			}
		}
	}
}

func TestAllMayBeLeftEarly(t *testing.T) {
	seen := 0
	for range mustNew(t, Pipeline, 8, 8, nil).All() {
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Fatal(seen)
	}
}

func TestARankOutsideOfThePlanHasNoPart(t *testing.T) {
	for _, a := range []Algorithm{Sequential, Chain, Tree, Pipeline, Hybrid} {
		p := mustNew(t, a, 5, 3, labels(5, 2))
		for _, rank := range []int{-1, 5, 1 << 40} {
			if p.Sends(rank) != nil || p.Receives(rank) != nil {
				t.Errorf("%v: rank %d has a part", p, rank)
			}
		}
	}
}
