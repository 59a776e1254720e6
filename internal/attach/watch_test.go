package attach

import (
	"testing"
	"time"
)

func TestAPeerIsGivenUpThatIsSilentWhileSomethingIsUnderWay(t *testing.T) {
	const failAfter = 400 * time.Millisecond
	at := func(ms int) time.Duration { return time.Second + time.Duration(ms)*time.Millisecond }
	for _, c := range []struct {
		name  string
		ticks []int // in ms
		idle  int   // ticks with nothing under way, first
		heard func(now int) int
		want  []attention
	}{
		{"it is silent", []int{0, 100, 200, 300}, 0, func(int) int { return 0 }, []attention{askIt, askIt, askIt, giveItUp}},
		{"it speaks", []int{0, 100, 200, 300, 400}, 0, func(now int) int { return now - 50 }, []attention{askIt, askIt, askIt, askIt, askIt}},
		{"nothing is in flight at first", []int{0, 100, 200, 300, 400, 500, 600}, 3, func(int) int { return 0 },
			[]attention{nothing, nothing, nothing, askIt, askIt, askIt, giveItUp}},
		{"this process was stopped", []int{0, 100, 1000, 1100, 1200, 1300}, 0, func(int) int { return 0 },
			[]attention{askIt, askIt, askIt, askIt, askIt, giveItUp}},
	} {
		w := watch{failAfter: failAfter, last: at(0)}
		for i, ms := range c.ticks {
			if got := w.tick(at(ms), at(c.heard(ms)), i >= c.idle); got != c.want[i] {
				t.Errorf("%s: %d at %d ms, want %d", c.name, got, ms, c.want[i])
			}
		}
	}
}

func TestAProcessThatStoodStillHasSleptForAMoment(t *testing.T) {
	at := func(ms int) time.Duration { return time.Second + time.Duration(ms)*time.Millisecond }
	w := watch{failAfter: 400 * time.Millisecond, last: at(0)}
	slept := func(ms int, want bool) {
		t.Helper()
		if got := w.stoodStill(at(ms)); got != want {
			t.Errorf("at %d ms: %v", ms, got)
		}
	}
	slept(0, false)
	slept(200, false)
	slept(201, true) // the next tick is late
	w.tick(at(1000), at(0), false)
	slept(1099, true)
	slept(1100, false)
}
