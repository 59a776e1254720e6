package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// The formula of DSN 2018 §4.4, as literally as it can be written: rotations of strings of binary
// digits.
func published(nodes, dims, blocks, node, step int) (block, to int) {
	digits := fmt.Sprintf("%0*b", dims, node)
	shift := step % dims
	rotated, _ := strconv.ParseInt(digits[dims-shift:]+digits[:dims-shift], 2, 64)
	to = node ^ 1<<shift
	zeros := 0
	for n := rotated; n > 0 && n%2 == 0; n /= 2 {
		zeros++
	}
	switch {
	case node == 0:
		return min(step, blocks-1), to
	case rotated != 1 && step-dims+zeros >= 0:
		return min(step-dims+zeros, blocks-1), to
	}
	return none, to
}

func TestTheClosedFormulaIsThePlan(t *testing.T) {
	for dims := 1; dims <= 7; dims++ {
		nodes := 1 << dims
		for _, blocks := range []int{1, 2, 3, 4, 5, 8, 13, 40} {
			var want []Move
			for step := range dims + blocks - 1 {
				for node := range nodes {
					if block, to := published(nodes, dims, blocks, node, step); block != none {
						want = append(want, Move{int32(step), int32(node), int32(to), int32(block)})
					}
				}
			}
			p := mustNew(t, Pipeline, nodes, blocks, nil)
			if got := slices.Collect(p.All()); !slices.Equal(got, want) {
				t.Fatalf("%v: %v, want %v", p, got, want)
			}
		}
	}
}

// The rule in words: along direction j % l each node sends the highest block that it had before
// step j, unless it has none or its neighbour is the root; the root sends block j, or the last one.
func TestEachVertexSendsTheHighestBlockItHas(t *testing.T) {
	for dims := 1; dims <= 6; dims++ {
		nodes := 1 << dims
		for blocks := 1; blocks <= 20; blocks++ {
			highest := slices.Repeat([]int{none}, nodes)
			p := mustNew(t, Pipeline, nodes, blocks, nil)
			got := slices.Collect(p.All())
			for step := range p.Steps() {
				highest[0] = min(step, blocks-1)
				before := slices.Clone(highest)
				for node := range nodes {
					to := node ^ 1<<(step%dims)
					if to == 0 || before[node] == none {
						continue
					}
					want := Move{int32(step), int32(node), int32(to), int32(before[node])}
					if len(got) == 0 || got[0] != want {
						t.Fatalf("%v: want %+v, then %v", p, want, got[:min(2, len(got))])
					}
					got = got[1:]
					highest[to] = max(highest[to], before[node])
				}
			}
			if len(got) > 0 {
				t.Fatalf("%v: %v are too many", p, got)
			}
		}
	}
}

// DSN 2018 §4.5: in a steady step the senders other than the root got what they send 2(1 −
// (l−1)/(n−2)) steps ago on average. It is compared without division. A steady step is one after
// the first l in which the root still has a new block.
func TestTheAverageSlackIsThePublishedOne(t *testing.T) {
	const blocks = 40
	for dims := 2; dims <= 8; dims++ {
		nodes := 1 << dims
		p := mustNew(t, Pipeline, nodes, blocks, nil)
		arrived := make([]int, nodes*blocks)
		slack, senders := make([]int, p.Steps()), make([]int, p.Steps())
		for m := range p.All() {
			arrived[int(m.To)*blocks+int(m.Block)] = int(m.Step)
			if m.From != 0 {
				slack[m.Step] += int(m.Step) - arrived[int(m.From)*blocks+int(m.Block)]
				senders[m.Step]++
			}
		}
		for step := dims; step < blocks; step++ {
			if senders[step] != nodes-2 {
				t.Fatalf("%v: %d send in step %d", p, senders[step], step)
			}
			if want := 2 * (nodes - 2 - (dims - 1)); slack[step] != want {
				t.Fatalf("%v: slack of %d/%d in step %d, want %d/%d", p, slack[step], senders[step], step, want, nodes-2)
			}
		}
	}
}

func TestAPipelineOfOneBlockIsATree(t *testing.T) {
	for nodes := 2; nodes <= 64; nodes++ {
		pipeline, tree := mustNew(t, Pipeline, nodes, 1, nil), mustNew(t, Tree, nodes, 1, nil)
		if pipeline.Steps() != tree.Steps() {
			t.Errorf("%v, %v", pipeline, tree)
		}
		if nodes&(nodes-1) == 0 && !slices.Equal(slices.Collect(pipeline.All()), slices.Collect(tree.All())) {
			t.Errorf("%v differs from %v", pipeline, tree)
		}
	}
}

// A node outside of a pair cannot tell the pair from one node: between vertices the plan equals the
// plan for the power of two.
func TestAPairActsAsOneNode(t *testing.T) {
	for nodes := 3; nodes <= 70; nodes++ {
		for _, blocks := range []int{1, 2, 3, 7, 19} {
			c := newCube(nodes, blocks)
			if !c.paired() {
				continue
			}
			p, single := mustNew(t, Pipeline, nodes, blocks, nil), mustNew(t, Pipeline, c.vertices(), blocks, nil)
			var seen []Move
			for m := range p.All() {
				from, _ := c.vertexOf(int(m.From))
				to, _ := c.vertexOf(int(m.To))
				if from != to {
					seen = append(seen, Move{m.Step, int32(from), int32(to), m.Block})
				}
			}
			slices.SortFunc(seen, func(a, b Move) int { return int(a.Step-b.Step)*nodes + int(a.From-b.From) })
			if want := slices.Collect(single.All()); !slices.Equal(seen, want) {
				t.Fatalf("%v: between vertices %v, want %v", p, seen, want)
			}
		}
	}
}

func TestABlockIsEverywhereSoonAfterItsStep(t *testing.T) {
	for nodes := 2; nodes <= 130; nodes++ {
		for _, blocks := range []int{1, 2, 3, 9, 30} {
			p := mustNew(t, Pipeline, nodes, blocks, nil)
			for m := range p.All() {
				if delay := newCube(nodes, blocks).delay(); int(m.Step-m.Block) > delay {
					t.Fatalf("%v: %+v is more than %d late", p, m, delay)
				}
			}
		}
	}
}
