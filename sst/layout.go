package sst

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// ErrRowTooLarge says that a member's rings do not fit a row.
var ErrRowTooLarge = errors.New("row too large")

// Line is a control line: eight counters that travel together.
type Line = [fabric.WordsPerLine]uint64

// Area is a part of a row's bytes.
type Area struct {
	start, n int // relative to the bytes part
}

// Layout is where everything is, in every row of a view. Declare all, then read.
type Layout struct {
	rows []rowLayout
}

type rowLayout struct {
	lines []namedLine
	bytes int // of the bytes part
}

type namedLine struct {
	name  string
	words []string
}

// usualLines is room for the lines of most rows.
const usualLines = 8

// NewLayout starts a layout with so many rows. Line 0 of each is the fabric's.
func NewLayout(ranks int) *Layout {
	l := &Layout{rows: make([]rowLayout, ranks)}
	for r := range l.rows {
		l.rows[r].lines = make([]namedLine, 0, usualLines)
		l.Line(order.Rank(r), "fabric", "parked")
	}
	return l
}

// Line declares a control line in a row and returns its offset. Words are named for Dump, at most
// eight.
func (l *Layout) Line(r order.Rank, name string, words ...string) (off int) {
	row := &l.rows[r]
	row.lines = append(row.lines, namedLine{name, words})
	return (len(row.lines) - 1) * fabric.LineBytes
}

// Lines declares a control line in every row, and returns its offsets by rank.
func (l *Layout) Lines(name string, words ...string) (offs []int) {
	for r := range l.rows {
		offs = append(offs, l.Line(order.Rank(r), name, words...))
	}
	return offs
}

// Vector declares so many words on consecutive lines and returns the offset of the first.
func (l *Layout) Vector(r order.Rank, name string, words int) (off int) {
	off = len(l.rows[r].lines) * fabric.LineBytes
	for first := 0; first < words; first += fabric.WordsPerLine {
		names := make([]string, 0, fabric.WordsPerLine)
		for w := first; w < min(words, first+fabric.WordsPerLine); w++ {
			names = append(names, strconv.Itoa(w))
		}
		l.Line(r, name, names...)
	}
	return off
}

// Bytes declares n bytes of the bytes part, rounded up to whole lines.
func (l *Layout) Bytes(r order.Rank, n int) Area {
	row := &l.rows[r]
	a := Area{row.bytes, n}
	row.bytes += (n + fabric.LineBytes - 1) &^ (fabric.LineBytes - 1)
	return a
}

// Shape is the size of a row.
func (l *Layout) Shape(r order.Rank) fabric.RowShape {
	control := len(l.rows[r].lines) * fabric.LineBytes
	return fabric.RowShape{ControlBytes: control, RowBytes: control + l.rows[r].bytes}
}

// Check reports a row that no fabric can carry: offsets are 32 bit on the wire.
func (l *Layout) Check() error {
	for r := range l.rows {
		if n := l.Shape(order.Rank(r)).RowBytes; n > math.MaxUint32 {
			return fmt.Errorf("%w: rank %d needs %d bytes, the limit is %d: smaller rings, or fewer subgroups per member", ErrRowTooLarge, r, n, math.MaxUint32)
		}
	}
	return nil
}
