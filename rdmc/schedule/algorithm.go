package schedule

import (
	"errors"
	"fmt"
	"math/bits"
)

// Algorithm is a way to get blocks from one node to all. The numbers travel in announcements and
// stay what they are.
type Algorithm uint8

const (
	Auto       Algorithm = iota // what fits: see Choose, and New
	Sequential                  // the root sends everything itself
	Chain                       // every node passes on to the next
	Tree                        // binomial tree, the whole message at each edge
	Pipeline                    // binomial pipeline
	Hybrid                      // a pipeline between racks and one within each
)

// ErrUnknown says that a name or number stands for no algorithm.
var ErrUnknown = errors.New("schedule: unknown algorithm")

var names = [...]string{"auto", "sequential", "chain", "tree", "pipeline", "hybrid"}

// Parse is the inverse of String.
func Parse(name string) (Algorithm, error) {
	for a, n := range names {
		if n == name {
			return Algorithm(a), nil
		}
	}
	return Auto, fmt.Errorf("%w %q: want one of %q", ErrUnknown, name, names)
}

func (a Algorithm) String() string {
	if int(a) < len(names) {
		return names[a]
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Steps is the number of steps that is published for an algorithm, racks aside: Hybrid counts as
// all nodes in one rack, Auto as the pipeline. Plan.Steps counts racks in. It is 0 where there is
// nothing to send.
func Steps(a Algorithm, nodes, blocks int) int {
	if nodes < 2 || blocks < 1 {
		return 0
	}
	switch a {
	case Sequential:
		return blocks * (nodes - 1)
	case Chain:
		return blocks + nodes - 2
	case Tree:
		return blocks * rounds(nodes)
	}
	return blocks + rounds(nodes) - 1
}

// rounds is how often a set of one must be doubled to have n elements: ⌈log2 n⌉.
func rounds(n int) int { return bits.Len(uint(n - 1)) }
