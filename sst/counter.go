package sst

import (
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Counter is a column of counters: the word of a line that holds it, and the type of what it
// counts. As a constant it costs nothing.
type Counter[T ~uint64] int

// Load reads a counter of any row. What its owner stored and pushed before is visible after it.
func (c Counter[T]) Load(line *Line) T { return T(load(&line[c], line)) }

// Store publishes a counter of the own row.
func (c Counter[T]) Store(line *Line, v T) { store(&line[c], uint64(v)) }

// Min is the least value of a counter over all rows, which is final as counters only grow. Lines
// are the offsets of the lines that hold it, by rank.
func (c Counter[T]) Min(t *Table, lines []int) T {
	least := ^T(0)
	for r, off := range lines {
		least = min(least, c.Load(t.Line(order.Rank(r), off)))
	}
	return least
}

// Cell returns where word k of a vector lies: the offset of its line, and the word there.
func Cell(vector, k int) (line int, word Counter[uint64]) {
	return vector + k/fabric.WordsPerLine*fabric.LineBytes, Counter[uint64](k % fabric.WordsPerLine)
}
