package dds

// Waiting is the number of calls of Next that wait.
func (r *Reader[T]) Waiting() int {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.waiting
}
