package sim

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// columnWidth is what a node has on a line of a trace.
const columnWidth = 19

// trace prints one line per event, a column per node, so that a view change is a shape on the
// screen:
//
//	    time │ node 7             │ node 3
//	12.345µs │ a+3 120B           │                   claimed: message 3, 120 bytes, in a
//	13.001µs │ a!3                │                   committed (a-3: aborted)
//	14.2µs   │ v1 a s9 r7 d4      │                   view 1: its counters after a step
//	21.7µs   │                    │ a:24 7#3          delivered: seq 24, message 3 of node 7
//	1.02ms   │                    │ ✝ crash
//	1.31ms   │ suspects 3         │                   a node
//	1.31ms   │ proposes 1.0 → v2  │                   attempt 1 of rank 0
//	1.52ms   │                    │ wedged
//	1.52ms   │                    │ acks 1.0
//	1.71ms   │ decides 1.0 → v2   │
//	1.93ms   │                    │ echoes 1.0 → v2
//	2.04ms   │ ══ v2, rank 0 of 2 │                   installed
type trace struct {
	out  io.Writer // nil: nothing is printed
	hash uint64
	rows int
	// brief leaves out counters, and fractions of a microsecond.
	brief bool
}

// what identifies kinds of events in the hash.
type what uint64

const (
	claimed what = iota + 1
	settledClaim
	full
	skip
	taken
	refused
	halted
	ended
	struck
	cut
	healed
	moved
	began
	born
	joins
	muted
	recorded
	restarts
	applied
	asked
	answered
)

// event mixes an event into the hash of the run.
func (w *world) event(kind what, place int, args ...uint64) {
	h := w.trace.hash ^ uint64(w.now)<<8 ^ uint64(kind)<<4 ^ uint64(place)
	for _, a := range args {
		h = scramble(h + a)
	}
	w.trace.hash = scramble(h)
}

// print writes an event into the process's column. What happens often calls it under `if
// w.trace.out != nil`, so that no arguments are gathered in vain.
func (p *process) print(format string, args ...any) {
	if p.world.trace.out != nil {
		p.world.print(p.node.place, fmt.Sprintf(format, args...))
	}
}

func (w *world) print(place int, text string) {
	if w.trace.out == nil {
		return
	}
	if w.trace.rows%40 == 0 && (!w.trace.brief || w.trace.rows == 0) {
		w.trace.header(w.nodes)
	}
	w.trace.rows++
	var b strings.Builder
	unit := time.Nanosecond
	if w.trace.brief {
		unit = time.Microsecond
	}
	fmt.Fprintf(&b, "%12v", w.now.Round(unit))
	for k := range w.nodes {
		cell := ""
		if k == place {
			cell = text
		}
		if k > place {
			break
		}
		fmt.Fprintf(&b, " │ %-*s", columnWidth, cell)
	}
	fmt.Fprintln(w.trace.out, strings.TrimRight(b.String(), " "))
}

func (t *trace) header(nodes []*node) {
	line := fmt.Sprintf("%12s", "time")
	for _, n := range nodes {
		line += fmt.Sprintf(" │ %-*s", columnWidth, fmt.Sprintf("node %d", n.ID))
	}
	fmt.Fprintln(t.out, strings.TrimRight(line, " "))
}

// printLines prints the counters of a view that moved.
func (p *process) printLines(s *seat) {
	if s.closed || p.world.trace.brief {
		return
	}
	for i, sg := range s.record.view.Subgroups {
		if !sg.Has(s.self) {
			continue
		}
		line := s.line(i)
		now := multicastLine{line[wordSkipped], line[wordSent], line[wordReceived], line[wordDelivered]}
		if now != s.lines[i] {
			s.lines[i] = now
			p.print("v%d %s s%d r%d d%d", s.record.view.ID, sg.Name, max(now[0], now[1]), now[2], now[3])
		}
	}
}

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }
