package ripc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// options are the command's flags.
type options struct {
	size     int
	runs     int
	warmup   time.Duration
	duration time.Duration
	only     []string
	peers    string
	json     bool
	markdown bool
}

// sections are what can be measured alone.
var sections = []string{"round-trips", "one-way", "calls", "idle", "long", "http"}

// NewCommand returns the command "ripc", which belongs below "bench".
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "ripc",
		Short: "Measure messages and calls between two processes",
		Long: `Ripc starts two processes on this machine. One of them answers, the other one measures round trips of messages, messages one way, and
calls, through shared memory and TCP; what a server takes with a thousand idle clients, and whether they slow busy ones down; and long messages, alone and next to short ones. Next to them are plain sockets of package net and calls of package net/rpc, measured in the same run; and
requests of HTTP, over net/http on a unix socket, over net/http on streams, and with package ripchttp.`,
		Example: `  squall bench ripc
  squall bench ripc --only one-way --size 1024
  go -C bench build -o /tmp ./rpcpeers
  squall bench ripc --markdown --peers /tmp/rpcpeers   # the table of docs/benchmarks.md`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.size, "size", 64, "bytes of a message")
	f.IntVar(&o.runs, "runs", 5, "runs of everything; the table shows medians")
	f.DurationVar(&o.warmup, "warmup", 200*time.Millisecond, "time before each measurement")
	f.DurationVar(&o.duration, "duration", time.Second, "time of each measurement")
	f.StringSliceVar(&o.only, "only", sections, "what to measure")
	f.StringVar(&o.peers, "peers", "", "a program that measures gRPC, UCX and ZeroMQ in the same run: bench/rpcpeers")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
}

// check reports all faults at once.
func (o *options) check() error {
	var errs []error
	if o.size < 1 || o.size > 4096 {
		errs = append(errs, fmt.Errorf("--size is %d: 1 to 4096 bytes", o.size))
	}
	if o.runs < 1 || o.runs > 1000 {
		errs = append(errs, fmt.Errorf("--runs is %d: 1 to 1000", o.runs))
	}
	if o.warmup < 0 || o.duration < time.Millisecond || o.warmup+o.duration > time.Hour {
		errs = append(errs, fmt.Errorf("--warmup is %v and --duration is %v: together up to an hour", o.warmup, o.duration))
	}
	for _, name := range o.only {
		if sets[name] == nil {
			errs = append(errs, fmt.Errorf("--only %s: one of %v", name, sections))
		}
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	base := spec{System: viaRIPC, Fabric: "shm", Size: o.size, Warmup: o.warmup, Duration: o.duration}
	var all []bench.Set[run]
	for _, name := range o.only {
		all = append(all, sets[name](base, bench.Peers{Path: o.peers}))
	}
	r, err := bench.Measure(ctx, o.runs, all, nil, messages)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%v; medians of %d runs", r.Machine, r.Runs)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.markdown, Title: title}, nil)
}
