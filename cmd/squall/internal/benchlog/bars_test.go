package benchlog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// rates is a series with the rates of its rounds.
func rates(name string, rounds ...float64) Series {
	s := Series{Name: name}
	for _, r := range rounds {
		s.Runs = append(s.Runs, Run{Rate: r})
	}
	return s
}

func TestTheRatioIsTheMedianOfTheRoundsAgainstTheBestOfEach(t *testing.T) {
	var s set
	s.against("ours", "msgs/s", rateOf, 2, "one", "other")
	row := s.rows([]Series{rates("ours", 100, 300, 800), rates("one", 50, 60, 70), rates("other", 10, 100, 200)})[0]
	if row.Pairs.Median != 3 || row.Pairs.Least != 2 || row.Pairs.Most != 4 || row.Verdict != "ok" || row.LimitName != "other" {
		t.Errorf("%+v %+v", row, row.Pairs)
	}
}

func TestALimitThatFailedIsToldInItsRow(t *testing.T) {
	var s set
	s.against("ours", "msgs/s", rateOf, 2, "one", "other")
	s.against("ours", "msgs/s", rateOf, 2, "other")
	rows := s.rows([]Series{rates("ours", 100), {Name: "one", Err: errNoRival}, rates("other", 50)})
	if !strings.Contains(rows[0].Verdict, errNoRival.Error()) || rows[1].Verdict != "ok" {
		t.Errorf("%+v", rows)
	}
}

func TestTheTableIsMarkdown(t *testing.T) {
	var s set
	s.against("ours", "msgs/s", rateOf, 2, "one")
	s.against("ours", "msgs/s", rateOf, 5, "one")
	s.against("ours", "msgs/s", rateOf, 2, "absent")
	s.alone("alone", "msgs/s", "ours", rateOf)
	r := Report{Rows: s.rows([]Series{rates("ours", 1_000_000, 3_000_000, 2_000_000), rates("one", 500_000, 600_000, 700_000), {Name: "absent", Err: errNoRival}})}
	var out bytes.Buffer
	r.write(&out, true)
	golden(t, "bars.md", out.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s (-update rewrites it): %v\n%s", path, err, got)
	}
}

func TestTheBarsNameCasesOfTheirSets(t *testing.T) {
	for _, s := range barSets(defaultSpec(), rival{}) {
		known := map[string]bool{}
		for _, c := range s.cases {
			if known[c.name] {
				t.Errorf("two cases are called %q", c.name)
			}
			known[c.name] = true
		}
		for _, b := range s.bars {
			for _, name := range append([]string{b.figure}, b.limits...) {
				if !known[name] {
					t.Errorf("%q: no case is called %q", b.what, name)
				}
			}
		}
	}
}

func TestCasesTakeTurnsAndOneThatFailedIsNotTriedAgain(t *testing.T) {
	var order []string
	failure := errors.New("broken")
	run := func(name string, err error) testCase {
		return testCase{name, func(context.Context) (Run, error) {
			order = append(order, name)
			return Run{}, err
		}}
	}
	series, err := takeTurns(t.Context(), 2, []testCase{run("a", nil), run("b", failure), run("c", nil)}, &progress{})
	if err != nil || strings.Join(order, "") != "abcac" || len(series[0].Runs) != 2 || !errors.Is(series[1].Err, failure) {
		t.Errorf("%v: %v: %+v", err, order, series)
	}
	absent := []Series{{Err: errNoRival}, {Err: fmt.Errorf("/data %w", errNotAround)}}
	if (Report{Series: series}).err() == nil || (Report{Series: absent}).err() != nil {
		t.Error("a report fails with its own cases, and not for what is not there to be held against")
	}
}
