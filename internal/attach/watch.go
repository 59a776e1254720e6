package attach

import (
	"time"

	"github.com/squall-go/squall/internal/mutant"
)

// watch decides when the peer of a link is asked whether it is still there, and when it is given
// up: it has been silent for FailAfter while something was under way.
type watch struct {
	failAfter time.Duration

	last  time.Duration // of tick, or when the link stood
	slept time.Duration // before this time this node counts as one that stood still
	busy  bool          // something is under way
	since time.Duration // since then
}

// attention is what the peer of a link has to be given.
type attention uint8

// What the peer of a link has to be given.
const (
	nothing  attention = iota
	askIt              // a Ping
	giveItUp           // the end of the link
)

// every is how often tick has to be called.
func (w *watch) every() time.Duration { return w.failAfter / 4 }

// tick says what to do now: busy is whether anything waits for the peer, heard when it said
// something last.
func (w *watch) tick(now, heard time.Duration, busy bool) attention {
	late := w.late(now)
	if w.last = now; late {
		w.slept = now + w.every()
	}
	if busy && (!w.busy || late && !(mutant.Enabled && mutant.On(mutant.SleepIsSilence))) { // this node itself may have been stopped: what it did not hear then means nothing
		w.since = now
	}
	w.busy = busy
	switch {
	case !busy:
		return nothing
	case now-max(heard, w.since) >= w.failAfter-w.every():
		return giveItUp
	}
	return askIt
}

// late reports whether tick should have been called long ago: this node stood still, as its peers
// may have noticed.
func (w *watch) late(now time.Duration) bool { return now-w.last > 2*w.every() }

// stoodStill reports whether this node stood still until a moment ago, for so long that its peers
// may have given it up.
func (w *watch) stoodStill(now time.Duration) bool { return w.late(now) || now < w.slept }
