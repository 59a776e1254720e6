// Package messages is the command "squall bench": it measures groups of real processes, and next to
// every figure its limit.
//
// Life of a run: member processes start → each tells where it listens → all connect → warm-up →
// every member samples its counters at the same two instants → the senders stop → everything is
// drained → the digests of what was delivered are compared → the processes end. The figure is the
// slowest member's. Runs of a figure and of its limits take turns (limit, squall, limit, squall …),
// each with fresh processes, so that whatever else the machine does hits both.
//
// Limits. The application's part is the same in all of them, and in the group: every byte of a
// message is written; at every delivery, also that at the sender, one byte of each cache line is
// read, and the message's index is checked and hashed.
//
//	fan-out          plain TCP: every process writes each message to a buffer of 64 KiB for each of the others, and they take it
//	                 out of such a buffer. No order.
//	batched fan-out  the same, but a batch is filled once, written to everybody, and read where it was received.
//	memory           rings of the same size in memory that all processes share, and counters for flow control. No order.
//	round trip       one message there and back over a TCP socket between two processes, with blocking system calls.
//
// Invariants, checked at the end of each run:
//
//	BM1  all members delivered the same sequence; in unordered mode, the same sequence of each sender
//	BM2  each sender's messages came in the order it sent them, each once
//	BM3  everything that was sent was delivered, unless nulls are off and a silent sender holds up the order
package messages

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/netlab"
)

// options are the command's own flags.
type options struct {
	spec    Spec
	lab     string
	limits  bool
	foreign int
	peers   string
	out     string
	quick   bool

	latency, idle, bars, spindle, scale bool
	figures                             matrix // with spindle or scale
}

// groupFlags describe one group; the bars and the figures bring their own.
var groupFlags = []string{"nodes", "size", "senders", "subgroups", "window", "ring", "unordered", "lab"}

// NewCommand returns the command "bench". The commands of other workloads go below it.
func NewCommand() *cobra.Command { return (&options{spec: DefaultSpec()}).command() }

func (o *options) command() *cobra.Command {
	cmd := o.suite().Command()
	cmd.MarkFlagsMutuallyExclusive("latency", "idle", "bars", "spindle", "scale")
	cmd.MarkFlagsMutuallyExclusive("foreign", "idle", "bars", "spindle", "scale")
	return cmd
}

func (o *options) suite() *bench.Suite[Run] {
	return &bench.Suite[Run]{
		Use:   "bench",
		Short: "Measure a group of processes on this machine, and its limits in the same run",
		Long: `Bench starts the members of a group as processes on this machine, has them send and deliver, and prints what the
slowest of them delivered, over several runs. Next to it is what the machine does without any order: plain TCP to everybody, the
same writes and reads in shared memory, and plain round trips. Group and limits take turns, run by run. At the end of each run all
members must have delivered the same sequence, or the run fails.`,
		Example: `  squall bench                                         # 3 members, 10 KiB, all send, through shared memory
  squall bench --fabric tcp --size 100                 # small messages over TCP
  squall bench --nodes 16 --senders half --runs 3
  squall bench --latency --nodes 2 --size 100          # one message at a time
  squall bench --idle --duration 10s                   # what a group costs that has nothing to do
  squall bench --bars --peers ./peers                  # the table of docs/benchmarks.md
  squall bench --foreign 2 --peers ./peers             # next to two processes that compute all the time
  squall bench --foreign 1 --latency                   # one message at a time, next to one of them
  squall bench --nodes 16 --lab 100mbit                # each member on a host of its own
  squall bench --spindle --out figures                 # the paper's figures on this machine
  squall bench --scale --out figures                   # what a message costs with 2 to 64 members`,
		Runs: 5, Warmup: &o.spec.Warmup, Duration: &o.spec.Duration, Bars: &o.bars, Flags: o.declare, Check: o.complete,
		Sets: o.sets, Title: o.title, Foreign: foreignOf, Start: o.startForeign, After: o.draw,
	}
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 64")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Senders, "senders", s.Senders, "members that send: all, half, one or a number")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp, auto or verbs (RDMA)")
	f.StringVar(&o.lab, "lab", "", "RATE: each member on a host of its own, a network namespace, whose link has this rate, like 100mbit; needs root")
	f.BoolVar(&s.Unordered, "unordered", false, "messages have the order of their sender only")
	f.IntVar(&s.Subgroups, "subgroups", s.Subgroups, "subgroups, each with all members; they send in the first one")
	f.IntVar(&s.Window, "window", 0, "messages in flight per sender, a power of two (default: the group's, 4096)")
	f.IntVar(&s.RingBytes, "ring", 0, "bytes in flight per sender, a power of two (default: the group's, 512 KiB)")
	f.BoolVar(&o.latency, "latency", false, "measure one message at a time")
	f.BoolVar(&o.idle, "idle", false, "measure a group that has nothing to do")
	f.BoolVar(&o.spindle, "spindle", false, "measure the matrix of the paper's figures 3, 5, 6, 8 to 12 and 15 to 17")
	f.BoolVar(&o.scale, "scale", false, "measure groups of 2 to 64 members that all send, and plot what a message costs")
	f.IntVar(&o.foreign, "foreign", 0, "measure next to so many processes that keep a core busy each, up to 64: three members, or with --latency two")
	f.BoolVar(&o.limits, "limits", true, "measure the limits too")
	f.StringVar(&o.peers, "peers", "", "with --bars or --foreign: the program that measures other systems; without it, this command's own fan-out is the judge")
	f.StringVar(&o.out, "out", "figures", "with --spindle or --scale: the directory for the figures")
	f.BoolVar(&o.quick, "quick", false, "with --spindle or --scale: shorter runs of up to 4 members")
}

// complete turns the flags into a spec.
func (o *options) complete(f *pflag.FlagSet, faults *errs.Faults) {
	if o.lab != "" {
		rate, err := netlab.ParseRate(o.lab)
		o.spec.Link = rate
		faults.Join(err)
		if !f.Changed("fabric") {
			o.spec.Fabric = "tcp"
		}
	}
	faults.Join(o.contradictions(f))
	faults.If(f.Changed("foreign") && (o.foreign < 1 || o.foreign > maxForeign),
		"%d foreign processes: from 1 to %d", o.foreign, maxForeign)
	if !o.bars && !o.spindle && !o.scale {
		faults.Join(o.loaded().Validate())
	}
}

// loaded is the spec with the load that the flags ask for.
func (o *options) loaded() Spec {
	return o.spec.with(func(s *Spec) {
		switch {
		case o.latency:
			s.Load = FromUpcall
		case o.idle:
			s.Load = Idle
		}
	})
}

// contradictions reports flags that do not go together.
func (o *options) contradictions(f *pflag.FlagSet) error {
	ownGroups, figures := o.bars || f.Changed("foreign"), o.spindle || o.scale
	return errors.Join(
		bench.Refuse(f, !figures, "only with --spindle or --scale", "out", "quick"),
		bench.Refuse(f, !ownGroups, "only with --bars or --foreign", "peers"),
		bench.Refuse(f, o.latency, "round trips are measured on this host", "lab"),
		bench.Refuse(f, ownGroups || figures, "bars and figures bring their own groups", groupFlags...),
		bench.Refuse(f, ownGroups, "the bars name theirs", "fabric", "limits"),
		bench.Refuse(f, o.scale, "--scale measures shm and tcp", "fabric"),
		bench.Refuse(f, figures, "figures have their own", "limits", "duration", "warmup"),
	)
}

// sets are the cases that are measured, and what they are held against.
func (o *options) sets() []set {
	others := bench.Peers{Path: o.peers}
	switch {
	case o.bars:
		return barSets(o.spec, others)
	case o.foreign > 0 && o.latency:
		return []set{foreignLatencyBars(o.spec)}
	case o.foreign > 0:
		return []set{foreignBars(o.spec, others)}
	case o.latency:
		return []set{latencySet(o.loaded(), o.limits)}
	case o.idle:
		return []set{idleSet(o.loaded())}
	case o.spindle:
		o.figures = newMatrix(o.spec.Fabric, o.quick)
	case o.scale:
		o.figures = newScale(o.quick)
	default:
		return []set{throughputSet(o.spec, o.limits)}
	}
	o.spec = o.figures.base
	return o.figures.sets()
}

// title says what was measured.
func (o *options) title() string {
	switch {
	case o.bars:
		return "three members, all send, unless a row says otherwise"
	case o.foreign > 0:
		return fmt.Sprintf("next to %d processes that keep a core busy each", o.foreign)
	case o.spindle || o.scale:
		return "figures in " + o.out + ", with mean and standard deviation"
	}
	return o.loaded().String()
}

// draw writes the figures, if they were asked for.
func (o *options) draw(r *Report) error { return o.figures.draw(o.out, r.Series) }
