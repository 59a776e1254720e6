package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

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

func TestAReportIsTheSameInEachForm(t *testing.T) {
	for name, o := range map[string]Output{"report.txt": {Title: "title"}, "report.md": {Title: "title", Markdown: true}, "report.json": {JSON: true}} {
		var out bytes.Buffer
		if err := judgedReport().Print(&out, o); err != nil {
			t.Errorf("what is not there to be held against failed the report: %v", err)
		}
		golden(t, name, out.Bytes())
	}
}

func TestWhereNothingIsAskedNoBarsAreShown(t *testing.T) {
	s := Set[run]{Bars: []Bar[run]{{What: "delivered", Unit: "msgs/s", Figure: named("ours")[0], Limits: named("fan-out"), Of: rateOf}}}
	r := Report[run]{Rows: s.Rows([]Series[run]{rates("ours", 2e6, 1e6, 3e6), rates("fan-out", 1e6, 1e6, 1e6)})}
	var out bytes.Buffer
	if err := r.Print(&out, Output{}); err != nil || strings.Contains(out.String(), "missed") {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, want := range []string{"2 000 000", "1 000 000 – 3 000 000", "fan-out", "2.00"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing of %q in\n%s", want, &out)
		}
	}
}

func TestAReportFailsWithItsOwnCases(t *testing.T) {
	broken := errors.New("broken")
	r := Report[run]{Series: []Series[run]{failing(rates("ours"), broken)}}
	if err := r.Print(&bytes.Buffer{}, Output{JSON: true}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "ours") {
		t.Error(err)
	}
}

func TestAnErrorOfManyIsPrintedOnceAndNotInTheTable(t *testing.T) {
	var members []fault
	for node := 1; node <= 64; node++ {
		members = append(members, fault{fmt.Sprintf("member %d", node), errors.New("evicted " + strings.Repeat("x", 100*(node%2)))})
	}
	broken := once(members)
	lines := strings.Split(broken.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "member 1 and 31 more: evicted x") || lines[1] != "member 2 and 31 more: evicted " {
		t.Errorf("%q", lines)
	}
	series := []Series[run]{failing(rates("ours"), broken), rates("limit", 1), failing(rates("theirs"), broken)}
	s := Set[run]{Bars: []Bar[run]{{Figure: named("ours")[0], Limits: named("limit"), Of: rateOf, Asked: Asked{AtLeast: 1}}, {Figure: named("theirs")[0], Of: rateOf}}}
	r := Report[run]{Series: series, Rows: s.Rows(series)}
	var out bytes.Buffer
	err := r.Print(&out, Output{})
	if !errors.Is(err, broken) || strings.Count(err.Error(), "evicted x") != 1 || !strings.HasPrefix(err.Error(), "ours and 1 more: ") {
		t.Error(err)
	}
	if strings.Contains(out.String(), "evicted") || strings.Count(out.String(), "failed") != 2 {
		t.Error(&out)
	}
}
