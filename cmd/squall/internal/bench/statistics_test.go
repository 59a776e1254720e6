package bench

import (
	"context"
	"errors"
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

func TestRatiosAreOfTheMediansAndOfEachPair(t *testing.T) {
	r := newRow("", "", Values{10, 20, 60}, "limit", Values{10, 10, 20})
	if r.Ratio != 2 || r.Pairs.Median != 2 || r.Pairs.Least != 1 || r.Pairs.Most != 3 {
		t.Errorf("%+v, %+v", r, r.Pairs)
	}
	if r := newRow("", "", Values{1}, "limit", Values{0}); r.Ratio != 0 {
		t.Errorf("%+v", r)
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00012: "0.00012", 0.5: "0.50", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 1234.5: "1 235", 1234567: "1 234 567", -4567: "-4 567",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, not %q", v, got, want)
		}
	}
}

func TestCasesTakeTurnsAndAFailedOneIsLeftOut(t *testing.T) {
	var order string
	failure := errors.New("no")
	make := func(name string, err error) Case {
		return Case{Name: name, measure: func(context.Context) (Run, error) { order += name; return Run{Rate: 1}, err }}
	}
	series, err := Interleave(t.Context(), 3, []Case{make("a", nil), make("b", failure), make("c", nil)}, nil)
	if err != nil || order != "abcacac" || len(series[0].Runs) != 3 || series[1].Err != failure || len(series[1].Runs) != 0 {
		t.Fatal(order, series, err)
	}
}
