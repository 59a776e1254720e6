package schedule

import "math/bits"

// Sizes of blocks. All are multiples of blockUnit, so that in a buffer that begins at a page no
// block shares a page with another one.
const (
	blockUnit = 4 << 10
	minBlock  = 16 << 10
	maxBlock  = 4 << 20 // but for messages that would have more than MaxBlocks of them
)

// The model by which Choose compares schedules. A cost is expressed as the number of bytes that the
// link would have carried in the same time: only its ratio to the size of a block matters, so no
// rate has to be known.
const (
	// blockCost is lost with each block: its header, the calls that send and receive it, the
	// wake-ups around them.
	blockCost = 3 << 10
	// stepCost is lost where a step has to wait for the one before it: the way there, and the
	// thread that wakes up. While a pipeline is full the next block is there already, so it counts
	// only for the steps in which it fills or drains.
	stepCost = 24 << 10
	// switchPercent of each block are lost when consecutive blocks go to different nodes, and come
	// from different ones: each of many connections starts anew with each block, and a node that is
	// late holds up another one each time.
	switchPercent = 3
	// meetPercent of what a block has beyond heldBytes are lost in a pipeline: blocks of different
	// nodes meet at a receiver, and sockets hold so much of them.
	meetPercent = 10
	heldBytes   = 128 << 10
	// pairPercent of each block are lost where vertices of the pipeline are pairs: what one of them
	// gets it has to pass on in the next step, so that a node that is late holds up others at once.
	// It is less for small blocks, which sockets hold.
	pairPercent = 15
	// longestChain is as many nodes as a chain may have. Every block passes every link of it, so
	// one link at half the rate halves it for all behind, where a pipeline of n nodes uses a link
	// for one block in log n. The model knows no slow links; the more nodes, the likelier they are.
	longestChain = 32
)

// Choose says what Auto means for a message of so many bytes: the algorithm and the size of blocks
// that cost the least in the model above. Small messages get smaller blocks, and blocks of one
// message are about even, so that the last one is no crumb. With racks (one label for each rank) it
// is Hybrid wherever that is not the plain pipeline: labels say that what passes between racks is
// dear.
func Choose(nodes int, bytes int64, racks []string) (a Algorithm, blockBytes int) {
	best := -1.0
	for _, candidate := range candidatesFor(nodes, racks) {
		if size, c := cheapest(candidate, nodes, bytes); best < 0 || c < best {
			best, a, blockBytes = c, candidate, int(size)
		}
	}
	return a, blockBytes
}

// BlockBytes is the size of blocks that costs the least where the algorithm is given. Auto counts
// as the pipeline.
func BlockBytes(a Algorithm, nodes int, bytes int64) int {
	size, _ := cheapest(a, nodes, bytes)
	return int(size)
}

// cheapest tries sizes that double, and returns the best one with its cost.
func cheapest(a Algorithm, nodes int, bytes int64) (best int64, least float64) {
	nodes, bytes = max(nodes, 2), max(bytes, 1)
	for size := smallest(bytes); ; size *= 2 {
		block := even(bytes, size)
		if c := cost(a, nodes, ceil(bytes, block), block); best == 0 || c < least {
			best, least = block, c
		}
		if size >= bytes || size >= maxBlock {
			return best, least
		}
	}
}

// candidatesFor lists what is tried. The first one of equals is taken.
func candidatesFor(nodes int, racks []string) []Algorithm {
	switch {
	case len(racks) == nodes && divided(racks):
		return []Algorithm{Hybrid}
	case nodes <= longestChain:
		return []Algorithm{Sequential, Pipeline, Tree, Chain}
	}
	return []Algorithm{Sequential, Pipeline, Tree}
}

// smallest is the smallest size of blocks that is tried: a power of two, as minBlock and maxBlock
// are.
func smallest(bytes int64) int64 {
	return max(minBlock, int64(1)<<bits.Len64(uint64(ceil(bytes, MaxBlocks)-1)))
}

// even is the size of even blocks, as many as blocks of the given size would be.
func even(bytes, size int64) int64 { return max(minBlock, roundUp(ceil(bytes, ceil(bytes, size)))) }

func ceil(a, b int64) int64 { return (a-1)/b + 1 }

func roundUp(size int64) int64 { return ceil(size, blockUnit) * blockUnit }

// cost is how long a message takes in the model, in bytes. It is a float because it must compare
// for any size of message.
func cost(a Algorithm, nodes int, blocks, size int64) float64 {
	n, k, levels := float64(nodes), float64(blocks), float64(rounds(nodes))
	block := float64(size + blockCost)
	switched := block + float64(size)*switchPercent/100
	if a == Pipeline {
		switched += float64(max(0, size-heldBytes)) * meetPercent / 100
		if newCube(nodes, 1).paired() {
			switched += float64(size) * pairPercent / 100
		}
	}
	fill := block + stepCost // a step that waits for the one before; the first block waits to be read and summed
	switch a {
	case Sequential: // no node waits for another one
		return fill + k*(n-1)*block
	case Chain:
		return fill + k*block + (n-2)*fill
	case Tree: // each level waits for all of the one before it
		return fill + levels*k*block + (levels-1)*stepCost
	case Hybrid: // a leader sends every block twice
		return fill + 2*(k*switched+levels*fill)
	}
	return fill + k*switched + (levels-1)*fill
}
