package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
	"github.com/squall-go/squall/internal/errs"
)

const (
	maxNodes = 16
	// maxMessage is the longest message of the demo, in bytes; a group with default settings takes
	// it.
	maxMessage = squall.DefaultRingBytes / 2
	// What a demo sends without --repeat, so that it takes two to five seconds on a small machine:
	// each message costs every member some time, and large ones cost more.
	usualDeliveries, usualBytes = 27_000_000, 4_000_000_000
	// maxRepeat bounds the counters, not the patience: --timeout is for that.
	maxRepeat = 1_000_000
	// leastFailAfter is less than what a busy machine makes of a heartbeat.
	leastFailAfter = 300 * time.Millisecond
)

var fabrics = map[string]squall.Fabric{"auto": squall.FabricAuto, "shm": squall.FabricSHM, "tcp": squall.FabricTCP, "verbs": squall.FabricTransport}

// options are the flags and arguments.
type options struct {
	Files   []string
	Nodes   int
	Fabric  string
	Size    int // bytes; 0 is the lines' own
	Repeat  int
	IPv6    bool
	JSON    bool
	Verbose bool
	Timeout time.Duration

	Chaos     bool
	Duration  time.Duration // of chaos, like the following fields
	FailAfter time.Duration
	Seed      uint64 // 0: any

	Durable bool
	Engine  string // of the logs
	Dir     string // for the logs; empty: one that is removed
}

// The help of this command.
const (
	demoHelp = `Start a group of processes on this machine. Each sends its share of the lines of the files, all at once, and all of them
deliver everything in one order. A table shows what each delivered, how fast, and by which fabric; the digest covers
the delivered messages and their senders, in order. Computing it takes a good part of the time.

Without files the members send the source of the IANA time zone database. "-" is standard input. A line is a message;
lines longer than 256 KiB are several. Kill one of the members (-v shows their pids) to see how the others take it.

With --durable the members keep what they deliver in logs, and learn which of their messages are on every disk. Half-way all
of them are killed at once. Then the logs are read, all start again, find each other, agree on what there is, and go on; in
the end nothing may be missing that was acknowledged.

With --chaos the members send for as long as --duration says, while some are killed, stopped until the others have gone
on without them, or leave; new ones take their places, sometimes as the same node, and get the state: a digest of all that was
ever delivered. What happens is printed as it happens; in the end all digests must be equal, and nothing that a survivor sent may
be missing.`
	demoExamples = `  squall demo
  squall demo --nodes 5 --fabric tcp
  squall demo --size 10240 README.md
  seq 1000000 | squall demo --repeat 1 -
  squall demo --json | jq '.members[].unloaded.p50_ns'
  squall demo --chaos --nodes 5 --duration 30s --seed 7
  squall demo --durable
  squall demo --durable --engine wal --dir /tmp/logs && squall log verify /tmp/logs/node-1`
)

// NewCommand returns the command "demo", with that of its members below it.
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "demo [FILE...]",
		Short:   "Start a group of processes that all deliver the same sequence, and show how fast",
		Long:    demoHelp,
		Example: demoExamples,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Files = args
			if err := o.mixed(cmd.Flags()); err != nil {
				return err
			}
			if o.Durable && !cmd.Flags().Changed("duration") {
				o.Duration = durableDuration
			}
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	show.Choices(cmd, "engine", "bolt", "wal")
	show.Choices(cmd, "fabric", "auto", "shm", "tcp", "verbs")
	cmd.AddCommand(show.Hidden(testlab.Program))
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	f.IntVar(&o.Nodes, "nodes", 3, fmt.Sprintf("member `processes`, 1 to %d", maxNodes))
	f.StringVar(&o.Fabric, "fabric", "auto", "`fabric` between them: auto, shm, tcp or verbs (RDMA)")
	f.IntVar(&o.Size, "size", 0, "pad or cut each line to so many `bytes`; 0 leaves them as they are")
	f.IntVar(&o.Repeat, "repeat", 0, "send the files so many `times`; 0 is as often as takes a few seconds")
	f.BoolVar(&o.IPv6, "ipv6", false, "use the IPv6 loopback address")
	f.BoolVar(&o.JSON, "json", false, "print the result as one JSON object")
	f.BoolVarP(&o.Verbose, "verbose", "v", false, "show the members' pids and what they log")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "give up after this `time`")
	f.BoolVar(&o.Chaos, "chaos", false, "kill, hang and replace members while they send")
	f.BoolVar(&o.Durable, "durable", false, "keep logs, kill all members at once, and start them again")
	f.StringVar(&o.Engine, "engine", "bolt", "durable: what a log is kept in: `bolt` or wal")
	f.StringVar(&o.Dir, "dir", "", "durable: keep the logs below this `directory`")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "`TIME` to run with --chaos or --durable (--timeout covers the shutdown after it); with --durable 4s if not given")
	f.Uint64Var(&o.Seed, "seed", 0, "chaos: draws the faults, their processes and their times; 0 is any `number`")
	f.DurationVar(&o.FailAfter, "fail-after", time.Second, "chaos: a member that is silent for this `time` is removed")
	f.SortFlags = false
}

// faults are all that is wrong with the flags.
func (o options) faults() []error {
	var faults errs.Faults
	faults.If(o.Nodes < 1 || o.Nodes > maxNodes, "--nodes %d: a demo has 1 to %d members", o.Nodes, maxNodes)
	if _, ok := fabrics[o.Fabric]; !ok {
		faults.Add("--fabric %q: use auto, shm, tcp or verbs", o.Fabric)
	}
	faults.If(o.Size < 0 || o.Size > maxMessage,
		"--size %d: a message takes up to %d bytes; 0 leaves the lines as they are", o.Size, maxMessage)
	faults.If(o.Repeat < 0 || o.Repeat > maxRepeat,
		"--repeat %d: use 1 to %d, or 0 for as often as takes a few seconds", o.Repeat, maxRepeat)
	faults.If(o.Timeout <= 0, "--timeout %v: must be more than 0", o.Timeout)
	kind := "durable"
	switch {
	case o.Durable:
		if _, ok := testlab.Engines[o.Engine]; !ok {
			faults.Add("--engine %q: use bolt or wal", o.Engine)
		}
		if left, err := os.ReadDir(o.Dir); o.Dir != "" && err == nil && len(left) > 0 {
			faults.Add("--dir %s: it is not empty; the logs of an earlier demo would be taken for logs of this one", o.Dir)
		}
	case o.Chaos:
		kind = "chaos"
		faults.If(o.Nodes < leastNodes,
			"--nodes %d: with --chaos at least %d, so that the rest is a majority", o.Nodes, leastNodes)
		faults.If(o.FailAfter < leastFailAfter,
			"--fail-after %v: at least %v, or members are removed that are only slow", o.FailAfter, leastFailAfter)
	default:
		return faults.All
	}
	faults.If(o.Size > 0 && o.Size < testlab.HeaderBytes,
		"--size %d: with --%s a message has at least %d bytes; 0 leaves the lines as they are", o.Size, kind, testlab.HeaderBytes)
	faults.If(o.Duration <= 0, "--duration %v: must be more than 0", o.Duration)
	return faults.All
}

// mixed finds flags that are for another kind of demo.
func (o options) mixed(f *pflag.FlagSet) error {
	var errs []error
	refuse := func(on bool, format string, names ...string) {
		for _, name := range names {
			if on && f.Changed(name) {
				errs = append(errs, fmt.Errorf(format, name))
			}
		}
	}
	plain := !o.Chaos && !o.Durable
	refuse(o.Durable, "--%s does not go with --durable", "repeat", "chaos", "seed", "fail-after")
	refuse(!o.Durable, "--%s needs --durable", "engine", "dir")
	refuse(o.Chaos && !o.Durable, "--%s does not go with --chaos, which takes --duration", "repeat")
	refuse(plain, "--%s needs --chaos or --durable", "duration")
	refuse(plain, "--%s needs --chaos", "seed", "fail-after")
	return errors.Join(errs...)
}

// usualRepeat is how often the text has to be sent for the demo to take a few seconds.
func (o options) usualRepeat(t text) int {
	bytes := o.Size * len(t.lines)
	if o.Size == 0 {
		for _, line := range t.lines {
			bytes += len(line)
		}
	}
	return max(1, min(usualDeliveries/(len(t.lines)*o.Nodes), usualBytes/(max(bytes, 1)*o.Nodes), maxRepeat))
}

// run does the whole demo: standard output gets the result, standard error what is for people
// meanwhile.
func (o options) run(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	text, faults := readText(o.Files, in)
	if faults = slices.Concat(o.faults(), faults); len(faults) > 0 {
		return errors.Join(faults...)
	}
	switch {
	case o.Durable:
		return o.runDurable(ctx, text, out, errs)
	case o.Chaos:
		return o.runChaos(ctx, text, out, errs)
	}
	if o.Repeat == 0 {
		o.Repeat = o.usualRepeat(text)
	}
	o.Duration = 0
	r := newRun(newTrial(o, text, nil, errs), text)
	r.bar = show.NewProgress(show.ProgressConfig{To: errs, What: "delivering", Total: int64(r.total), Unit: "msgs", Quiet: true})
	result, err := r.do(ctx)
	if result == nil {
		return err
	}
	return o.conclude(ctx, result, out, err)
}
