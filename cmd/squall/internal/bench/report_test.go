package bench

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// judgedReport has every kind of row, of runs that are made up.
func judgedReport() Report {
	rates := func(name string, rounds ...float64) Series {
		s := Series{Case: Case{Name: name}}
		for _, v := range rounds {
			s.Runs = append(s.Runs, Run{Rate: v, Allocs: v / 1e10, CPUPercent: v / 1e6})
		}
		return s
	}
	failed := rates("failed", 3, 4)
	failed.Err = errors.Join(errNoRival, errors.New("and more"))
	series := []Series{rates("ours", 1_234_567, 3_000_000, 2_000_000), rates("other", 123.4, 98.76, 0), failed, {Case: Case{Name: "absent"}, Err: errNoRival}}
	s := barSet{bars: []bar{
		{what: "over", unit: "msgs/s", figure: "ours", limit: "other", of: rateOf, atLeast: 9},
		{what: "under", unit: "msgs/s", figure: "ours", limit: "other", of: rateOf, atMost: 1},
		{what: "beside", unit: "msgs/s", figure: "other", limit: "ours", of: rateOf},
		{what: "alone", unit: "%", figure: "ours", of: cpuOf, atMost: 1},
		{what: "nothing asked", unit: "%", figure: "ours", of: cpuOf},
		{what: "none", figure: "ours", of: allocsOf, none: true},
		{what: "a limit that failed", unit: "msgs/s", figure: "ours", limit: "failed", of: rateOf, atLeast: 1},
		{what: "a limit that is not there", unit: "msgs/s", figure: "ours", limit: "absent", of: rateOf, atLeast: 1},
		{what: "a figure that failed", unit: "msgs/s", figure: "absent", limit: "ours", of: rateOf, atLeast: 1},
	}}
	return Report{Machine: Machine{Cores: 2, Go: "go"}, Runs: 3, Series: series, Rows: s.rowsOf(series)}
}

func TestAReportIsTheSameInEachForm(t *testing.T) {
	r := judgedReport()
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":  func(w io.Writer) error { r.writeText(w); return nil },
		"report.md":   func(w io.Writer) error { r.writeMarkdown(w); return nil },
		"report.json": func(w io.Writer) error { return figures.WriteJSON(w, r) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Error(err)
		}
		golden(t, name, out.Bytes())
	}
}

func TestRatiosAreOfTheMediansAndOfEachPair(t *testing.T) {
	r := newRow("", "", figures.Values{10, 20, 60}, "limit", figures.Values{10, 10, 20})
	if r.Ratio != 2 || r.Pairs.Median != 2 || r.Pairs.Least != 1 || r.Pairs.Most != 3 {
		t.Errorf("%+v, %+v", r, r.Pairs)
	}
	if r := newRow("", "", figures.Values{1}, "limit", figures.Values{0}); r.Ratio != 0 {
		t.Errorf("%+v", r)
	}
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
