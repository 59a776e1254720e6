package messages

import (
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

// figure is curves over the number of members.
type figure struct {
	name   string // of its files
	title  string
	label  string // of the y axis, with the unit
	log    bool   // logarithmic y axis
	curves []curve
	of     func(Run) float64
}

// curve is one line of a figure.
type curve struct {
	name string
	spec func(base Spec) Spec
}

// matrix is the figures: each spec is measured once, however many curves it is on.
type matrix struct {
	nodes   []int
	base    Spec
	figures []figure
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
func bySenders(name string, step func(Spec) Spec) (curves []curve) {
	for _, senders := range []string{All, Half, One} {
		who := map[string]string{All: "all send", Half: "half send", One: "one sends"}[senders]
		curves = append(curves, curve{name: name + who, spec: vary(step, func(s *Spec) { s.Senders = senders })})
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
	add := func(name, title, label string, of func(Run) float64, curves ...curve) *figure {
		return m.add(name, title+", 10 KiB", label, of, curves...)
	}
	gigabytes := func(r Run) float64 { return r.BytesRate / 1e9 }
	latency := func(r Run) float64 { return r.Loaded.P50Us }

	add("figure-03", "Figure 3: batching alone, one subgroup", throughputLabel, gigabytes,
		append(bySenders("batching, ", batchingOnly), bySenders("baseline, ", baseline)...)...)
	add("figure-05-throughput", "Figure 5: batching stage by stage, all send", throughputLabel, gigabytes, stages()...)
	add("figure-05-latency", "Figure 5: batching stage by stage, all send", latencyLabel, latency, stages()...).log = true
	add("figure-06", "Figure 6: window size, all send", throughputLabel, gigabytes, byWindow(windows)...)
	add("figure-08", "Figure 8: one active subgroup of several, baseline", throughputLabel, gigabytes, bySubgroups(subgroups, baseline)...)
	add("figure-09", "Figure 9: one active subgroup of several, optimised", throughputLabel, gigabytes, bySubgroups(subgroups, complete)...)
	add("figure-10", "Figure 10: some senders sleep after each message", throughputLabel, gigabytes, byDelay()...)
	add("figure-11", "Figure 11: nulls under continuous sending", throughputLabel, gigabytes,
		append(bySenders("with nulls, ", complete), bySenders("without, ", batchingOnly)...)...)
	add("figure-12", "Figure 12: all optimisations, all send", throughputLabel, gigabytes,
		curve{name: "baseline", spec: baseline}, curve{name: "batching", spec: batchingOnly}, curve{name: "batching and nulls", spec: complete})
	add("figure-15", "Figure 15: copying in and out", throughputLabel, gigabytes,
		append(bySenders("in place, ", complete), bySenders("copied, ", vary(complete, func(s *Spec) { s.Copy = true }))...)...)
	add("figure-16", "Figure 16: final throughput, one subgroup", throughputLabel, gigabytes,
		append(bySenders("optimised, ", complete), bySenders("baseline, ", baseline)...)...)
	add("figure-17", "Figure 17: final latency, one subgroup", latencyLabel, latency,
		append(bySenders("optimised, ", complete), bySenders("baseline, ", baseline)...)...).log = true
	return m
}

// add appends a figure.
func (m *matrix) add(name, title, label string, of func(Run) float64, curves ...curve) *figure {
	m.figures = append(m.figures, figure{name: name, title: title, label: label, of: of, curves: curves})
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
	on := func(fabric, name string, size int) curve {
		return curve{name: fabric + ", " + name, spec: vary(complete, func(s *Spec) {
			s.Fabric, s.SizeBytes = fabric, size
			s.Warmup *= time.Duration(1 + s.Nodes/8) // until many members have filled each other's rings
		})}
	}
	curves := []curve{on("shm", "100 B", 100), on("tcp", "100 B", 100), on("shm", "10 KiB", 10240), on("tcp", "10 KiB", 10240)}
	m.add("scale-cost", "Processor time of a message at each member", "ns per delivery", func(r Run) float64 { return 1e9 * bench.Ratio(r.cores, r.TotalRate) }, curves...).log = true
	m.add("scale-rate", "Deliveries of all members together", "millions per second", func(r Run) float64 { return r.TotalRate / 1e6 }, curves...).log = true
	m.add("scale-nulls", "Nulls per message", "nulls per message", func(r Run) float64 { return r.Nulls }, curves...)
	return m
}

func stages() []curve {
	stage := func(b Batching) func(Spec) Spec { return vary(baseline, func(s *Spec) { s.Batching = b }) }
	return []curve{
		{name: "baseline", spec: baseline},
		{name: "delivery", spec: stage(Batching{Deliver: true})},
		{name: "+ receive", spec: stage(Batching{Deliver: true, Receive: true})},
		{name: "+ send", spec: batchingOnly},
	}
}

// byWindow gives the ring room for the window, and not much more.
func byWindow(windows []int) (curves []curve) {
	for _, w := range windows {
		curves = append(curves, curve{name: fmt.Sprintf("window %d", w), spec: vary(complete, func(s *Spec) {
			s.Window = w
			s.RingBytes = 1 << bits.Len(uint(w*s.SizeBytes-1))
		})})
	}
	return curves
}

func bySubgroups(counts []int, step func(Spec) Spec) (curves []curve) {
	for _, n := range counts {
		name := fmt.Sprintf("%d subgroups", n)
		if n == 1 {
			name = "1 subgroup"
		}
		curves = append(curves, curve{name: name, spec: vary(step, func(s *Spec) { s.Subgroups = n })})
	}
	return curves
}

// byDelay delays the last sender, or the last half of them.
func byDelay() []curve {
	curves := []curve{{name: "no delay", spec: complete}}
	for _, half := range []bool{false, true} {
		for _, d := range []time.Duration{time.Microsecond, 100 * time.Microsecond, Forever} {
			who, length := "one sleeps ", d.String()
			if half {
				who = "half sleep "
			}
			if d == Forever {
				length = "forever"
			}
			curves = append(curves, curve{name: who + length, spec: vary(complete, func(s *Spec) {
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

// sets are the specs, in one set for each number of members.
func (m matrix) sets() (sets []set) {
	for _, nodes := range m.nodes {
		var s set
		for _, f := range m.figures {
			for _, c := range f.curves {
				spec := c.spec(m.at(nodes))
				s.Add(caseOf(spec.String(), spec))
			}
		}
		sets = append(sets, s)
	}
	return sets
}

func (m matrix) at(nodes int) Spec { return m.base.with(func(s *Spec) { s.Nodes = nodes }) }

// plotSize has room for the names of the curves.
var plotSize = show.PlotSize{Width: 624, Height: 340, Legend: 156}

// draw writes a plot and a CSV file for each figure: the means with the standard deviation, as the
// paper has them, and in the file also the medians and ranges. Specs that failed are left out.
func (m matrix) draw(dir string, series []Series) error {
	if len(m.figures) == 0 {
		return nil
	}
	byName := map[string]Series{}
	for _, s := range series {
		byName[s.Name] = s
	}
	errs := []error{os.MkdirAll(dir, 0o777)}
	for _, f := range m.figures {
		plot := show.Plot{Title: f.title, X: "members", Y: f.label, LogY: f.log, Size: plotSize}
		lines := [][]string{{"figure", "curve", "members", "y", "mean", "standard_deviation", "median", "min", "max", "runs"}}
		for _, c := range f.curves {
			line := show.PlotCurve{Name: c.name}
			for _, nodes := range m.nodes {
				values := byName[c.spec(m.at(nodes)).String()].Values(f.of)
				if len(values) == 0 {
					continue
				}
				mean, deviation := values.Mean()
				line.Points = append(line.Points, show.PlotPoint{X: nodes, Y: mean, Deviation: deviation})
				least, most := values.Range()
				cells := []string{f.name, c.name, strconv.Itoa(nodes), f.label}
				for _, v := range []float64{mean, deviation, values.Median(), least, most} {
					cells = append(cells, strconv.FormatFloat(v, 'g', 6, 64))
				}
				lines = append(lines, append(cells, strconv.Itoa(len(values))))
			}
			plot.Curves = append(plot.Curves, line)
		}
		path := filepath.Join(dir, f.name)
		errs = append(errs, show.CSV(path+".csv", lines), plot.Draw(path+".svg"))
	}
	return errors.Join(errs...)
}
