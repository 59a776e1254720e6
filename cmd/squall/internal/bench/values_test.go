package bench

import (
	"math"
	"testing"
)

func TestTheMedianIsInTheMiddle(t *testing.T) {
	for _, c := range []struct {
		v    Values
		want float64
	}{{nil, 0}, {Values{3}, 3}, {Values{9, 1}, 5}, {Values{5, 1, 9}, 5}, {Values{4, 1, 9, 2}, 3}} {
		if got := c.v.Median(); got != c.want {
			t.Errorf("%v: %v, not %v", c.v, got, c.want)
		}
	}
}

func TestRangeMeanAndDeviation(t *testing.T) {
	v := Values{2, 4, 4, 4, 5, 5, 7, 9}
	if least, most := v.Range(); least != 2 || most != 9 {
		t.Error(least, most)
	}
	if mean, deviation := v.Mean(); mean != 5 || math.Abs(deviation-2.138) > 0.001 {
		t.Error(mean, deviation)
	}
	if mean, deviation := (Values{3}).Mean(); mean != 3 || deviation != 0 {
		t.Error(mean, deviation)
	}
}

func TestARatioIsThatOfOneRound(t *testing.T) {
	if r := (Values{4, 9}).Over(Values{2, 0, 1}); len(r) != 2 || r[0] != 2 || r[1] != 0 {
		t.Error(r)
	}
}

func TestOfNoRunsEveryFigureIsZero(t *testing.T) {
	none := Series[run]{}.Values(rateOf)
	if s := none.Summary(); s != (Summary{}) || s.Span() != "0 – 0" || len(none.Over(Values{1})) != 0 {
		t.Errorf("%+v", s)
	}
	if mean, deviation := none.Mean(); mean != 0 || deviation != 0 {
		t.Error(mean, deviation)
	}
}
