// Package rdmc is the command "squall bench rdmc": it measures how long a large message takes to
// all nodes, by each schedule.
//
// Life of a run: a process per node, on hosts of a lab or on loopback → they prepare: groups are
// open everywhere, buffers are allocated and touched, the root's is filled → all start at one
// instant → each notes when it has the whole message → when all have it, each reports its times,
// its processor time and its greatest memory, and checks every byte → the groups are closed. Runs
// of all cases take turns, so that other work of the machine affects all of them. The processes,
// and their connections, stay for all runs with as many nodes.
//
// All processes are on one machine and share its monotonic clock, so the times of different
// processes can be compared.
//
// Terms. The ideal time is the message's bytes at the rate of a link, and the block time that of
// one block. The skew is the time from the first receiver's completion to the last one's, in block
// times. Processor time is that of all nodes, per GB that a
// receiver got. Next to it stands that of the whole machine: the kernel passes packets on in
// interrupts, and charges their time to the process that they interrupt, or to no process on an
// idle core, so that a program that leaves the cores idle looks cheaper than it is. Memory is the
// most that a receiver had in use, less what it had in use, with its buffer, before the message
// came.
//
// Limits, measured in the same run: plain TCP, with which the root sends the message to one
// receiver after another; one copy of the message in memory by each receiver at once; MPI_Bcast of
// other programs in the same lab.
package rdmc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

// options are the command's flags.
type options struct {
	nodes     []int
	size      string
	blockSize string
	schedules []string
	runs      int
	local     bool
	lab       string
	plain     bool
	mpi       string
	json      bool

	slowLink, overlap, memcpy, bars bool

	bytes, block int
	algorithms   []schedule.Algorithm
	rate         netlab.Rate // 0: the default
	rivals       []rival
	given        func(flag string) bool
}

// allSchedules are the schedules that the table lists by default.
var allSchedules = []string{"auto", "pipeline", "chain", "tree", "sequential", "hybrid"}

// Bounds of what can be asked for.
const (
	maxNodes = 64
	maxBytes = 16 << 30
	maxRuns  = 100
)

// NewCommand returns the command "rdmc". It belongs to "bench".
func NewCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "rdmc",
		Short: "Measure how long a large message takes to many nodes",
		Long: `Rdmc sends a large message from one node to all others, by each schedule, and prints how long it took until the last one had it whole;
next to it the time that its bytes take on one link, plain TCP to one receiver after another, and other programs if they are given.

Every node is a process. By default each has a host of its own: network namespaces on a bridge, with links of 400 Mbit/s each way, or 200
with 16 nodes or more (needs root, ip and tc). With --local they are all on loopback.`,
		Example: `  squall bench rdmc                                # all schedules, 64 MiB to 2, 4 and 8 nodes
  squall bench rdmc --nodes 3,5 --size 8MiB --schedule auto,pipeline
  squall bench rdmc --lab 1gbit --nodes 4 --runs 5
  squall bench rdmc --local --nodes 4              # on loopback, as anybody
  squall bench rdmc --nodes 8 --size 1MiB --mpi ./mpi
  squall bench rdmc --slow-link                    # what one slow link costs
  squall bench rdmc --overlap                      # all nodes send to all
  squall bench rdmc --memcpy                       # processes of one host, against a copy in memory
  squall bench rdmc --bars --mpi ./mpi             # the table of docs/benchmarks.md
  squall bench rdmc --bars --nodes 8 --json        # of it what is about 8 nodes`,
		Args: cobra.NoArgs,
		RunE: show.Run(o.complete, o.run),
	}
	o.declare(cmd.Flags())
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntSliceVar(&o.nodes, "nodes", []int{2, 4, 8}, "numbers of nodes, the root included: 2 to 64")
	f.StringVar(&o.size, "size", "64MiB", "bytes of the message, like 64MiB or 1000000")
	f.StringVar(&o.blockSize, "block", "", "bytes of a block (default: what the schedule chooses)")
	f.StringSliceVar(&o.schedules, "schedule", allSchedules, "schedules")
	f.IntVar(&o.runs, "runs", 3, "runs of everything; the tables show medians")
	f.StringVar(&o.lab, "lab", "", "rate of each host's link, like 400mbit or 1gbit (default: 400mbit, 200mbit from 16 nodes on)")
	f.BoolVar(&o.local, "local", false, "all nodes on loopback instead of on hosts of their own")
	f.BoolVar(&o.plain, "plain", true, "measure plain TCP too, which is as slow as it sounds")
	f.StringVar(&o.mpi, "mpi", "", "directory with bcast_ompi and bcast_mpich, programs that broadcast with MPI; needs mpirun.openmpi and mpirun.mpich")
	f.BoolVar(&o.slowLink, "slow-link", false, "halve the rate of one link, for pipeline and chain")
	f.BoolVar(&o.overlap, "overlap", false, "have all nodes send at once, each to all others")
	f.BoolVar(&o.memcpy, "memcpy", false, "compare processes of one host with copies in memory")
	f.BoolVar(&o.bars, "bars", false, "measure what RDMC promises, and print a table in Markdown")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// complete reads the flags, and reports everything that is wrong with them at once.
func (o *options) complete(f *pflag.FlagSet) error {
	o.given = f.Changed
	var faults errs.Faults
	for _, n := range o.nodes {
		faults.If(n < 2 || n > maxNodes, "--nodes: %d nodes: from 2 to %d", n, maxNodes)
	}
	faults.If(o.runs < 1 || o.runs > maxRuns, "--runs: %d runs: from 1 to %d", o.runs, maxRuns)
	o.completeSizes(&faults)
	for _, name := range o.schedules {
		a, err := schedule.Parse(name)
		faults.Join(err)
		o.algorithms = append(o.algorithms, a)
	}
	if o.lab != "" {
		var err error
		o.rate, err = netlab.ParseRate(o.lab)
		faults.Join(err)
	}
	var err error
	o.rivals, err = rivals(o.mpi)
	faults.Join(err)
	faults.Join(o.contradictions(f))
	return faults.Err()
}

func (o *options) completeSizes(faults *errs.Faults) {
	for _, s := range []struct {
		flag, text string
		most       uint64
		to         *int
	}{{"size", o.size, maxBytes, &o.bytes}, {"block", o.blockSize, 16 << 20, &o.block}} {
		if s.text == "" {
			continue
		}
		n, err := humanize.ParseBytes(s.text)
		faults.If(err != nil || n < 1 || n > min(s.most, math.MaxInt),
			"--%s %q: a number of bytes from 1 to %s", s.flag, s.text, humanize.IBytes(s.most))
		*s.to = int(min(n, math.MaxInt))
	}
}

// contradictions reports flags that do not go together.
func (o *options) contradictions(f *pflag.FlagSet) error {
	modes := []string{"slow-link", "overlap", "memcpy", "bars"}
	what := strings.Join(bench.Given(f, modes...), ", ")
	return errors.Join(
		bench.OneAtATime(f, modes...),
		bench.Refuse(f, what != "", what+" chooses that itself", "schedule", "block", "plain"),
		bench.Refuse(f, o.bars, "--bars brings its own sizes", "size"),
		bench.Refuse(f, o.local, "only in a lab, not with --local", "lab", "mpi", "slow-link", "overlap", "bars"))
}

// rateOf is the rate of links among so many nodes; 0 on one host.
func (o *options) rateOf(nodes int) netlab.Rate {
	switch {
	case o.local:
		return 0
	case o.rate > 0:
		return o.rate
	case nodes >= 16:
		return 200 * netlab.Mbit
	}
	return 400 * netlab.Mbit
}

// plan is what the flags ask for.
func (o *options) plan() (p plan) {
	each := func(nodes int, bytes int, do func(p *plan, nodes, bytes int)) {
		if o.given("size") {
			bytes = o.bytes
		}
		if !o.given("nodes") {
			do(&p, nodes, bytes)
			return
		}
		for _, n := range o.nodes {
			do(&p, n, bytes)
		}
	}
	switch {
	case o.bars:
		return barsPlan(o)
	case o.slowLink:
		each(slowNodes, barBytes, func(p *plan, n, bytes int) { slowLinkPlan(p, n, bytes, o.rateOf(n)) })
	case o.overlap:
		each(overlapNodes, overlapBytes, func(p *plan, n, bytes int) { overlapPlan(p, n, bytes, o.rateOf(n)) })
	case o.memcpy:
		each(memcpyNodes, memcpyBytes, memcpyPlan)
	default:
		return tablePlan(o)
	}
	return p
}

// run measures what the flags ask for.
func (o *options) run(ctx context.Context, out, messages io.Writer) (err error) {
	p, f := o.plan(), &fleet{broken: true}
	defer func() { err = errors.Join(err, f.close()) }()
	r, err := bench.Measure(ctx, o.runs, p.sets(f), nil, messages)
	if err != nil {
		return err
	}
	r.Rows = p.bars.Rows(r.Series)
	title := fmt.Sprintf("%v; medians of %d runs", r.Machine, r.Runs)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.bars, Title: title}, casesTable(r.Series))
}

// Sizes and numbers of nodes of the bars.
const (
	barBytes     = 64 << 20
	overlapBytes = 32 << 20
	memcpyBytes  = 256_000_000
	slowNodes    = 8
	overlapNodes = 8
	memcpyNodes  = 4
	rivalNodes   = 8
)

// barNodes are the sizes of groups to which a large message goes; cpuNodes are the sizes for which
// the processor time is compared, which takes long because plain TCP does.
var (
	barNodes   = []int{2, 3, 4, 5, 8, 16}
	cpuNodes   = []int{4, 8}
	rivalBytes = []int{1 << 20, 8 << 20}
)

// barsPlan is everything that RDMC promises. The nodes given, if any, choose the part of it that is
// about so many.
func barsPlan(o *options) plan {
	p := plan{}
	has := func(n int) bool { return !o.given("nodes") || slices.Contains(o.nodes, n) }
	for _, n := range barNodes {
		if has(n) {
			sizeBars(&p, o, n)
		}
	}
	if has(rivalNodes) {
		for _, bytes := range rivalBytes {
			rivalBars(&p, o, bytes)
		}
	}
	if has(slowNodes) {
		slowLinkPlan(&p, slowNodes, barBytes, o.rateOf(slowNodes))
	}
	if has(overlapNodes) {
		overlapPlan(&p, overlapNodes, overlapBytes, o.rateOf(overlapNodes))
	}
	if has(memcpyNodes) {
		memcpyPlan(&p, memcpyNodes, memcpyBytes)
	}
	return p
}

// sizeBars are about one large message to n nodes.
func sizeBars(p *plan, o *options, n int) {
	most := map[schedule.Algorithm]float64{schedule.Auto: 1.08, schedule.Pipeline: 1.10}
	if n >= 16 {
		most = map[schedule.Algorithm]float64{schedule.Auto: 1.10, schedule.Pipeline: 1.15}
	}
	for _, a := range []schedule.Algorithm{schedule.Auto, schedule.Pipeline} {
		c := relayed(a, n, barBytes, o.rateOf(n))
		i := p.add(c)
		about := fmt.Sprintf("64 MiB, n = %d, %v: ", n, a)
		p.expect(about+"time over ideal", bench.Asked{AtMost: most[a]}, medianOf(ofIdeal), i)
		if a == schedule.Pipeline {
			p.expect(about+"skew in block times", bench.Asked{AtMost: 3}, medianOf(skewBlocks), i)
		}
		p.expect(about+"a receiver's memory beyond its buffer, in blocks", bench.Asked{AtMost: 8}, func(s []Series) float64 {
			return median(s[0], peakBytes) / float64(c.BlockBytes)
		}, i)
		if slices.Contains(cpuNodes, n) {
			plain := p.add(plainTCP(n, barBytes, o.rateOf(n)))
			p.expect(about+"processor time per GB over plain TCP's, nodes", bench.Asked{AtMost: 1}, ratioOf(cpuPerGB), i, plain)
			p.expect(about+"processor time per GB over plain TCP's, whole machine", bench.Asked{AtMost: 1}, ratioOf(busyPerGB), i, plain)
		}
	}
}

// rivalBars are about smaller messages, and how long other programs take.
func rivalBars(p *plan, o *options, bytes int) {
	own := p.add(relayed(schedule.Auto, rivalNodes, bytes, o.rateOf(rivalNodes)))
	about := fmt.Sprintf("%d MiB, n = %d, auto: ", bytes>>20, rivalNodes)
	if len(o.rivals) == 0 {
		p.expect(about+"time over ideal", bench.Asked{}, medianOf(ofIdeal), own)
		return
	}
	of := []string{own}
	for i := range o.rivals {
		of = append(of, p.addRival(&o.rivals[i], rivalNodes, bytes, o.rateOf(rivalNodes)))
	}
	p.expect(about+"time over that of the fastest MPI", bench.Asked{Under: 1}, againstBest, of...)
}
