package predicates

import (
	"fmt"
	"testing"
	"time"
)

func TestAYieldIsGivenUpWhereTheLoopGetsLessThanHalfOfItsShare(t *testing.T) {
	const µs, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		loops, cores int
		here, away   time.Duration // of each yield
		want         bool
	}{
		{3, 2, 20 * µs, 10 * µs, false},
		{3, 2, 50 * µs, 90 * µs, false},   // a third of the core, of two thirds
		{3, 2, 50 * µs, 110 * µs, true},   // less
		{3, 2, 50 * µs, 3 * ms, true},     // another thread keeps the core for a time slice
		{3, 2, 10 * ms, 3 * ms, false},    // another thread does, and the loop does not need the core
		{2, 2, 20 * µs, 15 * µs, false},   // as many loops as cores: half of one
		{2, 2, 20 * µs, 25 * µs, true},    //
		{16, 2, 10 * µs, 140 * µs, false}, // sixteen loops: a sixteenth of a core
		{16, 2, 10 * µs, 180 * µs, true},  //
		{0, 2, 20 * µs, 15 * µs, false},
	} {
		t.Run(fmt.Sprintf("%d loops on %d cores, %v away for each %v", c.loops, c.cores, c.away, c.here), func(t *testing.T) {
			var k contention
			k.setLoops(c.loops, c.cores)
			now, found := time.Duration(0), false
			for now < 3*contentionWindow+20*ms {
				k.awake(c.here)
				now += c.here + c.away
				k.yielded(c.away, now)
				if now < contentionWindow && k.found(now) {
					t.Fatalf("a verdict after %v", now)
				}
				found = found || k.found(now)
			}
			if found != c.want {
				t.Errorf("contention found: %v", found)
			}
			if k.found(now + contentionTime) {
				t.Error("the verdict holds for ever")
			}
		})
	}
}

// What was awake and in yields before a verdict does not count for the next one.
func TestContentionThatEndedIsNotFoundAgain(t *testing.T) {
	var k contention
	k.setLoops(3, 2)
	k.yielded(contentionWindow, 0)
	if !k.found(0) {
		t.Fatal("not found")
	}
	now := contentionTime
	for range 1000 {
		k.awake(time.Millisecond)
		now += 2 * time.Millisecond
		if k.yielded(time.Millisecond, now); k.found(now) {
			t.Fatal("found where the loop gets half of a core of two thirds")
		}
	}
}
