package table

import (
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Life is that of a pair, whose memory the application and the queues of services use. The zero
// value is of one that lives.
type Life struct {
	kept  int // frames that the application or a queue has
	ended bool
	freed bool
}

// Kept is the number of frames that are in use.
func (l *Life) Kept() int { return l.kept }

// HasEnded reports whether End was called.
func (l *Life) HasEnded() bool { return l.ended }

// Keep counts a frame that is in use.
func (l *Life) Keep() { l.kept++ }

// GiveBack counts a frame that is not in use any more. Free is called afterwards.
func (l *Life) GiveBack() {
	l.kept--
	if invariants.Enabled {
		invariants.Check(l.kept >= 0, "EP8", "a frame is given back twice")
	}
}

// End ends the pair, and reports whether it was not done before.
func (l *Life) End() bool {
	before := l.ended
	l.ended = true
	return !before
}

// Free reports whether the memory of the pair has to be freed now: once, when the pair has ended
// and no frame is in use (EP8).
func (l *Life) Free() bool {
	if !l.ended || l.freed || l.kept > 0 && !(mutant.Enabled && mutant.On(mutant.TableEarlyFree)) {
		return false
	}
	l.freed = true
	return true
}
