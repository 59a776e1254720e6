package bench

import (
	"errors"
	"fmt"
	"testing"
)

// run is what one run of the made-up cases of these tests comes to.
type run struct {
	Rate   float64 `json:"rate"`
	Allocs float64 `json:"allocs"`
}

func rateOf(r run) float64   { return r.Rate }
func allocsOf(r run) float64 { return r.Allocs }

func rates(name string, rounds ...float64) Series[run] {
	s := Series[run]{Case: Case[run]{Name: name}}
	for _, v := range rounds {
		s.Runs = append(s.Runs, run{v, v / 1e10})
	}
	return s
}

func named(names ...string) (all []Case[run]) {
	for _, name := range names {
		all = append(all, Case[run]{Name: name})
	}
	return all
}

func failing(s Series[run], err error) Series[run] {
	s.Err, s.Error = err, err.Error()
	return s
}

func TestAVerdictSaysWhetherTheBarIsReached(t *testing.T) {
	for _, c := range []struct {
		asked   Asked
		value   float64
		text    string
		verdict string
	}{
		{Asked{AtLeast: 0.7}, 0.7, "at least 0.70", "ok"},
		{Asked{AtLeast: 0.7}, 0.69, "at least 0.70", "missed"},
		{Asked{AtMost: 3}, 3, "at most 3.00", "ok"},
		{Asked{AtMost: 3}, 3.01, "at most 3.00", "missed"},
		{Asked{Under: 2}, 1.99, "under 2.00", "ok"},
		{Asked{Under: 2}, 2, "under 2.00", "missed"},
		{Asked{None: true}, 0.0004, "0", "ok"},
		{Asked{None: true}, 1, "0", "missed"},
		{Asked{}, 5, "–", "–"},
	} {
		if got := c.asked.Verdict(c.value); got != c.verdict || c.asked.String() != c.text {
			t.Errorf("%v at %v: %s", c.asked, c.value, got)
		}
	}
}

func TestBarsAreJudged(t *testing.T) {
	series := []Series[run]{rates("fast", 12), rates("slow", 1), failing(Series[run]{Case: Case[run]{Name: "absent"}}, ErrNoPeers)}
	gap := func(s []Series[run]) float64 { return s[0].Values(rateOf).Median() - s[1].Values(rateOf).Median() }
	for _, c := range []struct {
		bar  Bar[run]
		want string
	}{
		{Bar[run]{Figure: named("fast")[0], Limits: named("slow"), Of: rateOf, Asked: Asked{AtLeast: 9}}, "ok"},
		{Bar[run]{Figure: named("slow")[0], Limits: named("fast"), Of: rateOf, Asked: Asked{AtLeast: 9}}, "missed"},
		{Bar[run]{Figure: named("slow")[0], Limits: named("fast"), Of: rateOf, Asked: Asked{AtMost: 0.5}}, "ok"},
		{Bar[run]{Figure: named("fast")[0], Limits: named("slow"), Of: rateOf, LimitOf: allocsOf, Asked: Asked{AtMost: 0.5}}, "missed"},
		{Bar[run]{Figure: named("slow")[0], Of: rateOf, Asked: Asked{Under: 1}}, "missed"}, // under, not at most
		{Bar[run]{Figure: named("slow")[0], Of: allocsOf, Asked: Asked{None: true}}, "ok"},
		{Bar[run]{Figure: named("slow")[0], Of: rateOf, Asked: Asked{None: true}}, "missed"},
		{Bar[run]{Figure: named("fast")[0], Limits: named("slow"), Of: rateOf}, "–"},
		{Bar[run]{Figure: named("fast")[0], Limits: named("slow"), Derive: gap, Asked: Asked{AtLeast: 11}}, "ok"},
		{Bar[run]{Figure: named("fast")[0], Limits: named("slow"), Derive: gap, Asked: Asked{Under: 11}}, "missed"},
		{Bar[run]{Figure: named("fast")[0], Limits: named("absent"), Derive: gap}, ErrNoPeers.Error()},
		{Bar[run]{Figure: named("fast")[0], Limits: named("absent"), Of: rateOf, Asked: Asked{AtLeast: 9}}, ErrNoPeers.Error()},
	} {
		if got := (Set[run]{Bars: []Bar[run]{c.bar}}).Rows(series)[0].Verdict; got != c.want {
			t.Errorf("%+v: %q, not %q", c.bar, got, c.want)
		}
	}
}

func TestTheMedianOfTheRatiosOfTheRoundsCounts(t *testing.T) {
	series := []Series[run]{rates("ours", 10, 30, 60), rates("limit", 9, 10, 5), rates("none", 0)}
	for limit, want := range map[string]Summary{"limit": {3, 10.0 / 9, 12}, "none": {}} {
		b := Bar[run]{Figure: named("ours")[0], Limits: named(limit), Of: rateOf}
		if r := (Set[run]{Bars: []Bar[run]{b}}).Rows(series)[0]; r.Ratio != want.Median || *r.Pairs != want {
			t.Errorf("%s: %+v, %+v", limit, r, r.Pairs)
		}
	}
}

func TestTheBestLimitOfEachRoundCounts(t *testing.T) {
	series := []Series[run]{rates("ours", 100, 300, 800), rates("one", 50, 60, 70), rates("other", 10, 100, 200), failing(rates("broken", 1), ErrNoPeers)}
	for _, c := range []struct {
		bar   Bar[run]
		pairs Summary
		name  string
	}{
		{Bar[run]{Limits: named("one", "other")}, Summary{3, 2, 4}, "other"},
		{Bar[run]{Limits: named("one", "broken")}, Summary{5, 2, 800.0 / 70}, "one"},
	} {
		c.bar.Figure, c.bar.Of = named("ours")[0], rateOf
		row := (Set[run]{Bars: []Bar[run]{c.bar}}).Rows(series)[0]
		if *row.Pairs != c.pairs || row.Ratio != c.pairs.Median || row.LimitName != c.name {
			t.Errorf("%+v %+v", row, row.Pairs)
		}
	}
}

// judgedReport has every kind of row, of runs that are made up.
func judgedReport() Report[run] {
	series := []Series[run]{
		rates("ours", 1_234_567, 3_000_000, 2_000_000), rates("other", 123.4, 98.76, 0),
		failing(rates("failed", 3, 4), errors.Join(ErrNoPeers, errors.New("and more"))),
		failing(rates("absent"), fmt.Errorf("/data: %w", ErrAbsent)),
	}
	other := named("other")
	s := Set[run]{Bars: []Bar[run]{
		{What: "over", Unit: "msgs/s", Figure: named("ours")[0], Limits: other, Of: rateOf, Asked: Asked{AtLeast: 9}},
		{What: "under", Unit: "msgs/s", Figure: named("ours")[0], Limits: other, Of: rateOf, Asked: Asked{AtMost: 1}},
		{What: "beside", Unit: "msgs/s", Figure: named("other")[0], Limits: named("ours"), Of: rateOf},
		{What: "alone", Unit: "s", Figure: named("other")[0], Of: rateOf, Asked: Asked{Under: 100}},
		{Unit: "%", Figure: named("ours")[0], Of: rateOf},
		{What: "none", Figure: named("other")[0], Of: allocsOf, Asked: Asked{None: true}},
		{What: "derived", Figure: named("ours")[0], Derive: func(s []Series[run]) float64 { return 1.076 }, Asked: Asked{AtMost: 1.08}},
		{What: "a limit that failed", Unit: "msgs/s", Figure: named("ours")[0], Limits: named("other", "failed"), Of: rateOf, Asked: Asked{AtLeast: 1}},
		{What: "a limit that is not there", Unit: "msgs/s", Figure: named("ours")[0], Limits: named("absent"), Of: rateOf, Asked: Asked{AtLeast: 1}},
		{What: "a figure that is not there", Unit: "msgs/s", Figure: named("absent")[0], Limits: named("ours"), Of: rateOf, Asked: Asked{AtLeast: 1}},
	}}
	return Report[run]{Machine: Machine{Cores: 2, Go: "go"}, Dir: "/data", FileSystem: "ext4", Runs: 3, Series: series, Rows: s.Rows(series)}
}
