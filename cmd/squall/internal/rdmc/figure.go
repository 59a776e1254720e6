package rdmc

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/linkmodel"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Figure is curves over the number of members.
type Figure struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	YLabel string  `json:"y"`
	Curves []Curve `json:"curves"`

	logX, logY bool
	value      func(Point) float64
	group      string // what --figure calls it
}

// Curve is one line of a figure.
type Curve struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`

	settings []setting // that the points come from
}

// What figures show of a point.
var (
	milliseconds = func(p Point) float64 { return p.Seconds * 1e3 }
	skew         = func(p Point) float64 { return p.SkewSeconds * 1e3 }
	gigabytes    = func(p Point) float64 { return p.BytesRate / 1e9 }
	gigabits     = func(p Point) float64 { return p.BytesRate * 8 / 1e9 }
	left         = func(p Point) float64 { return p.Left }
	ofSteps      = func(p Point) float64 { return p.OfSteps }
)

const (
	megabyte = 1 << 20
	// timeLabel and skewLabel stand at axes and over tables.
	timeLabel = "until the last member has it (ms)"
	skewLabel = "from the first member done to the last (ms)"
)

// groups are what --figure may name, in their order.
var groups = []string{"algorithms", "scale", "overlap", "racks", "slow-link", "intake", "rdma"}

// flat are the schedules that know no racks.
var flat = []schedule.Algorithm{schedule.Sequential, schedule.Chain, schedule.Tree, schedule.Pipeline}

// all makes every figure. Racks are the racks of the links, and matter where the figure is about
// racks.
func all(l links, blockBytes int64) (figures []Figure) {
	base := setting{senders: 1, blockBytes: blockBytes, links: l}
	base.links.rackSize, base.links.oversubscription = 0, 0
	figures = append(figures, algorithms(base, 256*megabyte), algorithms(base, 8*megabyte))
	figures = append(figures, scale(base)...)
	figures = append(figures, overlap(base), racks(base, l), slowLink(base), intake(base), rdma())
	return figures
}

// curve has a point for each number of members; change makes it what it is.
func curve(name string, base setting, nodes []int, change func(*setting)) Curve {
	c := Curve{Name: name}
	for _, n := range nodes {
		s := base
		s.nodes = n
		change(&s)
		c.settings = append(c.settings, s)
	}
	return c
}

// through lists first, first + 1 … last.
func through(first, last int) (nodes []int) {
	for n := first; n <= last; n++ {
		nodes = append(nodes, n)
	}
	return nodes
}

// doubling lists 2, 4, 8 … last.
func doubling(last int) (nodes []int) {
	for n := 2; n <= last; n *= 2 {
		nodes = append(nodes, n)
	}
	return nodes
}

// algorithms has the shape of Figure 4 of the paper.
func algorithms(base setting, bytes int64) Figure {
	base.bytes = bytes
	f := Figure{
		Name: fmt.Sprintf("rdmc-algorithms-%d", bytes/megabyte), group: "algorithms",
		Title: fmt.Sprintf("%d MiB to a small group", bytes/megabyte), YLabel: timeLabel, value: milliseconds,
	}
	for _, a := range flat {
		f.Curves = append(f.Curves, curve(a.String(), base, through(2, 16), func(s *setting) { s.schedule = a }))
	}
	if base.links.intake == linkmodel.InTurn { // so that the best case is not taken for the only one
		f.Curves = append(f.Curves, curve("pipeline, as they come", base, through(2, 16), func(s *setting) {
			s.schedule, s.links.intake = schedule.Pipeline, linkmodel.AsTheyCome
		}))
	}
	return f
}

// scale has the shape of Figure 8, with every schedule, and shows beside the time how far apart
// members are done.
func scale(base setting) []Figure {
	base.bytes = 256 * megabyte
	f := Figure{Name: "rdmc-scale", group: "scale", Title: "256 MiB to many", YLabel: timeLabel, value: milliseconds, logX: true, logY: true}
	for _, a := range flat {
		f.Curves = append(f.Curves, curve(a.String(), base, doubling(1024), func(s *setting) { s.schedule = a }))
	}
	f.Curves = append(f.Curves, curve("hybrid, √n in a rack", base, doubling(1024)[1:], func(s *setting) {
		s.schedule, s.links.rackSize = schedule.Hybrid, 1<<(bits.Len(uint(s.nodes))/2)
	}))
	g := f
	g.Name, g.Title, g.YLabel, g.value = "rdmc-skew", "256 MiB to many", skewLabel, skew
	g.Curves = nil
	for _, c := range f.Curves {
		if c.settings[0].nodes == 2 { // a single receiver has no other one to differ from
			c.settings = c.settings[1:]
		}
		g.Curves = append(g.Curves, c)
	}
	return []Figure{f, g}
}

// sending is how many of the members send, and what a curve of that is called.
type sending struct {
	name string
	of   func(nodes int) int
}

var senders = []sending{
	{"all send", func(n int) int { return n }},
	{"half send", func(n int) int { return (n + 1) / 2 }},
	{"one sends", func(int) int { return 1 }},
}

// overlap has the shape of Figure 10: groups with the same members and different senders.
func overlap(base setting) Figure {
	base.bytes, base.schedule = 64*megabyte, schedule.Pipeline
	f := Figure{Name: "rdmc-overlap", group: "overlap", Title: "Overlapping groups, 64 MiB of each sender", YLabel: "messages of all senders (Gbit/s)", value: gigabits}
	for _, who := range senders {
		f.Curves = append(f.Curves, curve(who.name, base, through(2, 16), func(s *setting) { s.senders = who.of(s.nodes) }))
	}
	return f
}

// racks is overlap across racks, with a pipeline that knows nothing of them, and with the hybrid.
func racks(base setting, l links) Figure {
	base.bytes = 64 * megabyte
	base.links.rackSize, base.links.oversubscription = l.rackSize, l.oversubscription
	f := Figure{
		Name: "rdmc-racks", group: "racks", YLabel: "messages of all senders (Gbit/s)", value: gigabits,
		Title: fmt.Sprintf("Racks of %d, oversubscribed %g:1, 64 MiB of each sender", l.rackSize, l.oversubscription),
	}
	for _, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Hybrid} {
		for _, who := range senders {
			f.Curves = append(f.Curves, curve(a.String()+", "+who.name, base, []int{8, 16, 24, 32, 48, 64}, func(s *setting) {
				s.schedule, s.senders = a, who.of(s.nodes)
			}))
		}
	}
	return f
}

// slowLink is §4.5: what one link at half the rate leaves of the bandwidth, beside the paper's
// formula.
func slowLink(base setting) Figure {
	base.bytes, base.undisturbed = 1024*base.blockBytes, true
	base.links.slowLinks = []linkmodel.SlowLink{{A: 0, B: 1, Rate: base.links.rate / 2}}
	f := Figure{Name: "rdmc-slow-link", group: "slow-link", Title: "One link at half the rate, 1024 blocks", YLabel: "bandwidth left", value: left, logX: true}
	for _, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Chain, schedule.Tree} {
		f.Curves = append(f.Curves, curve(a.String(), base, doubling(256), func(s *setting) { s.schedule = a }))
	}
	formula := Curve{Name: "l·T′ / (T + (l − 1)·T′)"}
	for _, n := range doubling(256) {
		l := math.Log2(float64(n))
		formula.Points = append(formula.Points, Point{Nodes: n, Schedule: "formula", Senders: 1, Left: l * 0.5 / (1 + (l-1)*0.5)})
	}
	f.Curves = append(f.Curves, formula)
	return f
}

// intake is what it costs not to take blocks in turn.
func intake(base setting) Figure {
	base.bytes, base.schedule = 256*base.blockBytes, schedule.Pipeline
	f := Figure{Name: "rdmc-intake", group: "intake", Title: "The order in which receivers take blocks, 256 blocks", YLabel: "time over that of the steps", value: ofSteps}
	for _, in := range intakes {
		f.Curves = append(f.Curves, curve("pipeline, "+strings.ReplaceAll(in.name, "-", " "), base, through(2, 33), func(s *setting) { s.links.intake = in.intake }))
	}
	return f
}

// rdma is what links of RDMA allow ordered messages of 10 KB, each of which its sender writes to
// every member, next to what the Spindle paper measured on such links. It has links of its own.
func rdma() Figure {
	const message, messages = 10_000, 256
	base := setting{schedule: schedule.Sequential, bytes: message * messages, blockBytes: message, links: links{rate: 12.5e9, latency: 1200 * time.Nanosecond}}
	f := Figure{
		Name: "rdma-spindle", group: "rdma", Title: "Messages of 10 KB, 100 Gbit/s, 1.2 µs", YLabel: "delivered at each member (GB/s)", value: gigabytes,
	}
	for _, who := range senders {
		f.Curves = append(f.Curves, curve("model, "+who.name, base, through(2, 16), func(s *setting) { s.senders = who.of(s.nodes) }))
	}
	published := func(name string, gigabytes float64, nodes ...int) {
		c := Curve{Name: name}
		for _, n := range nodes {
			c.Points = append(c.Points, Point{Nodes: n, Schedule: "published", BytesRate: gigabytes * 1e9})
		}
		f.Curves = append(f.Curves, c)
	}
	published("Spindle, all send", 9.7, 16)
	published("batching alone, peak", 8.03, 11)
	published("Derecho before it", 1, 16)
	return f
}

// intakes are what --intake may name.
var intakes = []struct {
	name   string
	intake linkmodel.Intake
}{
	{"in-turn", linkmodel.InTurn},
	{"as-they-come", linkmodel.AsTheyCome},
}

// plotSize has room for the longest name of a curve.
var plotSize = show.PlotSize{Width: 610, Height: 284, Legend: 184}

// draw writes the figure to a file, as SVG.
func (f Figure) draw(path string) error {
	p := show.Plot{Title: f.Title, X: "members", Y: f.YLabel, LogX: f.logX, LogY: f.logY, Size: plotSize}
	for _, c := range f.Curves {
		curve := show.PlotCurve{Name: c.Name}
		for _, at := range c.Points {
			curve.Points = append(curve.Points, show.PlotPoint{X: at.Nodes, Y: f.value(at)})
		}
		p.Curves = append(p.Curves, curve)
	}
	return p.Draw(path)
}
