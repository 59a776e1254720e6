package wait

// Bell is a channel of one element, from which the goroutine that waits receives: rung several
// times before it is heard, it is heard once. Nil hears nothing.
type Bell chan struct{}

// NewBell returns one that was not rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring wakes the goroutine that waits, or the next one that does. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default: // rung already
	}
}
