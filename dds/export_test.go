package dds

// Waiting is the number of calls of Next that wait.
func (r *Reader[T]) Waiting() int {
	r.p.Mu.Lock()
	defer r.p.Mu.Unlock()
	return r.waiting
}

// OpenSets is the number of coherent sets that a client has of which the end has not come.
func OpenSets(p *Participant) int {
	c := p.core.Backend.(*client)
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.sets.writing)
}

// Ending reports whether the end of a coherent set waits for calls of WriteIn.
func Ending(s *CoherentSet) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}
