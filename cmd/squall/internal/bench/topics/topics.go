// Package topics is the workload of "squall bench dds": a writer of one topic and readers in other
// processes, pings and pongs, next to the same of CycloneDDS's ddsperf; and the experiment of the
// Spindle paper's Figure 18.
package topics

import (
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
)

// options are the suite's own flags.
type options struct {
	base         spec
	ddsperf, out string
	figure       bool
}

// NewCommand returns the command "dds", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := &options{base: spec{Fabric: "shm", Level: atomic, Warmup: 500 * time.Millisecond, Duration: 2 * time.Second}}
	return o.suite().Command()
}

func (o *options) suite() *bench.Suite[run] {
	return &bench.Suite[run]{
		Use:   "dds",
		Short: "Measure topics: a writer and readers in processes, next to ddsperf",
		Long: `Dds starts a process with a writer and processes with readers of one topic, reliable and KEEP_ALL, and measures samples a second at the slowest reader; pings and
pongs of two processes; one active topic among forty; the levels of storage; a reader and a writer of a client of a relay, next to those of members; and a process that joins late
and gets a long history. Samples are written in place and heard by listeners, unless the row says that they are
written and taken. Where CycloneDDS's ddsperf is installed (Debian: cyclonedds-tools), it is measured in the same run. With --figure18, the experiment of the
Spindle paper: one writer, one reader and more, four levels of storage, with the optimisations of the protocol and without.`,
		Example: `  squall bench dds
  squall bench dds --only stream --readers 2 --markdown
  squall bench dds --figure18 --readers 3 --out docs/plots`,
		Runs: 3, Warmup: &o.base.Warmup, Duration: &o.base.Duration, Title: func() string { return "one writer" },
		Flags: o.flags, Check: o.check, Sets: o.figureSets, After: o.drawFigure,
		Sections: []bench.Section[run]{
			{Name: "stream", Set: o.streamBars}, {Name: "trips", Set: o.tripBars}, {Name: "topics", Set: o.topicBars},
			{Name: "levels", Set: o.levelBars}, {Name: "relay", Set: o.relayBars}, {Name: "late", Set: o.lateBars},
		},
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	f.IntVar(&o.base.Readers, "readers", 2, "processes with a reader; with --figure18, up to so many")
	f.IntVar(&o.base.SizeBytes, "size", 10<<10, "bytes of a sample, of the levels of storage; streams have 100 B and 10 KiB, pings 100 B")
	f.StringVar(&o.base.Fabric, "fabric", o.base.Fabric, "of the levels of storage, relays and late joiners: shm or tcp")
	f.StringVar(&o.base.Dir, "dir", ".", "where logs are made, and removed afterwards: on the disk that is to be measured")
	path, _ := exec.LookPath("ddsperf") // without it, its rows say so
	f.StringVar(&o.ddsperf, "ddsperf", path, "CycloneDDS's ddsperf, which is measured in the same run")
	f.BoolVar(&o.figure, "figure18", false, "measure what Figure 18 of the Spindle paper shows, instead of the rest")
	f.StringVar(&o.out, "out", "", "with --figure18: a directory for the plot (dds-figure-18.svg)")
}

func (o *options) check(_ *pflag.FlagSet, faults *errs.Faults) {
	faults.If(o.base.SizeBytes < 16 || o.base.SizeBytes > 128<<10,
		"--size is %d: 16 bytes to 128 KiB", o.base.SizeBytes)
	faults.If(o.base.Readers < 1 || o.base.Readers > 15, "--readers is %d: 1 to 15", o.base.Readers)
	faults.If(o.base.Fabric != "shm" && o.base.Fabric != "tcp", "--fabric %s: shm or tcp", o.base.Fabric)
}

type (
	set       = bench.Set[run]
	benchCase = bench.Case[run]
)

func rateOf(r run) float64   { return r.Rate }
func medianOf(r run) float64 { return r.Latency.P50Us }

func caseOf(s spec) benchCase { return benchCase{Name: s.name(), Spec: s, Measure: s.measure} }

// against adds cases that are held against one of ddsperf.
func (o *options) against(s *set, unit string, of func(run) float64, specs []spec, asked []bench.Asked) {
	limit := ddsperf{o.ddsperf, o.base}.limit(specs[0])
	for i, x := range specs {
		s.Compare(caseOf(x), unit, of, asked[i], limit)
	}
}

func (o *options) streamBars(s *set) {
	for _, bytes := range []int{100, 10 << 10} {
		shm := o.base.with(func(s *spec) { s.SizeBytes, s.Fabric = bytes, "shm" })
		tcp := shm.with(func(s *spec) { s.Fabric = "tcp" })
		taken := shm.with(func(s *spec) { s.Copy = true })
		specs, asked := []spec{shm, tcp, taken}, []bench.Asked{{AtLeast: 5}, {AtLeast: 2}, {}}
		if bytes > 100 {
			asked[0].AtLeast = 12
		} else {
			specs = append(specs, shm.with(func(s *spec) { s.Codec = "xcdr" }))
			asked = append(asked, bench.Asked{AtLeast: 2})
		}
		o.against(s, "samples/s", rateOf, specs, asked)
		s.Alone(shm.name()+": allocations of a sample", "", caseOf(shm), func(r run) float64 { return r.Allocs }, bench.Asked{Under: 0.01})
	}
}

func (o *options) tripBars(s *set) {
	shm := o.base.with(func(s *spec) { s.Trips, s.Readers, s.SizeBytes, s.Fabric = true, 1, 100, "shm" })
	tcp := shm.with(func(s *spec) { s.Fabric = "tcp" })
	o.against(s, "µs", medianOf, []spec{shm, tcp}, []bench.Asked{{AtMost: 0.3}, {AtMost: 1}})
}

func (o *options) topicBars(s *set) {
	one := o.base.with(func(s *spec) { s.SizeBytes, s.Fabric = 100, "shm" })
	many := one.with(func(s *spec) { s.Topics = 40 })
	s.Compare(caseOf(many), "samples/s", rateOf, bench.Asked{AtLeast: 0.85}, caseOf(one))
}

// levelBars hold the levels of storage against each other, as Figure 18 of the paper does.
func (o *options) levelBars(s *set) {
	at := func(l level, plain bool) spec {
		return o.base.with(func(s *spec) { s.Level, s.Plain = l, plain })
	}
	bar := func(figure, limit spec, a bench.Asked) {
		s.Compare(caseOf(figure), "samples/s", rateOf, a, caseOf(limit))
	}
	bar(at(atomic, false), at(unordered, false), bench.Asked{AtLeast: 0.9})
	// A history refers to the ring where that has room for it, and else copies.
	long := at(atomic, false).with(func(s *spec) { s.RingBytes = historyRingBytes })
	bar(long.with(func(s *spec) { s.Level = transient }), long, bench.Asked{AtLeast: 0.6})
	bar(at(transient, false), at(atomic, false), bench.Asked{})
	bar(at(persistent, false), at(durable, false), bench.Asked{AtLeast: 0.8})
	for _, l := range levels {
		bar(at(l, false), at(l, true), bench.Asked{AtLeast: 1.3})
	}
}

// relayBars hold a client's reader, and a client's writer, against those of a member. A client that
// is slower than the order loses samples of a volatile topic.
func (o *options) relayBars(s *set) {
	for _, bytes := range []int{100, 10 << 10} {
		with := func(c client) benchCase {
			return caseOf(o.base.with(func(s *spec) { s.SizeBytes, s.Readers, s.Copy, s.Client = bytes, 1, true, c }))
		}
		reader := with(readerClient)
		for _, c := range []benchCase{reader, with(writerClient)} {
			s.Compare(c, "samples/s", rateOf, bench.Asked{}, with(noClient))
		}
		s.Alone(reader.Name+": lost", "%", reader, func(r run) float64 { return r.Lost }, bench.Asked{})
	}
}

// lateBars have a process join late, for histories of several lengths.
func (o *options) lateBars(s *set) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		x := caseOf(o.base.with(func(s *spec) {
			s.SizeBytes, s.Readers, s.History = 100, 1, n
			s.Duration = max(s.Duration, time.Second+time.Duration(n)*4*time.Microsecond) // it is over within the window
		}))
		var took, gap bench.Asked
		if n == 1_000_000 {
			took.Under, gap.AtMost = 3000, 50
		}
		s.Alone(x.Name+": until it is there", "ms", x, func(r run) float64 { return r.TookMs }, took)
		s.Alone(x.Name+": longest gap of another reader", "ms", x, func(r run) float64 { return r.GapMs }, gap)
	}
}

// figureSize is the size of the plot.
var figureSize = show.PlotSize{Width: 680, Height: 340, Legend: 198}

// figureSpecs are each level for one reader and more, with the protocol's optimisations and
// without.
func (o *options) figureSpecs() (all []spec) {
	for _, l := range levels {
		for _, plain := range []bool{false, true} {
			for n := 1; n <= o.base.Readers; n++ {
				all = append(all, o.base.with(func(s *spec) { s.Level, s.Plain, s.Readers = l, plain, n }))
			}
		}
	}
	return all
}

func (o *options) figureSets() []set {
	if !o.figure {
		return nil
	}
	var s set
	for _, x := range o.figureSpecs() {
		s.Compare(caseOf(x), "samples/s", rateOf, bench.Asked{})
	}
	return []set{s}
}

// drawFigure draws what was measured, a curve for each level with optimisations and without.
func (o *options) drawFigure(r *bench.Report[run]) error {
	if !o.figure || o.out == "" {
		return nil
	}
	p := show.Plot{Title: "One writer, " + bench.Size(o.base.SizeBytes) + ", " + o.base.Fabric, X: "readers", Y: "GB/s at each reader", LogY: true, Size: figureSize}
	for i, x := range o.figureSpecs() {
		name := string(x.Level)
		if x.Plain {
			name += ", without batching"
		}
		if n := len(p.Curves); n == 0 || p.Curves[n-1].Name != name {
			p.Curves = append(p.Curves, show.PlotCurve{Name: name})
		}
		if mean, deviation := r.Series[i].Values(rateOf).Mean(); mean > 0 {
			scale, curve := float64(x.SizeBytes)/1e9, &p.Curves[len(p.Curves)-1]
			curve.Points = append(curve.Points, show.PlotPoint{X: x.Readers, Y: mean * scale, Deviation: deviation * scale})
		}
	}
	return p.Draw(filepath.Join(o.out, "dds-figure-18.svg"))
}
