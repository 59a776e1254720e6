package show

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var size = PlotSize{Width: 600, Height: 300, Legend: 150}

// drawn draws a plot, and checks that it is well-formed.
func drawn(t *testing.T, p Plot) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plot.svg")
	if err := p.Draw(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := d.Token(); err == io.EOF {
			return string(text)
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
}

func TestAPlotPutsPointsWhereTheAxesSay(t *testing.T) {
	p := Plot{Title: "a < b", X: "members", Y: "ms", Size: size, Curves: []PlotCurve{{"one & two", []PlotPoint{{2, 0, 0}, {4, 100, 3}}}}}
	text := drawn(t, p)
	for _, want := range []string{
		`>a &lt; b<`, `>one &amp; two<`, `>members<`, `>ms<`, `>100<`,
		`d="M66.0 258.0L436.0 `, // from the origin to the right end
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	p.LogX, p.LogY = true, true
	p.Curves[0].Points = []PlotPoint{{1, 1, 0}, {4, 10, 50}, {16, 100, 0}, {32, 0, 0}}
	if text = drawn(t, p); !strings.Contains(text, `d="M66.0 258.0L214.0 147.0L362.0 36.0"`) {
		t.Errorf("a line on logarithmic axes is not straight, or shows 0:\n%s", text)
	}
}

func TestAPlotOfOnePointOrOfZerosIsDrawn(t *testing.T) {
	for _, p := range []PlotPoint{{3, 7, 0}, {3, 0, 0}, {0, 0, 0}} {
		for _, log := range []bool{false, true} {
			plot := Plot{Size: size, LogY: log, Curves: []PlotCurve{{"one", []PlotPoint{p}}}}
			if p.Y == 0 && log {
				if err := plot.Draw(filepath.Join(t.TempDir(), "plot.svg")); err == nil {
					t.Error("a plot without a point was drawn")
				}
				continue
			}
			if text := drawn(t, plot); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("%+v:\n%s", p, text)
			}
		}
	}
}
