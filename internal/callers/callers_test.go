package callers

import "testing"

func TestAGoroutineIsInASetWhileItRuns(t *testing.T) {
	var sets []*Set
	for range 70 {
		sets = append(sets, new(Set))
	}
	in := func(want func(k int) bool) {
		t.Helper()
		for k, s := range sets {
			if s.HasCaller() != want(k) {
				t.Errorf("in set %d of %d: %v", k, len(sets), !want(k))
			}
		}
	}
	var within func(k int)
	within = func(k int) {
		if k == len(sets) {
			in(func(int) bool { return true })
			other := make(chan bool)
			go func() {
				in(func(int) bool { return false })
				close(other)
			}()
			<-other
			return
		}
		sets[k].Run(func() { within(k + 1) })
		in(func(of int) bool { return of < k })
	}
	within(0)
	for k, s := range sets { // each alone, while the others have goroutines, too
		release, entered := make(chan struct{}), make(chan struct{})
		for _, other := range sets {
			go other.Run(func() {
				entered <- struct{}{}
				<-release
			})
			<-entered
		}
		s.Run(func() { in(func(of int) bool { return of == k }) })
		close(release)
	}
}

func TestASetIsEmptyAfterAPanic(t *testing.T) {
	var s Set
	func() {
		defer func() { _ = recover() }()
		s.Run(func() { panic("f") })
	}()
	if s.running.Load() != 0 {
		t.Error("a function still runs")
	}
}

//go:noinline
func called(f func()) { f() }

func TestCallsAreCounted(t *testing.T) {
	const name = "github.com/squall-go/squall/internal/callers.called"
	called(func() {
		called(func() {
			if n := Calls(name, beginName); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
		})
	})
	if n := Calls(name); n != 0 {
		t.Errorf("%d calls, want 0", n)
	}
}

func BenchmarkHasCaller(b *testing.B) {
	var s, other Set
	other.running.Add(1)
	s.Run(func() {
		for b.Loop() {
			other.HasCaller()
		}
	})
}
