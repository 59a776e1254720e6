package relay

import "time"

// Watch decides when the peer of a link is asked whether it is still there, and when it is given
// up: it has been silent for FailAfter while something was under way.
type Watch struct {
	FailAfter time.Duration

	last time.Time // of Tick
	woke time.Time // of the last Tick that came late; zero: none did
	busy time.Time // since when something is under way; zero: nothing is
}

// Attention is what the peer of a link has to be given.
type Attention uint8

// What the peer of a link has to be given.
const (
	Nothing  Attention = iota
	AskIt              // a Ping
	GiveItUp           // the end of the link
)

// Every is how often Tick has to be called.
func (w *Watch) Every() time.Duration { return w.FailAfter / 4 }

// Tick says what to do now: busy is whether anything waits for the peer, heard when it said
// something last.
func (w *Watch) Tick(now, heard time.Time, busy bool) Attention {
	late := w.late(now)
	if w.last = now; late {
		w.woke = now
	}
	switch {
	case !busy:
		w.busy = time.Time{}
		return Nothing
	case w.busy.IsZero() || late: // this process itself may have been stopped: what it did not hear then means nothing
		w.busy = now
	}
	if heard.Before(w.busy) {
		heard = w.busy
	}
	if now.Sub(heard) >= w.FailAfter-w.Every() {
		return GiveItUp
	}
	return AskIt
}

// late reports whether Tick should have been called long ago: this process stood still, as its
// peers may have noticed.
func (w *Watch) late(now time.Time) bool { return !w.last.IsZero() && now.Sub(w.last) > 2*w.Every() }

// Slept reports whether this process stood still until a moment ago, for so long that its peers may
// have given it up.
func (w *Watch) Slept(now time.Time) bool {
	return w.late(now) || !w.woke.IsZero() && now.Sub(w.woke) < w.Every()
}
