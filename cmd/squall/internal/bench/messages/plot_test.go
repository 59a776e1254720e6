package messages

import (
	"encoding/csv"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// canned is a figure with everything that a plot can have.
func canned(log bool) Figure {
	f := Figure{Name: "figure-00", Title: "Figure 0: a test", YLabel: "delivered (GB/s)", Log: log}
	for i, name := range []string{"batching", "baseline", "never measured"} {
		c := Curve{Name: name}
		for _, nodes := range []int{2, 4, 16} {
			if i < 2 {
				v := bench.Values{float64(nodes * (i + 1)), float64(nodes*(i+1)) * 1.5}
				mean, deviation := v.Mean()
				c.Points = append(c.Points, Point{nodes, mean, deviation, v})
			}
		}
		f.Curves = append(f.Curves, c)
	}
	// What a stalled run leaves: 0, which a logarithmic axis cannot show.
	f.Curves[1].Points = append(f.Curves[1].Points, Point{Nodes: 8, Values: bench.Values{0}})
	return f
}

func TestAFigureIsDrawn(t *testing.T) {
	for _, log := range []bool{false, true} {
		f, dir := canned(log), t.TempDir()
		if err := f.draw(filepath.Join(dir, f.Name+".svg")); err != nil {
			t.Fatal(err)
		}
		text := svgText(t, filepath.Join(dir, f.Name+".svg"))
		for _, want := range []string{f.Title, f.YLabel, "members", "16", "batching", "baseline"} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing of %q in %s", want, text)
			}
		}
		if strings.Contains(text, "never measured") {
			t.Error("the legend names an empty curve")
		}
	}
}

// svgText is the text of an SVG file, which must be well-formed.
func svgText(t *testing.T, path string) string {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text strings.Builder
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if chars, ok := token.(xml.CharData); ok {
			text.Write(chars)
		}
	}
}

func TestAFigureWithoutPointsIsAnError(t *testing.T) {
	if err := (Figure{Name: "empty"}).draw(filepath.Join(t.TempDir(), "empty.svg")); err == nil {
		t.Error("no error")
	}
}

func TestAFiguresPointsAreWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figure.csv")
	if err := canned(false).writeCSV(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil || len(lines) != 1+3+4 || strings.Join(lines[1], ";") != "figure-00;batching;2;delivered (GB/s);2.5;0.707107;2.5;2;3;2" {
		t.Fatal(lines, err)
	}
}

func TestTheMatrixHasThePapersFiguresAndMeasuresEachSpecOnce(t *testing.T) {
	for _, quick := range []bool{false, true} {
		m := newMatrix("auto", quick)
		names := ""
		for _, f := range m.figures {
			names += f.Name + " "
		}
		for _, number := range []string{"03", "05", "06", "08", "09", "10", "11", "12", "15", "16", "17"} {
			if !strings.Contains(names, "figure-"+number) {
				t.Errorf("figure %s is missing among %s", number, names)
			}
		}
		for _, set := range m.sets() {
			seen := map[string]bool{}
			for _, c := range set.Cases {
				if err := c.Spec.(*Spec).Validate(); err != nil || seen[c.Spec.(*Spec).key()] {
					t.Errorf("%s: %v", c.Name, err)
				}
				seen[c.Spec.(*Spec).key()] = true
			}
		}
	}
}

func TestAMeasuredSpecIsOnAllCurvesThatItBelongsTo(t *testing.T) {
	m := newMatrix("auto", true)
	m.nodes = []int{3}
	var series []Series
	for _, c := range m.sets()[0].Cases {
		series = append(series, Series{Case: c, Runs: []Run{{BytesRate: 1e9, Loaded: bench.Latency{P50Us: 5}}, {BytesRate: 3e9, Loaded: bench.Latency{P50Us: 5}}}})
	}
	m.take(series)
	for _, f := range m.figures {
		for _, c := range f.Curves {
			if want := map[bool]float64{false: 2, true: 5}[f.Log]; len(c.Points) != 1 || c.Points[0].Mean != want || c.Points[0].Nodes != 3 {
				t.Errorf("%s, %s: %+v", f.Name, c.Name, c.Points)
			}
		}
	}
}
