package schedule

import (
	"math"
	"testing"
)

var messages = []int64{math.MinInt64, -1, 0, 1, 4095, 16 << 10, 16<<10 + 1, 100_000, 1 << 20, 1<<20 + 1, 8 << 20, 64 << 20, 1 << 30, 5_000_000_001, 1 << 38, 1<<38 + 1, 1 << 40, math.MaxInt64}

func TestBlocksAreOfASizeThatIsAllowed(t *testing.T) {
	for _, nodes := range []int{0, 1, 2, 3, 8, 100, 1024} {
		for _, bytes := range messages {
			for _, racks := range [][]string{nil, labels(nodes, 4)} {
				a, size := Choose(nodes, bytes, racks)
				blocks := (max(bytes, 1)-1)/int64(size) + 1
				switch {
				case a == Auto:
					t.Errorf("%d bytes to %d nodes: auto stays auto", bytes, nodes)
				case size%blockUnit != 0 || size < minBlock:
					t.Errorf("%d bytes to %d nodes: blocks of %d", bytes, nodes, size)
				case size > maxBlock && bytes <= maxBlock*MaxBlocks:
					t.Errorf("%d bytes to %d nodes: blocks of %d", bytes, nodes, size)
				case blocks > MaxBlocks:
					t.Errorf("%d bytes to %d nodes: %d blocks", bytes, nodes, blocks)
				}
			}
		}
	}
}

func TestSmallerMessagesHaveNoLargerBlocks(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 8, 16, 64, 1024} {
		last := map[Algorithm]int{}
		for bytes := int64(1); bytes <= 1<<38; bytes *= 4 {
			a, size := Choose(nodes, bytes, nil)
			if size < last[a] {
				t.Errorf("%d nodes: %v of blocks of %d for %d bytes, of %d for fewer", nodes, a, size, bytes, last[a])
			}
			last[a] = size
		}
	}
}

func TestTheBlocksOfAMessageAreAboutEven(t *testing.T) {
	for bytes := int64(17_000); bytes < 1<<28; bytes = bytes*5/3 + 1 {
		_, size := Choose(8, bytes, nil)
		if left := bytes % int64(size); left > 0 && int64(size)-left > blockUnit*((bytes-1)/int64(size)+1) {
			t.Errorf("%d bytes: blocks of %d, the last one of %d", bytes, size, left)
		}
	}
}

func TestRacksMakeAHybrid(t *testing.T) {
	for _, bytes := range messages {
		if a, _ := Choose(16, bytes, labels(16, 4)); a != Hybrid {
			t.Errorf("%d bytes to 4 racks of 4: %v", bytes, a)
		}
		for _, racks := range [][]string{nil, labels(16, 16), labels(16, 1), {"a", "b"}} {
			if a, _ := Choose(16, bytes, racks); a == Hybrid {
				t.Errorf("%d bytes, racks %q: %v", bytes, racks, a)
			}
		}
	}
}

func TestWhatIsChosenHasTheBlocksOfItsAlgorithm(t *testing.T) {
	for _, nodes := range []int{2, 4, 16, 512} {
		for _, bytes := range messages {
			a, size := Choose(nodes, bytes, nil)
			if got := BlockBytes(a, nodes, bytes); got != size {
				t.Errorf("%d bytes to %d nodes by %v: blocks of %d, and of %d where it is given", bytes, nodes, a, size, got)
			}
			for a := Auto; a <= Hybrid; a++ {
				if got := BlockBytes(a, nodes, bytes); got < minBlock || (max(bytes, 1)-1)/int64(got) >= MaxBlocks {
					t.Errorf("%d bytes to %d nodes by %v: blocks of %d", bytes, nodes, a, got)
				}
			}
		}
	}
}

// The shape of what is chosen: few receivers of little are served by the root, few of much by a
// chain, many by a pipeline.
func TestWhatIsChosen(t *testing.T) {
	for _, c := range []struct {
		nodes int
		bytes int64
		want  Algorithm
	}{
		{3, 4 << 10, Sequential}, {8, 64 << 20, Chain}, {4, 1 << 30, Chain}, {64, 8 << 20, Pipeline}, {512, 256 << 20, Pipeline}, {1024, 1 << 20, Pipeline}, {1024, 1 << 36, Pipeline},
	} {
		if a, size := Choose(c.nodes, c.bytes, nil); a != c.want {
			t.Errorf("%d bytes to %d nodes: %v with blocks of %d, want %v", c.bytes, c.nodes, a, size, c.want)
		}
	}
}
