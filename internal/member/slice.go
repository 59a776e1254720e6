package member

import (
	"sync/atomic"

	"github.com/squall-go/squall/internal/mutant"
)

// Slice bounds the time that callbacks take in one step (B13), so that a heartbeat leaves when it
// is due. When the time of a slice has passed, a timer ends it, and a run of callbacks stops after
// the message at hand; the rest is offered in the next step. So the loop reads no clock for a
// message: it loads one word.
//
//	word   written by                                meaning
//	state  loop (next slice), timer (0→1 in bit 0)   2 × the number of the slice, plus 1 when it is over
type Slice struct{ state atomic.Uint64 }

// Over reports whether other work of the loop waits for the callbacks. Any goroutine.
func (s *Slice) Over() bool {
	return s.state.Load()&1 == 1 && !(mutant.Enabled && mutant.On(mutant.LongSlices))
}

// Mark is the slice at present, for End.
func (s *Slice) Mark() uint64 { return s.state.Load() &^ 1 }

// End ends the slice of which Mark returned mark, unless another one has begun. It reports whether
// it did. Any goroutine.
func (s *Slice) End(mark uint64) bool { return s.state.CompareAndSwap(mark, mark|1) }

// Begin begins the next slice. Loop.
func (s *Slice) Begin() { s.state.Store(s.state.Load()&^1 + 2) }

// slicesPerFailure is how many slices fit into FailAfter. What a link could not take in one step
// waits for the next one, so a heartbeat may need several of them to leave.
const slicesPerFailure = 10

// slice begins a slice after the last one is over, and with a heartbeat.
func (m *Member) slice() {
	if m.cfg.Slice != nil {
		m.cfg.Time(m.cfg.FailAfter / slicesPerFailure)
		m.cfg.Slice.Begin()
	}
}
