package logs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// options are the command's flags.
type options struct {
	spec   Spec
	runs   int
	json   bool
	quick  bool
	limits bool

	latency, beside, reopen, bars bool
	peers                         string
}

// NewCommand returns the command "log", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := options{spec: defaultSpec()}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure groups that keep what they deliver on disk, and the disk itself in the same run",
		Long: `Log starts the members of a group as processes on this machine, each with a directory of its own on one disk. All of them send, and what
counts is what the slowest member delivered and every disk has. In turn with it the same number of processes do nothing but write 1 MiB at a
time to that disk and wait for it, through the page cache and around it: those are the limits. At the end of each run the logs of all members are read, and must be the same.`,
		Example: `  squall bench log                                    # 3 members, 10 KiB, the engine for high rates
  squall bench log --size 100 --engine bolt
  squall bench log --latency                          # one message at a time, next to a single small write
  squall bench log --mixed                           # what a log costs a subgroup next to it that has none
  squall bench log --reopen                           # how long a log of 1 GB takes to open
  squall bench log --bars --peers ./peers             # the table of docs/benchmarks.md`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	complete := func(flag string, values ...string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	complete("fabric", "shm", "tcp", "auto")
	complete("engine", "wal", "bolt")
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.SortFlags = false
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 16")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Engine, "engine", s.Engine, "wal or bolt")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp or auto")
	f.BoolVar(&s.AfterPersist, "after-persist", false, "deliver only what is on every disk")
	f.BoolVar(&s.Sign, "sign", false, "chain all records by their hashes, and sign the chain")
	f.IntVar(&s.Window, "window", 0, "messages in flight per sender, a power of two (default: by the size)")
	f.IntVar(&s.RingBytes, "ring", 0, "bytes in flight per sender, a power of two (default: by the size)")
	f.IntVar(&s.Memory, "memory", 0, "bytes that are delivered and not on disk yet, per member (default: the group's, 16 MiB)")

	f.BoolVar(&o.latency, "latency", false, "measure one message at a time, until it is on every disk")
	f.BoolVar(&o.beside, "mixed", false, "measure a subgroup without a log, alone and next to one with a log")
	f.BoolVar(&o.reopen, "reopen", false, "measure how long a log takes to open")
	f.BoolVar(&o.bars, "bars", false, "measure what Squall promises of its logs, and print a table in Markdown")
	f.StringVar(&o.peers, "peers", "", "with --bars: the program that measures other systems")

	f.StringVar(&s.Dir, "dir", s.Dir, "where the members' directories are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&s.Records, "records", s.Records, "with --reopen or --bars: records of 1 KiB in the log that is opened")
	f.DurationVar(&s.Warmup, "warmup", s.Warmup, "time before the measurement")
	f.DurationVar(&s.Duration, "duration", s.Duration, "time of the measurement")
	f.IntVar(&o.runs, "runs", 3, "runs of everything")
	f.BoolVar(&o.limits, "limits", true, "measure the limits too")
	f.BoolVar(&o.quick, "quick", false, "short runs, which show that everything works and no more")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&s.Profile, "cpuprofile", "", "each member writes where its processor time went, in the window, to a file that begins so (.NODE.pprof)")
}

// complete reports everything that is wrong with the flags, at once.
func (o *options) complete(f *pflag.FlagSet) error {
	var errs []error
	errs = append(errs,
		bench.OneAtATime(f, "latency", "mixed", "reopen", "bars"),
		bench.Refuse(f, o.bars, "--bars brings its own groups",
			"nodes", "size", "engine", "fabric", "after-persist", "sign", "window", "ring", "memory", "limits", "cpuprofile"),
		bench.Refuse(f, !o.bars, "only with --bars", "peers"))
	if o.runs < 1 || o.runs > 1000 {
		errs = append(errs, fmt.Errorf("--runs is %d: 1 to 1000", o.runs))
	}
	if o.quick {
		o.shorten(f)
	}
	return errors.Join(append(errs, o.spec.check())...)
}

// shorten makes everything short that was not asked for.
func (o *options) shorten(f *pflag.FlagSet) {
	q := o.spec.quick()
	for name, set := range map[string]func(){
		"warmup":   func() { o.spec.Warmup = q.Warmup },
		"duration": func() { o.spec.Duration = q.Duration },
		"records":  func() { o.spec.Records = q.Records },
		"runs":     func() { o.runs = 1 },
	} {
		if !f.Changed(name) {
			set()
		}
	}
}

// run measures what the flags ask for.
func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	r, err := bench.Measure(ctx, o.runs, o.sets(), foreignOf, messages)
	if err != nil {
		return err
	}
	r.Dir, r.FileSystem = o.spec.Dir, fileSystem(o.spec.Dir)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.bars, Title: o.title(r)}, nil)
}

// sets are the cases that are measured, and what they are held against.
func (o *options) sets() (sets []bench.Set[Run]) {
	add := func(all ...set) {
		for _, s := range all {
			sets = append(sets, s.Set)
		}
	}
	switch {
	case o.bars:
		add(barSets(o.spec, bench.Peers{Path: o.peers})...)
	case o.latency:
		add(latencySet(o.spec, o.spec.Engine))
	case o.beside:
		add(besideSet(o.spec))
	case o.reopen:
		add(reopenSet(o.spec, o.spec.Engine))
	default:
		add(streamSet(o.spec, o.limits))
	}
	return sets
}

func (o *options) title(r Report) string {
	return fmt.Sprintf("%v\n%s; logs in %s (%s); medians of %d runs of %v in turn, in parentheses their range.", r.Machine, o.what(), r.Dir, r.FileSystem, r.Runs, o.spec.Duration)
}

// what tells what was measured.
func (o *options) what() string {
	switch {
	case o.bars:
		return fmt.Sprintf("%d members, all send", o.spec.Nodes)
	case o.latency:
		return fmt.Sprintf("%d members, one message at a time", o.spec.Nodes)
	case o.reopen:
		return "1 process"
	}
	return o.spec.String()
}
