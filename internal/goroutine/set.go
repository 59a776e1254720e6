package goroutine

import (
	"sync"
	"sync/atomic"
)

// Set is the goroutines that run certain functions. The zero value is empty.
type Set struct {
	running atomic.Int32

	mu    sync.Mutex
	calls map[uint64]int // of Run, by the number of the goroutine
}

// Run calls f; meanwhile the calling goroutine, whose number is id, is in the set.
func (s *Set) Run(id uint64, f func()) {
	s.running.Add(1)
	s.add(id, 1)
	defer func() {
		s.add(id, -1)
		s.running.Add(-1)
	}()
	f()
}

func (s *Set) add(id uint64, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == nil {
		s.calls = map[uint64]int{}
	}
	if s.calls[id] += n; s.calls[id] == 0 {
		delete(s.calls, id)
	}
}

// HasCaller reports whether the calling goroutine is in the set. It costs one load if the set is
// empty.
func (s *Set) HasCaller() bool {
	if s.running.Load() == 0 {
		return false
	}
	id := ID()
	s.mu.Lock()
	defer s.mu.Unlock()
	return id != 0 && s.calls[id] > 0
}
