package schedule

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Draw prints a plan for people: the block and the receiver of each send, one row per step and one
// column per sender, and below it the step in which each block came to each node.
//
//	step  0       1
//	   0  0→1 b0
//	   1  0→2 b1  1→3 b0
//
//	node  b0  b1
//	   0   ·   ·      has it from the start
//	   1   0   …
func Draw(w io.Writer, p *Plan) error {
	out := bufio.NewWriter(w)
	drawMoves(out, p)
	fmt.Fprintln(out, "\nin which step each block arrives:")
	drawArrivals(out, p)
	return out.Flush()
}

// drawMoves gives a column to each node that sends at all.
func drawMoves(w io.Writer, p *Plan) {
	columns, senders := make([]int, p.Nodes()), []string{}
	for rank := range columns {
		columns[rank] = none
		if len(p.Sends(rank)) > 0 {
			columns[rank] = len(senders)
			senders = append(senders, strconv.Itoa(rank))
		}
	}
	width := utf8.RuneCountInString(cell(Move{From: int32(p.Nodes() - 1), To: int32(p.Nodes() - 1), Block: int32(p.Blocks() - 1)}))
	drawRow(w, "step", width, senders)
	step, cells := int32(0), make([]string, len(senders))
	for m := range p.All() {
		for ; step < m.Step; step++ {
			drawRow(w, strconv.Itoa(int(step)), width, cells)
			clear(cells)
		}
		cells[columns[m.From]] = cell(m)
	}
	for ; int(step) < p.Steps(); step++ {
		drawRow(w, strconv.Itoa(int(step)), width, cells)
		clear(cells)
	}
}

func cell(m Move) string { return fmt.Sprintf("%d→%d b%d", m.From, m.To, m.Block) }

func drawRow(w io.Writer, head string, width int, cells []string) {
	var row strings.Builder
	fmt.Fprintf(&row, "%5s", head)
	for _, c := range cells {
		fmt.Fprintf(&row, "  %-*s", width, c)
	}
	fmt.Fprintln(w, strings.TrimRight(row.String(), " "))
}

func drawArrivals(w io.Writer, p *Plan) {
	width := max(len(strconv.Itoa(p.Steps())), len(strconv.Itoa(p.Blocks()))+1)
	cells := make([]string, p.Blocks())
	for b := range cells {
		cells[b] = fmt.Sprintf("%*s", width, "b"+strconv.Itoa(b))
	}
	drawRow(w, "node", width, cells)
	for rank := range p.Nodes() {
		for b := range cells {
			cells[b] = fmt.Sprintf("%*s", width, "·")
		}
		for _, m := range p.Receives(rank) {
			cells[m.Block] = fmt.Sprintf("%*d", width, m.Step)
		}
		drawRow(w, strconv.Itoa(rank), width, cells)
	}
}
