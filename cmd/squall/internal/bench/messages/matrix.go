package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// Figure is one of the paper's figures, as curves over the number of members.
type Figure struct {
	Name   string // of its files
	Title  string
	YLabel string // with the unit
	Log    bool   // logarithmic y axis
	Curves []Curve
	of     func(Run) float64
}

// Curve is one line of a figure.
type Curve struct {
	Name   string
	Points []Point
	spec   func(base Spec) Spec
}

// Point is the figure's value for so many members: mean and standard deviation, as the paper has
// them, and the values.
type Point struct {
	Nodes           int
	Mean, Deviation float64
	Values          bench.Values
}

// matrix is the figures: each spec is measured once, however many curves it is on.
type matrix struct {
	nodes   []int
	base    Spec
	figures []Figure
}

// Specs of the paper's steps: the baseline takes one message at a time at each stage and sends no
// nulls.
func baseline(s Spec) Spec {
	return s.with(func(s *Spec) { s.Batching, s.Nulls = Batching{}, false })
}

func batchingOnly(s Spec) Spec { return s.with(func(s *Spec) { s.Nulls = false }) }

func complete(s Spec) Spec { return s }

// vary makes curve specs out of one step and one change.
func vary(step func(Spec) Spec, change func(*Spec)) func(Spec) Spec {
	return func(s Spec) Spec { return step(s).with(change) }
}

// bySenders are three curves, one for each pattern of senders.
func bySenders(name string, step func(Spec) Spec) (curves []Curve) {
	for _, senders := range []string{All, Half, One} {
		who := map[string]string{All: "all send", Half: "half send", One: "one sends"}[senders]
		curves = append(curves, Curve{Name: name + who, spec: vary(step, func(s *Spec) { s.Senders = senders })})
	}
	return curves
}

const (
	throughputLabel = "delivered by the slowest member (GB/s)"
	latencyLabel    = "latency from filling to delivery, p50 (µs)"
)

func newMatrix(fabric string, quick bool) matrix {
	base := DefaultSpec()
	base.Fabric, base.Warmup, base.Duration = fabric, 100*time.Millisecond, 500*time.Millisecond
	m := matrix{nodes: []int{2, 3, 4, 8, 16}, base: base}
	windows, subgroups := []int{4, 16, 128, 512}, []int{1, 2, 5, 10, 50}
	if quick {
		m.nodes, m.base.Warmup, m.base.Duration = []int{2, 3, 4}, 50*time.Millisecond, 250*time.Millisecond
		windows, subgroups = []int{4, 16, 128}, []int{1, 10, 50}
	}
	add := func(name, title, label string, of func(Run) float64, curves ...Curve) *Figure {
		return m.add(name, title+", 10 KiB", label, of, curves...)
	}
	gigabytes := func(r Run) float64 { return r.BytesRate / 1e9 }
	latency := func(r Run) float64 { return r.Loaded.P50Us }

	add("figure-03", "Figure 3: batching alone, one subgroup", throughputLabel, gigabytes,
		append(bySenders("batching, ", batchingOnly), bySenders("baseline, ", baseline)...)...)
	add("figure-05-throughput", "Figure 5: batching stage by stage, all send", throughputLabel, gigabytes, stages()...)
	add("figure-05-latency", "Figure 5: batching stage by stage, all send", latencyLabel, latency, stages()...).Log = true
	add("figure-06", "Figure 6: window size, all send", throughputLabel, gigabytes, byWindow(windows)...)
	add("figure-08", "Figure 8: one active subgroup of several, baseline", throughputLabel, gigabytes, bySubgroups(subgroups, baseline)...)
	add("figure-09", "Figure 9: one active subgroup of several, optimised", throughputLabel, gigabytes, bySubgroups(subgroups, complete)...)
	add("figure-10", "Figure 10: some senders sleep after each message", throughputLabel, gigabytes, byDelay()...)
	add("figure-11", "Figure 11: nulls under continuous sending", throughputLabel, gigabytes,
		append(bySenders("with nulls, ", complete), bySenders("without, ", batchingOnly)...)...)
	add("figure-12", "Figure 12: all optimisations, all send", throughputLabel, gigabytes,
		Curve{Name: "baseline", spec: baseline}, Curve{Name: "batching", spec: batchingOnly}, Curve{Name: "batching and nulls", spec: complete})
	add("figure-15", "Figure 15: copying in and out", throughputLabel, gigabytes,
		append(bySenders("in place, ", complete), bySenders("copied, ", vary(complete, func(s *Spec) { s.Copy = true }))...)...)
	add("figure-16", "Figure 16: final throughput, one subgroup", throughputLabel, gigabytes,
		append(bySenders("optimised, ", complete), bySenders("baseline, ", baseline)...)...)
	add("figure-17", "Figure 17: final latency, one subgroup", latencyLabel, latency,
		append(bySenders("optimised, ", complete), bySenders("baseline, ", baseline)...)...).Log = true
	return m
}

// add appends a figure.
func (m *matrix) add(name, title, label string, of func(Run) float64, curves ...Curve) *Figure {
	m.figures = append(m.figures, Figure{Name: name, Title: title, YLabel: label, of: of, Curves: curves})
	return &m.figures[len(m.figures)-1]
}

// newScale is what a message costs, and how many are delivered, in groups of 2 to 64 members that
// all send.
func newScale(quick bool) matrix {
	base := DefaultSpec()
	base.Warmup, base.Duration = 500*time.Millisecond, 2*time.Second
	m := matrix{nodes: []int{2, 3, 4, 8, 16, 32, 64}, base: base}
	if quick {
		m.nodes, m.base.Warmup, m.base.Duration = []int{2, 3, 4}, 50*time.Millisecond, 250*time.Millisecond
	}
	curve := func(fabric, name string, size int) Curve {
		return Curve{Name: fabric + ", " + name, spec: vary(complete, func(s *Spec) {
			s.Fabric, s.SizeBytes = fabric, size
			s.Warmup *= time.Duration(1 + s.Nodes/8) // until many members have filled each other's rings
		})}
	}
	curves := func() []Curve { // each figure fills its own
		return []Curve{curve("shm", "100 B", 100), curve("tcp", "100 B", 100), curve("shm", "10 KiB", 10240), curve("tcp", "10 KiB", 10240)}
	}
	m.add("scale-cost", "Processor time of a message at each member", "ns per delivery", func(r Run) float64 { return 1e9 * bench.Ratio(r.cores, r.TotalRate) }, curves()...).Log = true
	m.add("scale-rate", "Deliveries of all members together", "millions per second", func(r Run) float64 { return r.TotalRate / 1e6 }, curves()...).Log = true
	m.add("scale-nulls", "Nulls per message", "nulls per message", func(r Run) float64 { return r.Nulls }, curves()...)
	return m
}

func stages() []Curve {
	stage := func(b Batching) func(Spec) Spec { return vary(baseline, func(s *Spec) { s.Batching = b }) }
	return []Curve{
		{Name: "baseline", spec: baseline},
		{Name: "delivery", spec: stage(Batching{Deliver: true})},
		{Name: "+ receive", spec: stage(Batching{Deliver: true, Receive: true})},
		{Name: "+ send", spec: batchingOnly},
	}
}

// byWindow gives the ring room for the window, and not much more.
func byWindow(windows []int) (curves []Curve) {
	for _, w := range windows {
		curves = append(curves, Curve{Name: fmt.Sprintf("window %d", w), spec: vary(complete, func(s *Spec) {
			s.Window = w
			s.RingBytes = 1 << bits.Len(uint(w*s.SizeBytes-1))
		})})
	}
	return curves
}

func bySubgroups(counts []int, step func(Spec) Spec) (curves []Curve) {
	for _, n := range counts {
		name := fmt.Sprintf("%d subgroups", n)
		if n == 1 {
			name = "1 subgroup"
		}
		curves = append(curves, Curve{Name: name, spec: vary(step, func(s *Spec) { s.Subgroups = n })})
	}
	return curves
}

// byDelay delays the last sender, or the last half of them.
func byDelay() []Curve {
	curves := []Curve{{Name: "no delay", spec: complete}}
	for _, half := range []bool{false, true} {
		for _, d := range []time.Duration{time.Microsecond, 100 * time.Microsecond, Forever} {
			who, length := "one sleeps ", d.String()
			if half {
				who = "half sleep "
			}
			if d == Forever {
				length = "forever"
			}
			curves = append(curves, Curve{Name: who + length, spec: vary(complete, func(s *Spec) {
				delayed := 1
				if half {
					delayed = s.Nodes / 2
				}
				s.Delays = map[int]time.Duration{}
				for node := s.Nodes - delayed + 1; node <= s.Nodes; node++ {
					s.Delays[node] = d
				}
			})})
		}
	}
	return curves
}

// key tells specs apart.
func (s Spec) key() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // it holds numbers and strings only
	}
	return string(b)
}

// sets are the distinct specs, in one set for each number of members.
func (m matrix) sets() (sets []set) {
	for _, nodes := range m.nodes {
		var s set
		seen := map[string]bool{}
		for _, f := range m.figures {
			for _, c := range f.Curves {
				spec := c.spec(m.at(nodes))
				if key := spec.key(); !seen[key] {
					seen[key] = true
					s.Add(caseOf(spec.String(), spec))
				}
			}
		}
		sets = append(sets, s)
	}
	return sets
}

func (m matrix) at(nodes int) Spec { return m.base.with(func(s *Spec) { s.Nodes = nodes }) }

// take puts what was measured on the curves. Specs that failed are left out.
func (m matrix) take(series []Series) {
	byKey := map[string]Series{}
	for _, s := range series {
		byKey[s.Spec.(*Spec).key()] = s
	}
	for i := range m.figures {
		f := &m.figures[i]
		for j := range f.Curves {
			c := &f.Curves[j]
			for _, nodes := range m.nodes {
				values := byKey[c.spec(m.at(nodes)).key()].Values(f.of)
				if len(values) == 0 {
					continue
				}
				mean, deviation := values.Mean()
				c.Points = append(c.Points, Point{nodes, mean, deviation, values})
			}
		}
	}
}

// draw writes a CSV file and a plot for each figure.
func (m matrix) draw(dir string, series []Series) error {
	if len(m.figures) == 0 {
		return nil
	}
	m.take(series)
	errs := []error{os.MkdirAll(dir, 0o777)}
	for _, f := range m.figures {
		path := filepath.Join(dir, f.Name)
		errs = append(errs, f.writeCSV(path+".csv"), f.draw(path+".svg"))
	}
	return errors.Join(errs...)
}

func (f Figure) writeCSV(path string) error {
	lines := [][]string{{"figure", "curve", "members", "y", "mean", "standard_deviation", "median", "min", "max", "runs"}}
	for _, c := range f.Curves {
		for _, p := range c.Points {
			least, most := p.Values.Range()
			line := []string{f.Name, c.Name, strconv.Itoa(p.Nodes), f.YLabel}
			for _, v := range []float64{p.Mean, p.Deviation, p.Values.Median(), least, most} {
				line = append(line, strconv.FormatFloat(v, 'g', 6, 64))
			}
			lines = append(lines, append(line, strconv.Itoa(len(p.Values))))
		}
	}
	return show.CSV(path, lines)
}

// plotSize has room for the names of the curves.
var plotSize = show.PlotSize{Width: 624, Height: 340, Legend: 156}

// draw writes the figure to a file, as SVG.
func (f Figure) draw(path string) error {
	p := show.Plot{Title: f.Title, X: "members", Y: f.YLabel, LogY: f.Log, Size: plotSize}
	for _, c := range f.Curves {
		curve := show.PlotCurve{Name: c.Name}
		for _, at := range c.Points {
			curve.Points = append(curve.Points, show.PlotPoint{X: at.Nodes, Y: at.Mean, Deviation: at.Deviation})
		}
		p.Curves = append(p.Curves, curve)
	}
	return p.Draw(path)
}
