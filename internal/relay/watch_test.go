package relay

import (
	"testing"
	"time"
)

func TestAPeerIsGivenUpThatIsSilentWhileSomethingIsUnderWay(t *testing.T) {
	const failAfter = 400 * time.Millisecond
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		name  string
		ticks []int // in ms
		idle  int   // ticks with nothing under way, first
		heard func(now int) int
		want  []Attention
	}{
		{"it is silent", []int{0, 100, 200, 300}, 0, func(int) int { return 0 }, []Attention{AskIt, AskIt, AskIt, GiveItUp}},
		{"it speaks", []int{0, 100, 200, 300, 400}, 0, func(now int) int { return now - 50 }, []Attention{AskIt, AskIt, AskIt, AskIt, AskIt}},
		{"nothing is in flight at first", []int{0, 100, 200, 300, 400, 500, 600}, 3, func(int) int { return 0 },
			[]Attention{Nothing, Nothing, Nothing, AskIt, AskIt, AskIt, GiveItUp}},
		{"this process was stopped", []int{0, 100, 1000, 1100, 1200, 1300}, 0, func(int) int { return 0 },
			[]Attention{AskIt, AskIt, AskIt, AskIt, AskIt, GiveItUp}},
	} {
		w := Watch{FailAfter: failAfter}
		for i, ms := range c.ticks {
			if got := w.Tick(at(ms), at(c.heard(ms)), i >= c.idle); got != c.want[i] {
				t.Errorf("%s: %d at %d ms, want %d", c.name, got, ms, c.want[i])
			}
		}
	}
}

func TestAProcessThatStoodStillHasSleptForAMoment(t *testing.T) {
	w := Watch{FailAfter: 400 * time.Millisecond}
	at := func(ms int) time.Time { return time.Unix(1, 0).Add(time.Duration(ms) * time.Millisecond) }
	slept := func(ms int, want bool) {
		t.Helper()
		if got := w.Slept(at(ms)); got != want {
			t.Errorf("at %d ms: %v", ms, got)
		}
	}
	slept(0, false)
	w.Tick(at(0), at(0), false)
	slept(200, false)
	slept(201, true) // the next Tick is late
	w.Tick(at(1000), at(0), false)
	slept(1099, true)
	slept(1100, false)
}
