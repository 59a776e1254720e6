package messages

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func TestTheMatrixHasThePapersFigures(t *testing.T) {
	for _, quick := range []bool{false, true} {
		m := newMatrix("auto", quick)
		names := ""
		for _, f := range m.figures {
			names += f.name + " "
		}
		for _, number := range []string{"03", "05", "06", "08", "09", "10", "11", "12", "15", "16", "17"} {
			if !strings.Contains(names, "figure-"+number) {
				t.Errorf("figure %s is missing among %s", number, names)
			}
		}
		for _, set := range m.sets() {
			for _, c := range set.Cases {
				if err := c.Spec.(*Spec).Validate(); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
	}
}

func TestAMeasuredSpecIsOnAllCurvesThatItBelongsTo(t *testing.T) {
	dir, m := t.TempDir(), newMatrix("auto", true)
	var series []Series
	for _, s := range m.sets() {
		for i, c := range s.Cases {
			runs := []Run{{BytesRate: 1e9, Loaded: bench.Latency{P50Us: 5}}, {BytesRate: 3e9, Loaded: bench.Latency{P50Us: 5}}}
			if i == 0 {
				runs[0], runs[1] = Run{}, Run{} // what a stalled run leaves: 0, which a logarithmic axis cannot show
			}
			series = append(series, Series{Case: c, Runs: runs})
		}
	}
	series[1].Runs = nil // it failed
	if err := m.draw(dir, series); err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, f := range m.figures {
		svg, err := os.ReadFile(filepath.Join(dir, f.name+".svg"))
		if err != nil || !strings.Contains(string(svg), f.title) {
			t.Errorf("%s: %v", f.name, err)
		}
		file, err := os.Open(filepath.Join(dir, f.name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := csv.NewReader(file).ReadAll()
		if file.Close(); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: "2;1.41421;2;1;3;2", true: "5;0;5;5;5;2"}[f.log]
		for _, line := range lines[1:] {
			points++
			if text := strings.Join(line[4:], ";"); text != want && text != "0;0;0;0;0;2" || line[0] != f.name || line[3] != f.label {
				t.Errorf("%v, not %s", line, want)
			}
		}
	}
	all := 0
	for _, f := range m.figures {
		all += len(f.curves) * len(m.nodes)
	}
	if points >= all || points < all-10 {
		t.Errorf("%d of %d points are drawn", points, all)
	}
	if err := (matrix{nodes: []int{2}, figures: []figure{{name: "empty"}}}).draw(t.TempDir(), nil); err == nil {
		t.Error("a figure without points is drawn")
	}
}
