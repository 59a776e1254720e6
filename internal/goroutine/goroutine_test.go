package goroutine

import (
	"sync"
	"testing"
)

func TestEveryGoroutineHasItsOwnNumber(t *testing.T) {
	self := ID()
	if self == 0 || self != ID() {
		t.Fatalf("this goroutine is number %d, then %d", self, ID())
	}
	ids := make([]uint64, 100)
	var running sync.WaitGroup
	for i := range ids {
		running.Go(func() { ids[i] = ID() })
	}
	running.Wait()
	seen := map[uint64]bool{self: true}
	for _, id := range ids {
		if id == 0 || seen[id] {
			t.Errorf("number %d twice, or none", id)
		}
		seen[id] = true
	}
}

func TestATraceOfAnotherFormHasNoNumber(t *testing.T) {
	for trace, want := range map[string]uint64{
		"goroutine 7 [running]:\n": 7, "": 0, "goroutine ": 0, "goroutine 7": 0, "goroutine x [running]:": 0, "thread 7 [running]": 0,
	} {
		if got := parse([]byte(trace)); got != want {
			t.Errorf("%q: %d, want %d", trace, got, want)
		}
	}
}

func BenchmarkID(b *testing.B) {
	for b.Loop() {
		ID()
	}
}
