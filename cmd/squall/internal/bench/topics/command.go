package topics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
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
	only     []string
	ddsperf  string
	figure   bool
	out      string
	json     bool
	markdown bool
}

// sections are what can be measured alone.
var sections = []string{"stream", "trips", "topics", "levels", "relay", "late"}

// NewCommand returns the command "dds", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := options{base: spec{Fabric: "shm", Level: atomic}}
	cmd := &cobra.Command{
		Use:   "dds",
		Short: "Measure topics: a writer and readers in processes, next to ddsperf",
		Long: `Dds starts a process with a writer and processes with readers of one topic, reliable and KEEP_ALL, and measures samples a second at the slowest reader; pings and
pongs of two processes; one active topic among forty; the levels of storage; a reader and a writer of a client of a relay, next to those of members; and a process that joins late
and gets a long history. Samples are written in place and heard by listeners, unless the row says that they are
written and taken. Where CycloneDDS's ddsperf is installed (Debian: cyclonedds-tools), it is measured in the same run. With --figure18, the experiment of the
Spindle paper: one writer, one reader and more, four levels of storage, with the optimisations of the protocol and without.`,
		Example: `  squall bench dds
  squall bench dds --only stream --readers 2 --markdown
  squall bench dds --figure18 --readers 3 --samples 1000000 --out docs/plots`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if o.figure {
				return o.figure18(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.declare(cmd.Flags())
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.base.Readers, "readers", 2, "processes with a reader; with --figure18, up to so many")
	f.IntVar(&o.base.SizeBytes, "size", 10<<10, "bytes of a sample, of the levels of storage; streams have 100 B and 10 KiB, pings 100 B")
	f.StringVar(&o.base.Fabric, "fabric", o.base.Fabric, "of the levels of storage, relays and late joiners: shm or tcp")
	f.StringVar(&o.base.Dir, "dir", ".", "where logs are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&o.runs, "runs", 3, "runs of everything; the table shows medians")
	f.DurationVar(&o.base.Warmup, "warmup", 500*time.Millisecond, "time before each measurement")
	f.DurationVar(&o.base.Duration, "duration", 2*time.Second, "time of each measurement")
	f.StringSliceVar(&o.only, "only", sections, "what to measure")
	path, _ := exec.LookPath("ddsperf") // without it, its rows say so
	f.StringVar(&o.ddsperf, "ddsperf", path, "CycloneDDS's ddsperf, which is measured in the same run")
	f.BoolVar(&o.figure, "figure18", false, "measure what Figure 18 of the Spindle paper shows, instead of the rest")
	f.IntVar(&o.base.Samples, "samples", 0, "with --figure18: samples of each measurement, about, if they take longer than --duration")
	f.StringVar(&o.out, "out", "", "with --figure18: a directory for the plot (dds-figure-18.svg)")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
	f.BoolVar(&o.markdown, "markdown", false, "print the tables in Markdown")
	f.StringVar(&o.base.Profile, "cpuprofile", "", "each process writes where its processor time went, in the window, to a file that begins so (.NODE.pprof)")
}

// check reports all faults at once.
func (o *options) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.base.SizeBytes < 16 || o.base.SizeBytes > 128<<10 {
		fault("--size is %d: 16 bytes to 128 KiB", o.base.SizeBytes)
	}
	if o.base.Samples < 0 || o.base.Samples > 0 && !o.figure {
		fault("--samples is %d: 0 or more, with --figure18", o.base.Samples)
	}
	if o.base.Readers < 1 || o.base.Readers > 15 {
		fault("--readers is %d: 1 to 15", o.base.Readers)
	}
	if o.base.Fabric != "shm" && o.base.Fabric != "tcp" {
		fault("--fabric %s: shm or tcp", o.base.Fabric)
	}
	if o.runs < 1 || o.runs > 1000 {
		fault("--runs is %d: 1 to 1000", o.runs)
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
	title := fmt.Sprintf("%v; one writer; medians of %d runs", r.Machine, r.Runs)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.markdown, Title: title}, nil)
}
