package figures

import "testing"

func TestAVerdictSaysWhetherTheBarIsReached(t *testing.T) {
	for _, c := range []struct {
		bar     Bar
		value   float64
		text    string
		verdict string
	}{
		{Bar{AtLeast: 0.7}, 0.7, "at least 0.70", "ok"},
		{Bar{AtLeast: 0.7}, 0.69, "at least 0.70", "missed"},
		{Bar{AtMost: 3}, 3, "at most 3.00", "ok"},
		{Bar{AtMost: 3}, 3.01, "at most 3.00", "missed"},
		{Bar{AtMost: 2, Alone: true}, 1.99, "under 2.00", "ok"},
		{Bar{AtMost: 2, Alone: true}, 2, "under 2.00", "missed"},
		{Bar{None: true}, 0.0004, "0", "ok"},
		{Bar{None: true}, 1, "0", "missed"},
		{Bar{}, 5, "–", "–"},
		{Bar{Alone: true}, 5, "–", "–"},
	} {
		if got := c.bar.Verdict(c.value); got != c.verdict || c.bar.String() != c.text {
			t.Errorf("%v at %v: %s", c.bar, c.value, got)
		}
	}
}
