// Package large is the command "squall bench large": what a large message costs the small ones that
// share its order.
//
// All members of a group send small messages as fast as they can, the whole time. The first one
// also sends a large message, rests, and sends the next one. Every member counts what it delivers,
// millisecond by millisecond. The rate of the slowest member while a large message is in flight,
// from its Send until it is delivered, stands next to its rate while none is; and the longest time
// in which some member delivered nothing.
//
// Life of a run: members open the group → all members are told to start → rounds of rest and large
// message → all accepted messages are delivered → each member tells its counts and a digest of all
// that it delivered, which must be equal.
package large

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/internal/wait"
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
	show.Choices(cmd, "fabric", "shm", "tcp", "auto")
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
	var faults errs.Faults
	faults.If(s.Nodes < 2 || s.Nodes > 16, "--nodes is %d: 2 to 16", s.Nodes)
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		faults.Add("--fabric is %q: shm, tcp or auto", s.Fabric)
	}
	faults.If(s.Small < 8 || s.Small > 1<<20, "--small is %d: 8 bytes to 1 MiB", s.Small)
	faults.If(s.Large <= s.ringBytes()/2 || s.Large > 1<<34,
		"--large is %d: more than %d, which the ring takes, up to 16 GiB", s.Large, s.ringBytes()/2)
	faults.If(s.Rounds < 1 || s.Rounds > 1000 || s.Rest < 10*time.Millisecond || s.Rest > time.Minute,
		"--rounds is %d and --rest is %v: 1 to 1000, and 10 ms to 1 minute", s.Rounds, s.Rest)
	faults.If(s.Window < 4 || s.Window > 1<<20 || s.Window&(s.Window-1) != 0,
		"--window is %d: a power of two from 4 to %d", s.Window, 1<<20)
	return faults.Err()
}

func (o *options) print(w io.Writer, r *result) error {
	if o.json {
		return show.JSONLine(w, r)
	}
	_, err := io.WriteString(w, r.String())
	return err
}

// result is what came out of a run. Rates are of small messages per second, at the slowest member.
type result struct {
	Nodes      int     `json:"nodes"`
	Fabric     string  `json:"fabric"`
	SmallBytes int     `json:"small_bytes"`
	LargeBytes int     `json:"large_bytes"`
	Rounds     int     `json:"rounds"`
	Alone      float64 `json:"rate_alone"`
	Beside     float64 `json:"rate_beside"`
	Ratio      float64 `json:"ratio"`
	StallMs    float64 `json:"stall_ms"`       // the longest time in which some member delivered none while a large one was in flight
	RestMs     float64 `json:"stall_alone_ms"` // and while none was
	TookMs     float64 `json:"large_ms"`       // the median time from Send to delivery
	LargeRate  float64 `json:"large_bytes_per_second"`
}

// largeWithin is how long a large message may take.
const largeWithin = 10 * time.Minute

var errOrder = errors.New("members delivered different sequences")

// measure measures once.
func measure(ctx context.Context, s spec, p *show.Progress) (r *result, err error) {
	defer p.End()
	err = bench.Run(ctx, bench.FleetConfig{Workload: Workload.Name, Count: s.Nodes, Spec: s}, func(f *bench.Fleet) error {
		if _, err := bench.Ask[any](f, bench.Request{Op: opStream}, bench.AnswerWithin); err != nil {
			return err
		}
		var larges []spell
		for range s.Rounds {
			if err := wait.Sleep(f.Context(), s.Rest); err != nil {
				return err
			}
			l, err := bench.AskSome[spell](f, f.Children()[:1], bench.Request{Op: opLarge}, largeWithin)
			if err != nil {
				return err
			}
			larges = append(larges, l...)
			p.Add()
		}
		if err := wait.Sleep(f.Context(), s.Rest); err != nil {
			return err
		}
		all, err := bench.Ask[*tally](f, bench.Request{Op: opEnd}, bench.SettleWithin)
		if err == nil {
			r, err = judge(s, larges, all)
		}
		return err
	})
	return r, err
}

// judge makes a result of what the members counted.
func judge(s spec, larges []spell, all []*tally) (*result, error) {
	for i, t := range all {
		if t.Digest != all[0].Digest {
			return nil, fmt.Errorf("%w: members 1 and %d", errOrder, i+1)
		}
	}
	rests := between(larges, s.Rest)
	r := &result{Nodes: s.Nodes, Fabric: s.Fabric, SmallBytes: s.Small, LargeBytes: s.Large, Rounds: s.Rounds, Alone: math.Inf(1), Beside: math.Inf(1)}
	for _, t := range all {
		r.Alone = min(r.Alone, t.rate(rests))
		r.Beside = min(r.Beside, t.rate(larges))
		r.StallMs = max(r.StallMs, t.longest(larges))
		r.RestMs = max(r.RestMs, t.longest(rests))
	}
	r.Ratio = r.Beside / r.Alone
	var took []int64
	for _, l := range larges {
		took = append(took, l.To-l.From)
	}
	slices.Sort(took)
	median := took[len(took)/2]
	r.TookMs, r.LargeRate = float64(median)/1e6, float64(s.Large)/(float64(median)/1e9)
	return r, nil
}

// between is the rests before each large message: their second half, when what the one before left
// behind is over.
func between(larges []spell, rest time.Duration) (rests []spell) {
	for _, l := range larges {
		rests = append(rests, spell{l.From - int64(rest)/2, l.From})
	}
	return rests
}

// rate is how many small messages were delivered per second in some spells, to the millisecond.
func (t *tally) rate(spells []spell) float64 {
	count, long := 0.0, 0.0
	for _, s := range spells {
		from, to := (s.From-t.Start+bucket-1)/bucket, (s.To-t.Start)/bucket
		for at := max(from, 0); at < to; at++ {
			long++
			if at < int64(len(t.Counts)) {
				count += float64(t.Counts[at])
			}
		}
	}
	if long == 0 {
		return 0
	}
	return count / (long / 1000)
}

// longest is the longest gap, in milliseconds, that overlaps any of some spells.
func (t *tally) longest(spells []spell) (ms float64) {
	for _, g := range t.Gaps {
		for _, s := range spells {
			if g.From < s.To && s.From < g.To {
				ms = max(ms, float64(g.To-g.From)/1e6)
			}
		}
	}
	return ms
}

// String is the result for people.
func (r *result) String() string {
	return fmt.Sprintf(`%d members, %s, %d B messages; %d of %d bytes among them
  small messages alone     %12.0f msg/s, longest pause %.1f ms
  next to a large one       %12.0f msg/s, longest pause %.1f ms
  next to / alone           %12.2f
  large, Send to delivered %12.1f ms, %.0f MB/s
`, r.Nodes, r.Fabric, r.SmallBytes, r.Rounds, r.LargeBytes, r.Alone, r.RestMs, r.Beside, r.StallMs, r.Ratio, r.TookMs, r.LargeRate/1e6)
}
