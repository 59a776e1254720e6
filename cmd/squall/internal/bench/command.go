package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/benchlarge"
	"github.com/squall-go/squall/cmd/squall/internal/benchlog"
	"github.com/squall-go/squall/cmd/squall/internal/benchrdmc"
	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// options are the command's flags.
type options struct {
	spec     Spec
	delays   []string
	batching string
	nulls    string
	upcall   string
	mode     string

	latency, idle, bars, spindle bool

	foreign int
	runs    int
	limits  bool
	json    bool
	csv     string
	lock    string
	peers   string
	out     string
	quick   bool
}

// workloadFlags describe one group; the bars and the paper's matrix bring their own.
var workloadFlags = []string{
	"nodes", "size", "senders", "subgroups", "active", "window", "ring", "delay", "batching", "nulls", "upcall-cost", "copy", "upcall", "mode",
}

// NewCommand returns the command "bench". The root command needs NewMemberCommand beside it.
func NewCommand() *cobra.Command {
	o := options{spec: DefaultSpec()}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a group of processes on this machine, and its limits in the same run",
		Long: `Bench starts the members of a group as processes on this machine, has them send and deliver, and prints what the
slowest of them delivered, over several runs. Beside it stands what the machine does without any order: plain TCP to everybody, the
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
  squall bench --foreign 2 --peers ./peers             # beside two processes that compute all the time
  squall bench --spindle --out figures                 # the paper's figures on this machine`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	cmd.AddCommand(benchrdmc.NewCommand(), benchrdmc.NewMemberCommand(), benchlarge.NewCommand(), benchlarge.NewMemberCommand(),
		benchlog.NewCommand(), benchlog.NewMemberCommand())
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.SortFlags = false
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 16")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Senders, "senders", s.Senders, "members that send: all, half, one or a number")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp or auto")
	f.StringVar(&o.mode, "mode", "ordered", "ordered or unordered")
	f.IntVar(&s.Subgroups, "subgroups", s.Subgroups, "subgroups, each with all members")
	f.IntVar(&s.Active, "active", s.Active, "subgroups in which messages are sent")
	f.IntVar(&s.Window, "window", 0, "messages on their way per sender, a power of two (default: the group's, 4096)")
	f.IntVar(&s.RingBytes, "ring", 0, "bytes on their way per sender, a power of two (default: the group's, 512 KiB)")
	f.StringArrayVar(&o.delays, "delay", nil, "MEMBER=DURATION: it sleeps so long after each message; MEMBER=forever: it never sends (repeatable)")
	f.StringVar(&o.batching, "batching", "send,receive,deliver", "stages that take all there is instead of one message a cycle, or none")
	f.StringVar(&o.nulls, "nulls", "on", "on or off: whether a silent sender gives its turns away")
	f.DurationVar(&s.UpcallCost, "upcall-cost", 0, "busy work in each delivery")
	f.BoolVar(&s.Copy, "copy", false, "copy messages in at the sender and out at delivery, instead of working in place")
	f.StringVar(&o.upcall, "upcall", "batch", "batch or single: an upcall per run of messages, or per message")

	f.BoolVar(&o.latency, "latency", false, "measure one message at a time")
	f.BoolVar(&o.idle, "idle", false, "measure a group that has nothing to do")
	f.BoolVar(&o.bars, "bars", false, "measure what Squall promises on one machine, and print a table in Markdown")
	f.BoolVar(&o.spindle, "spindle", false, "measure the matrix of the paper's figures 3, 5, 6, 8 to 12 and 15 to 17")

	f.IntVar(&o.foreign, "foreign", 0, "measure three members beside so many processes that keep a core busy each: up to 64")

	f.DurationVar(&s.Warmup, "warmup", s.Warmup, "time before the measurement")
	f.DurationVar(&s.Duration, "duration", s.Duration, "time of the measurement")
	f.IntVar(&o.runs, "runs", 5, "runs of everything")
	f.BoolVar(&o.limits, "limits", true, "measure the limits too")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.csv, "csv", "", "write every run to this file")
	f.StringVar(&o.lock, "lock", "", "hold this lock file, so that two measurements do not disturb each other")
	f.StringVar(&o.peers, "peers", "", "with --bars or --foreign: the program that measures other systems; without it, this command's own fan-out is the judge")
	f.StringVar(&o.out, "out", "spindle", "with --spindle: the directory for the figures")
	f.BoolVar(&o.quick, "quick", false, "with --spindle: fewer and shorter runs of up to 4 members")
}

// complete turns the flags into a spec and reports everything that is wrong with them, at once.
func (o *options) complete(f *pflag.FlagSet) error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	o.completeSpec(fault)
	var err error
	if o.spec.Delays, err = parseDelays(o.delays); err != nil {
		errs = append(errs, err)
	}
	if o.spec.Batching, err = parseBatching(o.batching); err != nil {
		errs = append(errs, err)
	}
	o.contradictions(f, fault)
	if f.Changed("foreign") && (o.foreign < 1 || o.foreign > maxForeign) {
		fault("%d foreign processes: from 1 to %d", o.foreign, maxForeign)
	}
	if o.runs < 1 || o.runs > 1000 {
		fault("%d runs: from 1 to 1000", o.runs)
	}
	if !o.bars && !o.spindle {
		errs = append(errs, o.loaded().Validate())
	}
	return errors.Join(errs...)
}

func (o *options) completeSpec(fault func(string, ...any)) {
	choose := func(flag, value, first, second string) bool {
		if value != first && value != second {
			fault("--%s %q: %s or %s", flag, value, first, second)
		}
		return value == second
	}
	o.spec.Unordered = choose("mode", o.mode, "ordered", "unordered")
	o.spec.Nulls = !choose("nulls", o.nulls, "on", "off")
	o.spec.Single = choose("upcall", o.upcall, "batch", "single")
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
func (o *options) contradictions(f *pflag.FlagSet, fault func(string, ...any)) {
	given := func(names ...string) (all []string) {
		for _, name := range names {
			if f.Changed(name) {
				all = append(all, "--"+name)
			}
		}
		return all
	}
	what := given("latency", "idle", "bars", "foreign", "spindle")
	if len(what) > 1 {
		fault("%s: one of them at a time", strings.Join(what, " and "))
	}
	only := func(on bool, needed string, names ...string) {
		if bad := given(names...); !on && len(bad) > 0 {
			fault("%s: only with %s", strings.Join(bad, ", "), needed)
		}
	}
	only(o.spindle, "--spindle", "out", "quick")
	ownGroups := o.bars || f.Changed("foreign")
	only(ownGroups, "--bars or --foreign", "peers")
	if ownGroups || o.spindle {
		if bad := given(workloadFlags...); len(bad) > 0 {
			fault("%s: %s brings its own groups", strings.Join(bad, ", "), strings.Join(what, ", "))
		}
	}
	if bad := given("fabric", "limits"); ownGroups && len(bad) > 0 {
		fault("%s: the bars name theirs", strings.Join(bad, ", "))
	}
	if bad := given("csv", "json", "limits", "duration", "warmup"); o.spindle && len(bad) > 0 {
		fault("%s: --spindle writes its figures to --out", strings.Join(bad, ", "))
	}
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
func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	release, err := takeLock(ctx, o.lock, messages)
	if err != nil {
		return err
	}
	defer release()
	switch {
	case o.bars:
		return o.runBars(ctx, barSets(o.spec, rival{o.peers}), out, messages)
	case o.foreign > 0:
		stop, err := startForeign(ctx, o.foreign)
		if err != nil {
			return err
		}
		defer stop()
		return o.runBars(ctx, []barSet{foreignBars(o.spec, rival{o.peers})}, out, messages)
	case o.spindle:
		return runSpindle(ctx, o.out, newMatrix(o.spec.Fabric, o.quick), o.matrixRuns(), out, messages)
	case o.latency:
		return o.runPlan(ctx, latencyPlan(o.loaded(), o.limits), out, messages)
	case o.idle:
		return o.runPlan(ctx, idlePlan(o.loaded()), out, messages)
	}
	return o.runPlan(ctx, throughputPlan(o.spec, o.limits), out, messages)
}

func (o *options) runPlan(ctx context.Context, p plan, out, messages io.Writer) error {
	r := Report{Machine: thisMachine(), Runs: o.runs}
	if !o.json {
		fmt.Fprintf(out, "%v\n%v; runs of %v: %d\n", r.Machine, o.loaded(), o.spec.Duration, o.runs)
	}
	var err error
	if r.Series, err = Interleave(ctx, o.runs, p.cases, newProgress(messages, o.runs*len(p.cases))); err != nil {
		return err
	}
	for _, s := range r.Series {
		if s.Err != nil {
			return s.Err
		}
	}
	r.Rows = p.rows(r.Series)
	return o.print(r, Report.writeText, out, messages)
}

// print shows a report in the form that was asked for.
func (o *options) print(r Report, asText func(Report, io.Writer), out, messages io.Writer) error {
	if o.csv != "" {
		if err := r.writeCSV(o.csv); err != nil {
			return err
		}
	}
	if text := crowding(r.Series); text != "" {
		fmt.Fprintln(messages, text)
	}
	if o.json {
		return figures.WriteJSON(out, r)
	}
	asText(r, out)
	return nil
}

func (o *options) runBars(ctx context.Context, sets []barSet, out, messages io.Writer) error {
	r := Report{Machine: thisMachine(), Runs: o.runs}
	total := 0
	for _, set := range sets {
		total += o.runs * len(set.cases)
	}
	p := newProgress(messages, total)
	for _, set := range sets {
		series, err := Interleave(ctx, o.runs, set.cases, p)
		if err != nil {
			return err
		}
		r.Series = append(r.Series, series...)
		r.Rows = append(r.Rows, set.rowsOf(series)...)
	}
	if !o.json {
		fmt.Fprintf(out, "%v; medians of %d runs of %v, in parentheses their range.\n\n", r.Machine, o.runs, o.spec.Duration)
	}
	if err := o.print(r, Report.writeMarkdown, out, messages); err != nil {
		return err
	}
	var errs []error
	for _, s := range r.Series {
		if s.Err != nil && !errors.Is(s.Err, errNoRival) {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, s.Err))
		}
	}
	return errors.Join(errs...)
}

// matrixRuns is how often the matrix is measured.
func (o *options) matrixRuns() int {
	if o.quick {
		return min(o.runs, 3)
	}
	return o.runs
}
