package large

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// options are the command's flags.
type options struct {
	spec spec
	json bool
}

// spec is what is measured.
type spec struct {
	Nodes  int
	Fabric string
	Small  int // bytes
	Large  int // bytes
	Rounds int
	Rest   time.Duration
	Window int
}

// NewCommand returns the command "large", which belongs below "bench".
func NewCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "large",
		Short: "Measure what large messages cost the small ones in the same order",
		Long: `Large starts the members of a group as processes on this machine. All of them send small messages as fast as they can, and the first
one a large message now and then. It prints the rate of the small messages, at the slowest member, while a large one is in flight and while
none is, and the longest time in which a member delivered nothing. In the end all members must have delivered the same sequence.`,
		Example: `  squall bench large                                   # 100 MB among messages of 1 KiB, 3 members, shared memory
  squall bench large --fabric tcp --large 1000000000 --rounds 3
  squall bench large --nodes 5 --json | jq .ratio`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.spec.check(); err != nil {
				return err
			}
			r, err := measure(cmd.Context(), o.spec, show.NewProgress(show.ProgressConfig{To: cmd.ErrOrStderr(), What: "large messages", Total: int64(o.spec.Rounds)}))
			if err != nil {
				return err
			}
			return o.print(cmd.OutOrStdout(), r)
		},
	}
	o.declare(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("fabric", cobra.FixedCompletions([]string{"shm", "tcp", "auto"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.SortFlags = false
	f.IntVar(&s.Nodes, "nodes", 3, "members, each a process: 2 to 16")
	f.StringVar(&s.Fabric, "fabric", "shm", "shm, tcp or auto")
	f.IntVar(&s.Small, "small", 1<<10, "bytes of a small message")
	f.IntVar(&s.Large, "large", 100_000_000, "bytes of a large message")
	f.IntVar(&s.Rounds, "rounds", 7, "large messages")
	f.DurationVar(&s.Rest, "rest", 400*time.Millisecond, "time between two large messages, in which the small ones are measured alone")
	f.IntVar(&s.Window, "window", 1024, "small messages in flight, per member")
	f.BoolVar(&o.json, "json", false, "print the result as one JSON object")
}

// ringBytes is room for the small messages of a window.
func (s *spec) ringBytes() int {
	n := 4096
	for n < 512<<10 || n < 2*s.Small {
		n *= 2
	}
	return n
}

// check reports all faults at once.
func (s *spec) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s.Nodes < 2 || s.Nodes > 16 {
		fault("--nodes is %d: 2 to 16", s.Nodes)
	}
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		fault("--fabric is %q: shm, tcp or auto", s.Fabric)
	}
	if s.Small < 8 || s.Small > 1<<20 {
		fault("--small is %d: 8 bytes to 1 MiB", s.Small)
	}
	if s.Large <= s.ringBytes()/2 || s.Large > 1<<34 {
		fault("--large is %d: more than %d, which the ring takes, up to 16 GiB", s.Large, s.ringBytes()/2)
	}
	if s.Rounds < 1 || s.Rounds > 1000 || s.Rest < 10*time.Millisecond || s.Rest > time.Minute {
		fault("--rounds is %d and --rest is %v: 1 to 1000, and 10 ms to 1 minute", s.Rounds, s.Rest)
	}
	if s.Window < 4 || s.Window > 1<<20 || s.Window&(s.Window-1) != 0 {
		fault("--window is %d: a power of two from 4 to %d", s.Window, 1<<20)
	}
	return errors.Join(errs...)
}

func (o *options) print(w io.Writer, r *result) error {
	if o.json {
		return show.JSONLine(w, r)
	}
	_, err := io.WriteString(w, r.String())
	return err
}
