package replicated

// Waiting returns how many requests wait until their clients take answers.
func (s *Server) Waiting() (n int) {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	for _, p := range s.answers.parties {
		n += len(p.waiting)
	}
	return n
}
