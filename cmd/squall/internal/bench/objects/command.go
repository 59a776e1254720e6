package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// options are the command's flags.
type options struct {
	base     spec
	runs     int
	kills    int
	only     []string
	peers    string
	etcd     string
	json     bool
	markdown bool
	trip     SocketTrip
}

// SocketTrip measures round trips of messages over a socket of a kind between two processes, and returns their mean time in microseconds.
type SocketTrip func(ctx context.Context, network string, sizeBytes int, warmup, duration time.Duration) (float64, error)

// sections are what can be measured alone.
var sections = []string{"commands", "reads", "memory", "disk", "gets", "many", "kill", "etcd"}

// NewCommand returns the command "objects", which belongs below "bench". Trip measures what reads are held against.
func NewCommand(trip SocketTrip) *cobra.Command {
	o := options{trip: trip, base: spec{Fabric: "shm", Processes: 2}}
	cmd := &cobra.Command{
		Use:   "objects",
		Short: "Measure replicated objects and their clients",
		Long: `Objects starts three processes that are the members of a group with one object: keys with values. It measures commands and reads of the members, next to
messages without an object; and puts and gets of clients, in processes of their own, of which each has one call at a time. With --peers, the same clients put and
get with etcd, Redis and NATS JetStream in the same run.`,
		Example: `  squall bench objects
  squall bench objects --only memory --clients 1000
  go -C bench build -o /tmp ./objectpeers
  go -C examples/etcd build -o /tmp/squall-etcd .
  squall bench objects --markdown --peers /tmp/objectpeers --etcd /tmp/squall-etcd   # the table of docs/benchmarks.md`,
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
	f.IntVar(&o.base.SizeBytes, "size", 256, "bytes of a value of a client; commands of members have 100")
	f.IntVar(&o.base.Clients, "clients", 128, "clients, each with one call at a time")
	f.IntVar(&o.base.Processes, "processes", o.base.Processes, "processes that the clients are in")
	f.StringVar(&o.base.Dir, "dir", ".", "where logs are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&o.kills, "kills", 4, "members that are killed in a run of the section kill")
	f.IntVar(&o.runs, "runs", 3, "runs of everything; the table shows medians")
	f.DurationVar(&o.base.Warmup, "warmup", 500*time.Millisecond, "time before each measurement")
	f.DurationVar(&o.base.Duration, "duration", 2*time.Second, "time of each measurement")
	f.StringSliceVar(&o.only, "only", sections, "what to measure")
	f.StringVar(&o.peers, "peers", "", "a program that measures etcd, Redis and NATS JetStream in the same run: bench/objectpeers")
	f.StringVar(&o.etcd, "etcd", "", "with --peers: the program of examples/etcd, which is measured with the client of etcd")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
	f.StringVar(&o.base.Profile, "cpuprofile", "", "each process writes where its processor time went, in the window, to a file that begins so (.LOAD.NODE.pprof)")
}

// check reports all faults at once.
func (o *options) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.base.SizeBytes < 1 || o.base.SizeBytes > 4096 {
		fault("--size is %d: 1 to 4096 bytes", o.base.SizeBytes)
	}
	if o.base.Processes < 1 || o.base.Processes > 64 {
		fault("--processes is %d: 1 to 64", o.base.Processes)
	} else if o.base.Clients < o.base.Processes || o.base.Clients > 100_000 || o.base.Clients%o.base.Processes != 0 {
		fault("--clients is %d: the same number for each process, up to 100000 in all", o.base.Clients)
	}
	if o.runs < 1 || o.runs > 1000 {
		fault("--runs is %d: 1 to 1000", o.runs)
	}
	if o.kills < 1 || o.kills > 1000 {
		fault("--kills is %d: 1 to 1000", o.kills)
	}
	if o.base.Warmup < 0 || o.base.Duration < time.Millisecond || o.base.Warmup+o.base.Duration > time.Hour {
		fault("--warmup is %v and --duration is %v: together up to an hour", o.base.Warmup, o.base.Duration)
	}
	for _, name := range o.only {
		if !slices.Contains(sections, name) {
			fault("--only %s: one of %v", name, sections)
		}
	}
	return errors.Join(errs...)
}

func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	var all []bench.Set[run]
	for _, name := range o.only {
		all = append(all, o.set(name))
	}
	r, err := bench.Measure(ctx, o.runs, all, nil, messages)
	if err != nil {
		return err
	}
	title := fmt.Sprintf("%v; three members; medians of %d runs", r.Machine, r.Runs)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.markdown, Title: title}, nil)
}
