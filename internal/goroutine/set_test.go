package goroutine

import "testing"

func TestAGoroutineIsInASetWhileItRuns(t *testing.T) {
	var s Set
	s.Run(ID(), func() {
		s.Run(ID(), func() {})
		if !s.HasCaller() {
			t.Error("the caller is not in the set after a call within the call")
		}
		other := make(chan bool)
		go func() { other <- s.HasCaller() }()
		if <-other {
			t.Error("another goroutine is in the set")
		}
	})
	if s.HasCaller() {
		t.Error("the caller is in the set after its call")
	}
}
