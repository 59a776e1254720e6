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
// All processes are on one machine and share its clock, so the times of different
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
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

// options are the suite's own flags, and what they come to.
type options struct {
	nodes     []int
	size      string
	schedules []string
	local     bool
	lab       string
	mpi       string
	bars      bool

	bytes      int
	algorithms []schedule.Algorithm
	rate       netlab.Rate // 0: the default
	rivals     []rival
	chooses    bool // --nodes is given

	measured set
	fleet    fleet
}

// allSchedules are the schedules that the table lists by default.
var allSchedules = []string{"auto", "pipeline", "chain", "tree", "sequential", "hybrid"}

// Bounds of what can be asked for.
const (
	maxNodes = 64
	maxBytes = 16 << 30
)

// NewCommand returns the command "rdmc". It belongs to "bench".
func NewCommand() *cobra.Command { return (&options{}).suite().Command() }

func (o *options) suite() *bench.Suite[Run] {
	return &bench.Suite[Run]{
		Use:   "rdmc",
		Short: "Measure how long a large message takes to many nodes",
		Long: `Rdmc sends a large message from one node to all others, by each schedule, and prints how long it took until the last one had it whole;
next to it the time that its bytes take on one link, plain TCP to one receiver after another, and other programs if they are given.

Every node is a process. By default each has a host of its own: network namespaces on a bridge, with links of 400 Mbit/s each way, or 200
with 16 nodes or more (needs root, ip and tc). With --local they are all on loopback. With --bars, also a slow link, messages from all nodes
at once, and processes of one host against a copy in memory.`,
		Example: `  squall bench rdmc                                # all schedules, 64 MiB to 2, 4 and 8 nodes
  squall bench rdmc --nodes 3,5 --size 8MiB --schedule auto,pipeline
  squall bench rdmc --lab 1gbit --nodes 4 --runs 5
  squall bench rdmc --local --nodes 4              # on loopback, as anybody
  squall bench rdmc --nodes 8 --size 1MiB --mpi ./mpi
  squall bench rdmc --bars --mpi ./mpi             # the table of docs/benchmarks.md
  squall bench rdmc --bars --nodes 8 --json        # of it what is about 8 nodes`,
		Runs: 3, Bars: &o.bars, Flags: o.declare, Check: o.complete, Sets: o.sets, After: o.tables,
		Title: func() string { return "a large message from one node to all others" },
		Start: func(context.Context) (func() error, error) { return o.fleet.close, nil },
	}
}

func (o *options) declare(f *pflag.FlagSet) {
	f.IntSliceVar(&o.nodes, "nodes", []int{2, 4, 8}, "numbers of nodes, the root included: 2 to 64")
	f.StringVar(&o.size, "size", "64MiB", "bytes of the message, like 64MiB or 1000000")
	f.StringSliceVar(&o.schedules, "schedule", allSchedules, "schedules")
	f.StringVar(&o.lab, "lab", "", "rate of each host's link, like 400mbit or 1gbit (default: 400mbit, 200mbit from 16 nodes on)")
	f.BoolVar(&o.local, "local", false, "all nodes on loopback instead of on hosts of their own")
	f.StringVar(&o.mpi, "mpi", "", "directory with bcast_ompi and bcast_mpich, programs that broadcast with MPI; needs mpirun.openmpi and mpirun.mpich")
}

// complete reads the flags.
func (o *options) complete(f *pflag.FlagSet, faults *errs.Faults) {
	o.chooses = f.Changed("nodes")
	for _, n := range o.nodes {
		faults.If(n < 2 || n > maxNodes, "--nodes: %d nodes: from 2 to %d", n, maxNodes)
	}
	n, err := humanize.ParseBytes(o.size)
	faults.If(err != nil || n < 1 || n > maxBytes, "--size %q: a number of bytes from 1 to %s", o.size, humanize.IBytes(maxBytes))
	o.bytes = int(min(n, maxBytes))
	for _, name := range o.schedules {
		a, err := schedule.Parse(name)
		faults.Join(err)
		o.algorithms = append(o.algorithms, a)
	}
	if o.lab != "" {
		o.rate, err = netlab.ParseRate(o.lab)
		faults.Join(err)
	}
	o.rivals, err = rivals(o.mpi)
	faults.Join(err,
		bench.Refuse(f, o.bars, "--bars chooses that itself", "size", "schedule"),
		bench.Refuse(f, o.local, "only in a lab, not with --local", "lab", "mpi", "bars"))
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

// sets are what the flags ask for.
func (o *options) sets() []set {
	if o.measured = tableSet(o); o.bars {
		o.measured = barSet(o)
	}
	return byHosts(o.measured.Cases)
}

// tables judges the bars, which are about cases of different hosts, and adds the table of all
// cases.
func (o *options) tables(r *bench.Report[Run]) error {
	r.Rows = o.measured.Rows(r.Series)
	r.Tables = append(r.Tables, casesTable(r.Series))
	return nil
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

// barSet is everything that RDMC promises. The nodes given, if any, choose the part of it that is
// about so many.
func barSet(o *options) (s set) {
	has := func(n int) bool { return !o.chooses || slices.Contains(o.nodes, n) }
	for _, n := range barNodes {
		if has(n) {
			o.sizeBars(&s, n)
		}
	}
	if has(rivalNodes) {
		for _, bytes := range rivalBytes {
			o.rivalBars(&s, bytes)
		}
	}
	if has(slowNodes) {
		o.slowLinkBars(&s, slowNodes, barBytes)
	}
	if has(overlapNodes) {
		o.overlapBars(&s, overlapNodes, overlapBytes)
	}
	if has(memcpyNodes) {
		o.memcpyBars(&s, memcpyNodes, memcpyBytes)
	}
	return s
}

// sizeBars are about one large message to n nodes.
func (o *options) sizeBars(s *set, n int) {
	most := map[schedule.Algorithm]float64{schedule.Auto: 1.08, schedule.Pipeline: 1.10}
	if n >= 16 {
		most = map[schedule.Algorithm]float64{schedule.Auto: 1.10, schedule.Pipeline: 1.15}
	}
	for _, a := range []schedule.Algorithm{schedule.Auto, schedule.Pipeline} {
		c := relayed(a, n, barBytes, o.rateOf(n))
		own := o.fleet.of(c)
		about := fmt.Sprintf("64 MiB, n = %d, %v: ", n, a)
		s.Alone(about+"time over ideal", "", own, ofIdeal, bench.Asked{AtMost: most[a]})
		if a == schedule.Pipeline {
			s.Alone(about+"skew in block times", "", own, skewBlocks, bench.Asked{AtMost: 3})
		}
		inBlocks := func(r Run) float64 { return r.PeakBytes / float64(c.BlockBytes) }
		s.Alone(about+"a receiver's memory beyond its buffer, in blocks", "", own, inBlocks, bench.Asked{AtMost: 8})
		if slices.Contains(cpuNodes, n) {
			plain := []bench.Case[Run]{o.fleet.of(plainTCP(n, barBytes, o.rateOf(n)))}
			s.Judge(
				bar{What: about + "processor time of the nodes", Unit: "s/GB", Figure: own, Limits: plain, Of: cpuPerGB, Asked: bench.Asked{AtMost: 1}},
				bar{What: about + "processor time of the whole machine", Unit: "s/GB", Figure: own, Limits: plain, Of: busyPerGB, Asked: bench.Asked{AtMost: 1}})
		}
	}
}

// rivalBars are about smaller messages, and how long other programs take.
func (o *options) rivalBars(s *set, bytes int) {
	own := o.fleet.of(relayed(schedule.Auto, rivalNodes, bytes, o.rateOf(rivalNodes)))
	about := fmt.Sprintf("%d MiB, n = %d, auto: ", bytes>>20, rivalNodes)
	if len(o.rivals) == 0 {
		s.Alone(about+"time over ideal", "", own, ofIdeal, bench.Asked{})
		return
	}
	s.Judge(bar{What: about + "time over that of the fastest MPI", Figure: own, Limits: o.rivalCases(rivalNodes, bytes), Derive: againstBest, Asked: bench.Asked{Under: 1}})
}
