package sim

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squall-go/squall/order"
)

// columnWidth is what a member has on a line of a trace.
const columnWidth = 19

// trace prints one line per event, a column per member, so that a run is a shape on the screen:
//
//	    time │ rank 0             │ rank 1
//	12.345µs │ a+3 120B           │              claimed: message 3, 120 bytes, in subgroup a
//	13.001µs │ a!3                │              committed (a-3: aborted, a?3: left open)
//	14.2µs   │ a sent 9 recv 7    │              its own counters after a step that moved them
//	21.7µs   │                    │ a:24 1#3     delivered: seq 24, message 3 of sender 1
type trace struct {
	out  io.Writer // nil: nothing is printed
	hash uint64
	rows int
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
	down
	halted
	stopped
	cut
)

// event mixes an event into the hash of the run.
func (w *world) event(kind what, r order.Rank, args ...uint64) {
	h := w.trace.hash ^ uint64(w.now)<<8 ^ uint64(kind)<<4 ^ uint64(r)
	for _, a := range args {
		h = scramble(h + a)
	}
	w.trace.hash = scramble(h)
}

// print writes an event into a member's column. Call it under `if w.trace.out != nil`, so that nothing is formatted in vain.
func (w *world) print(r order.Rank, format string, args ...any) {
	if w.trace.rows%40 == 0 {
		w.trace.header(len(w.plan.Members))
	}
	w.trace.rows++
	var b strings.Builder
	fmt.Fprintf(&b, "%12v", w.now.Round(time.Nanosecond))
	for k := range order.Rank(len(w.plan.Members)) {
		text := ""
		if k == r {
			text = fmt.Sprintf(format, args...)
		}
		fmt.Fprintf(&b, " │ %-*s", columnWidth, text)
	}
	fmt.Fprintln(w.trace.out, strings.TrimRight(b.String(), " "))
}

func (t *trace) header(ranks int) {
	fmt.Fprintf(t.out, "%12s", "time")
	for r := range ranks {
		fmt.Fprintf(t.out, " │ %-*s", columnWidth, fmt.Sprintf("rank %d", r))
	}
	fmt.Fprintln(t.out)
}
