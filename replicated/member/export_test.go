package member

// Waiting returns how many requests wait until their clients have less in progress.
func (s *Server) Waiting() (n int) {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	for _, p := range s.answers.parties {
		n += len(p.waiting)
	}
	return n
}

// Working returns how many requests have a goroutine each.
func (s *Server) Working() int {
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	return s.answers.working
}

// WorkingBounds returns how many requests may have a goroutine each, in all and of one party, and
// LimitWorking sets it, before there are requests.
func (s *Server) WorkingBounds() (all, each int) {
	return s.answers.mostWorking, s.answers.mostWorkingEach
}

func (s *Server) LimitWorking(all, each int) {
	s.answers.mostWorking, s.answers.mostWorkingEach = all, each
}
