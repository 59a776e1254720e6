// Package messages is the command "squall bench": it measures groups of real processes, and next to
// every figure its limit.
//
// Life of a run: member processes start → each tells where it listens → all connect → warm-up →
// every member samples its counters at the same two instants → the senders stop → everything is
// drained → the digests of what was delivered are compared → the processes end. The figure is the
// slowest member's. Runs of a figure and of its limits take turns (limit, squall, limit, squall …),
// each with fresh processes, so that whatever else the machine does hits both.
//
// Limits. The application's part is the same in all of them: every byte of a message is written,
// one byte of each cache line is read at every delivery.
//
//	fan-out          plain TCP: every process writes each message to a buffer of 64 KiB for each of the others, and they take it
//	                 out of such a buffer and count it. No order.
//	batched fan-out  the same, but a batch is filled once, written to everybody, and counted where it was received.
//	memory           rings of the same size in memory that all processes share, and counters for flow control. No order.
//	round trip       one message there and back over a TCP or unix socket between two processes, with blocking system calls or
//	                 spinning.
//
// Invariants, checked at the end of each run:
//
//	BM1  all members delivered the same sequence; in unordered mode, the same sequence of each sender
//	BM2  each sender's messages came in the order it sent them, each once
//	BM3  everything that was sent was delivered, unless nulls are off and a silent sender holds up the order
package messages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/netlab"
)

// options are the command's flags.
type options struct {
	spec     Spec
	delays   []string
	batching string
	nulls    string
	upcall   string
	mode     string
	lab      string

	latency, idle, bars, spindle, scale bool

	foreign int
	runs    int
	limits  bool
	json    bool
	peers   string
	out     string
	quick   bool
}

// workloadFlags describe one group; the bars and the paper's matrix bring their own.
var workloadFlags = []string{
	"nodes", "size", "senders", "subgroups", "active", "window", "ring", "delay", "batching", "nulls", "callback-cost", "copy", "upcall", "mode", "lab",
}

// NewCommand returns the command "bench". The commands of other workloads go below it.
func NewCommand() *cobra.Command {
	o := options{spec: DefaultSpec()}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a group of processes on this machine, and its limits in the same run",
		Long: `Bench starts the members of a group as processes on this machine, has them send and deliver, and prints what the
slowest of them delivered, over several runs. Next to it is what the machine does without any order: plain TCP to everybody, the
same writes and reads in shared memory, and plain round trips. Group and limits take turns, run by run. At the end of each run all
members must have delivered the same sequence, or the run fails.`,
		Example: `  squall bench                                         # 3 members, 10 KiB, all send, through shared memory
  squall bench --fabric tcp --size 100                 # small messages over TCP
  squall bench --nodes 16 --senders half --runs 3
  squall bench --delay 3=100us --delay 2=forever       # a slow sender and a silent one
  squall bench --batching none --nulls=off             # what the optimisations are worth
  squall bench --subgroups 50 --active 1
  squall bench --latency --nodes 2 --size 100          # one message at a time
  squall bench --idle --duration 10s                   # what a group costs that has nothing to do
  squall bench --bars --peers ./peers                  # the table of docs/benchmarks.md
  squall bench --foreign 2 --peers ./peers             # next to two processes that compute all the time
  squall bench --nodes 16 --lab 100mbit                # each member on a host of its own
  squall bench --foreign 1 --latency                   # one message at a time, next to one of them
  squall bench --spindle --out figures                 # the paper's figures on this machine
  squall bench --scale --out figures                   # what a message costs with 2 to 64 members`,
		Args: cobra.NoArgs,
		RunE: show.Run(o.complete, o.run),
	}
	o.declare(cmd.Flags())
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.SortFlags = false
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 64")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Senders, "senders", s.Senders, "members that send: all, half, one or a number")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp, auto or verbs (RDMA)")
	f.StringVar(&o.lab, "lab", "", "RATE: each member on a host of its own, a network namespace, whose link has this rate, like 100mbit; needs root")
	f.StringVar(&o.mode, "mode", "ordered", "ordered or unordered")
	f.IntVar(&s.Subgroups, "subgroups", s.Subgroups, "subgroups, each with all members")
	f.IntVar(&s.Active, "active", s.Active, "subgroups in which messages are sent")
	f.IntVar(&s.Window, "window", 0, "messages in flight per sender, a power of two (default: the group's, 4096)")
	f.IntVar(&s.RingBytes, "ring", 0, "bytes in flight per sender, a power of two (default: the group's, 512 KiB)")
	f.StringArrayVar(&o.delays, "delay", nil, "MEMBER=DURATION: it sleeps so long after each message; MEMBER=forever: it never sends (repeatable)")
	f.StringVar(&o.batching, "batching", "send,receive,deliver", "stages that take all there is instead of one message a cycle, or none")
	f.StringVar(&o.nulls, "nulls", "on", "on or off: whether a silent sender gives its turns away")
	f.DurationVar(&s.UpcallCost, "callback-cost", 0, "busy work in each delivery")
	f.BoolVar(&s.Copy, "copy", false, "copy messages in at the sender and out at delivery, instead of working in place")
	f.StringVar(&o.upcall, "callback", "batch", "batch or single: a callback per run of messages, or per message")
	o.declareModes(f)

	f.IntVar(&o.foreign, "foreign", 0, "measure next to so many processes that keep a core busy each, up to 64: three members, or with --latency two")

	f.DurationVar(&s.Warmup, "warmup", s.Warmup, "time before the measurement")
	f.DurationVar(&s.Duration, "duration", s.Duration, "time of the measurement")
	f.IntVar(&o.runs, "runs", 5, "runs of everything")
	f.BoolVar(&o.limits, "limits", true, "measure the limits too")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.peers, "peers", "", "with --bars or --foreign: the program that measures other systems; without it, this command's own fan-out is the judge")
	f.StringVar(&o.out, "out", "figures", "with --spindle or --scale: the directory for the figures")
	f.BoolVar(&o.quick, "quick", false, "with --spindle or --scale: fewer and shorter runs of up to 4 members")
}

func (o *options) declareModes(f *pflag.FlagSet) {
	f.BoolVar(&o.latency, "latency", false, "measure one message at a time")
	f.BoolVar(&o.idle, "idle", false, "measure a group that has nothing to do")
	f.BoolVar(&o.bars, "bars", false, "measure what Squall promises on one machine, and print a table in Markdown")
	f.BoolVar(&o.spindle, "spindle", false, "measure the matrix of the paper's figures 3, 5, 6, 8 to 12 and 15 to 17")
	f.BoolVar(&o.scale, "scale", false, "measure groups of 2 to 64 members that all send, and plot what a message costs")
}

// complete turns the flags into a spec and reports everything that is wrong with them, at once.
func (o *options) complete(f *pflag.FlagSet) error {
	var faults errs.Faults
	o.completeSpec(&faults)
	var err error
	if o.lab != "" {
		o.spec.Link, err = netlab.ParseRate(o.lab)
		faults.Join(err)
		if !f.Changed("fabric") {
			o.spec.Fabric = "tcp"
		}
	}
	o.spec.Delays, err = parseDelays(o.delays)
	faults.Join(err)
	o.spec.Batching, err = parseBatching(o.batching)
	faults.Join(err)
	faults.Join(o.contradictions(f))
	faults.If(f.Changed("foreign") && (o.foreign < 1 || o.foreign > maxForeign),
		"%d foreign processes: from 1 to %d", o.foreign, maxForeign)
	faults.If(o.runs < 1 || o.runs > 1000, "%d runs: from 1 to 1000", o.runs)
	if !o.bars && !o.figures() {
		faults.Join(o.loaded().Validate())
	}
	return faults.Err()
}

func (o *options) completeSpec(faults *errs.Faults) {
	choose := func(flag, value, first, second string) bool {
		if value != first && value != second {
			faults.Add("--%s %q: %s or %s", flag, value, first, second)
		}
		return value == second
	}
	o.spec.Unordered = choose("mode", o.mode, "ordered", "unordered")
	o.spec.Nulls = !choose("nulls", o.nulls, "on", "off")
	o.spec.Single = choose("callback", o.upcall, "batch", "single")
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
	modes := []string{"latency", "idle", "bars", "foreign", "spindle", "scale"}
	what := strings.Join(bench.Given(f, modes...), ", ")
	ownGroups := o.bars || f.Changed("foreign")
	if o.latency { // the two go together
		modes = slices.DeleteFunc(modes, func(mode string) bool { return mode == "foreign" })
	}
	return errors.Join(
		bench.OneAtATime(f, modes...),
		bench.Refuse(f, !o.figures(), "only with --spindle or --scale", "out", "quick"),
		bench.Refuse(f, !ownGroups, "only with --bars or --foreign", "peers"),
		bench.Refuse(f, o.latency, "round trips are measured on this host", "lab"),
		bench.Refuse(f, ownGroups || o.figures(), what+" brings its own groups", workloadFlags...),
		bench.Refuse(f, ownGroups, "the bars name theirs", "fabric", "limits"),
		bench.Refuse(f, o.scale, "--scale measures shm and tcp", "fabric"),
		bench.Refuse(f, o.figures(), what+" writes its figures to --out", "json", "limits", "duration", "warmup"),
	)
}

func parseDelays(texts []string) (map[int]time.Duration, error) {
	var errs []error
	delays := map[int]time.Duration{}
	for _, text := range texts {
		member, value, ok := strings.Cut(text, "=")
		node, err := strconv.Atoi(member)
		if !ok || err != nil {
			errs = append(errs, fmt.Errorf("--delay %q: MEMBER=DURATION, for instance 3=100us or 3=forever", text))
			continue
		}
		d, err := Forever, error(nil)
		if value != "forever" {
			d, err = time.ParseDuration(value)
		}
		if err != nil || value != "forever" && d < 0 {
			errs = append(errs, fmt.Errorf("--delay %q: %q is no time of at least 0, and not \"forever\"", text, value))
			continue
		}
		if _, twice := delays[node]; twice {
			errs = append(errs, fmt.Errorf("--delay: member %d is given twice", node))
		}
		delays[node] = d
	}
	return delays, errors.Join(errs...)
}

func parseBatching(text string) (b Batching, err error) {
	if text == "none" || text == "" {
		return b, nil
	}
	var unknown []string
	for stage := range strings.SplitSeq(text, ",") {
		switch strings.TrimSpace(stage) {
		case "send":
			b.Send = true
		case "receive":
			b.Receive = true
		case "deliver":
			b.Deliver = true
		case "all":
			b = AllBatching
		default:
			unknown = append(unknown, strconv.Quote(stage))
		}
	}
	if len(unknown) > 0 {
		err = fmt.Errorf("--batching %s: the stages are send, receive and deliver; or none", strings.Join(unknown, ", "))
	}
	return b, err
}

// run measures what the flags ask for.
func (o *options) run(ctx context.Context, out, messages io.Writer) (err error) {
	if o.figures() {
		m := newMatrix(o.spec.Fabric, o.quick)
		if o.scale {
			m = newScale(o.quick)
		}
		return draw(ctx, o.out, m, o.matrixRuns(), out, messages)
	}
	if o.foreign > 0 {
		stop, err := startForeign(ctx, o.foreign)
		if err != nil {
			return err
		}
		defer stop()
	}
	r, err := bench.Measure(ctx, o.runs, o.sets(), foreignOf, messages)
	if err != nil {
		return err
	}
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.judges(), Title: o.title(r)})
}

// figures reports whether figures are measured and drawn.
func (o *options) figures() bool { return o.spindle || o.scale }

// judges reports whether the bars are measured, and not a group that the flags describe.
func (o *options) judges() bool { return o.bars || o.foreign > 0 }

// sets are the cases that are measured, and what they are held against.
func (o *options) sets() []set {
	switch {
	case o.bars:
		return barSets(o.spec, bench.Peers{Path: o.peers})
	case o.foreign > 0 && o.latency:
		return []set{foreignLatencyBars(o.spec)}
	case o.foreign > 0:
		return []set{foreignBars(o.spec, bench.Peers{Path: o.peers})}
	case o.latency:
		return []set{latencySet(o.loaded(), o.limits)}
	case o.idle:
		return []set{idleSet(o.loaded())}
	}
	return []set{throughputSet(o.spec, o.limits)}
}

// title says what was measured, and where.
func (o *options) title(r Report) string {
	if o.judges() {
		return fmt.Sprintf("%v; medians of %d runs of %v, in parentheses their range.", r.Machine, o.runs, o.spec.Duration)
	}
	return fmt.Sprintf("%v\n%v; medians of %d runs of %v, in parentheses their range", r.Machine, o.loaded(), o.runs, o.spec.Duration)
}

// matrixRuns is how often the matrix is measured.
func (o *options) matrixRuns() int {
	if o.quick {
		return min(o.runs, 3)
	}
	return o.runs
}
