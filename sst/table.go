package sst

import (
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Table is a layout on a fabric's memory. Its methods are the loop's.
type Table struct {
	*fabric.Table
	layout *Layout
}

// NewTable checks that the memory has the shape of the layout.
func NewTable(l *Layout, t *fabric.Table) (*Table, error) {
	for r := range order.Rank(t.Ranks()) {
		if have, want := len(t.Row(r)), l.Shape(r).RowBytes; have < want {
			return nil, fmt.Errorf("%w: rank %d has %d bytes, its layout needs %d", ErrRowTooLarge, r, have, want)
		}
	}
	return &Table{t, l}, nil
}

// Line is a control line in a row. The pointer is good until the row is frozen or the table closed.
func (t *Table) Line(r order.Rank, off int) *Line {
	row := t.Row(r)
	_ = row[off+fabric.LineBytes-1]
	return (*Line)(unsafe.Pointer(&row[off]))
}

// Area is a part of a row's bytes. The slice is good until the row is frozen or the table closed.
func (t *Table) Area(r order.Rank, a Area) []byte {
	start := t.Offset(r, a)
	return t.Row(r)[start : start+a.n : start+a.n]
}

// Offset is the place of an area in a row.
func (t *Table) Offset(r order.Rank, a Area) int { return t.layout.Shape(r).ControlBytes + a.start }

// Dump prints the table as it is now, one line per row and group of columns.
func (t *Table) Dump(w io.Writer) error {
	var b strings.Builder
	for r := range order.Rank(t.Ranks()) {
		mark := ""
		if r == t.Self() {
			mark = " (self)"
		} else if t.Frozen(r) {
			mark = " (frozen)"
		}
		fmt.Fprintf(&b, "rank %d%s:", r, mark)
		for i, l := range t.layout.rows[r].lines {
			line := t.Line(r, i*fabric.LineBytes)
			fmt.Fprintf(&b, " %s{", l.name)
			for k, word := range l.words {
				if k > 0 {
					b.WriteByte(' ')
				}
				fmt.Fprintf(&b, "%s=%d", word, Counter[uint64](k).Load(line))
			}
			b.WriteByte('}')
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
