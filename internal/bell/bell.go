// Package bell wakes a goroutine that waits: rung several times before it is heard, it is heard
// once.
package bell

// Bell is a channel of one element, from which the goroutine that waits receives. Nil hears
// nothing.
type Bell chan struct{}

// New returns one that was not rung.
func New() Bell { return make(Bell, 1) }

// Ring wakes the goroutine that waits, or the next one that does. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default: // rung already
	}
}
