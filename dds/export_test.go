package dds

// Waiting is the number of calls of Next that wait.
func (r *Reader[T]) Waiting() int {
	r.p.Mu.Lock()
	defer r.p.Mu.Unlock()
	return r.waiting
}
