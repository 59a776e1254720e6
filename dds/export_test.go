package dds

import "math"

// Waiting is the number of calls of Next that wait.
func (r *Reader[T]) Waiting() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.waiting
}

// Keeps reports whether histories refer to messages in the ring.
func (p *Participant) Keeps() bool { return p.keeper.Kept() != math.MaxUint64 }
