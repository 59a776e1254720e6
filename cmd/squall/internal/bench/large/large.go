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

// spec is what is measured.
type spec struct {
	Nodes  int           `json:"nodes"`
	Fabric string        `json:"fabric"`
	Small  int           `json:"small_bytes"`
	Large  int           `json:"large_bytes"`
	Rounds int           `json:"rounds"`
	Rest   time.Duration `json:"rest"`
}

// NewCommand returns the command "large", which belongs below "bench".
func NewCommand() *cobra.Command {
	s := &spec{}
	cmd := bench.Suite[run]{
		Use:   "large",
		Short: "Measure what large messages cost the small ones in the same order",
		Long: `Large starts the members of a group as processes on this machine. All of them send small messages as fast as they can, and the first
one a large message now and then. It prints the rate of the small messages, at the slowest member, while a large one is in flight and while
none is, and the longest time in which a member delivered nothing. In the end all members must have delivered the same sequence.`,
		Example: `  squall bench large                                   # 100 MB among messages of 1 KiB, 3 members, shared memory
  squall bench large --fabric tcp --large 1000000000 --rounds 3
  squall bench large --nodes 5 --json | jq .rows[0].ratio`,
		Runs: 1, Flags: s.declare, Check: s.check, Title: s.title, Sets: func() []bench.Set[run] { return []bench.Set[run]{s.bars()} },
	}.Command()
	show.Choices(cmd, "fabric", "shm", "tcp", "auto")
	return cmd
}

func (s *spec) declare(f *pflag.FlagSet) {
	f.IntVar(&s.Nodes, "nodes", 3, "members, each a process: 2 to 16")
	f.StringVar(&s.Fabric, "fabric", "shm", "shm, tcp or auto")
	f.IntVar(&s.Small, "small", 1<<10, "bytes of a small message")
	f.IntVar(&s.Large, "large", 100_000_000, "bytes of a large message")
	f.IntVar(&s.Rounds, "rounds", 7, "large messages of a run")
	f.DurationVar(&s.Rest, "rest", 400*time.Millisecond, "time between two large messages, in which the small ones are measured alone")
}

// window is how many small messages of a member may be in flight.
const window = 1024

// ringBytes is room for the small messages of a window.
func (s *spec) ringBytes() int {
	n := 512 << 10
	for n < 2*s.Small {
		n *= 2
	}
	return n
}

func (s *spec) check(_ *pflag.FlagSet, faults *errs.Faults) {
	faults.If(s.Nodes < 2 || s.Nodes > 16, "--nodes is %d: 2 to 16", s.Nodes)
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		faults.Add("--fabric is %q: shm, tcp or auto", s.Fabric)
	}
	faults.If(s.Small < 8 || s.Small > 1<<20, "--small is %d: 8 bytes to 1 MiB", s.Small)
	faults.If(s.Large <= s.ringBytes()/2 || s.Large > 1<<34,
		"--large is %d: more than %d, which the ring takes, up to 16 GiB", s.Large, s.ringBytes()/2)
	faults.If(s.Rounds < 1 || s.Rounds > 1000 || s.Rest < 10*time.Millisecond || s.Rest > time.Minute,
		"--rounds is %d and --rest is %v: 1 to 1000, and 10 ms to 1 minute", s.Rounds, s.Rest)
}

func (s *spec) title() string {
	return fmt.Sprintf("%d members, %s, messages of %s, %d of %d bytes among them", s.Nodes, s.Fabric, bench.Size(s.Small), s.Rounds, s.Large)
}

// run is what came out of a run. Rates are of small messages per second, at the slowest member.
type run struct {
	Alone     float64 `json:"rate_alone"`
	Beside    float64 `json:"rate_beside"`
	StallMs   float64 `json:"stall_ms"`       // the longest time in which some member delivered none while a large one was in flight
	RestMs    float64 `json:"stall_alone_ms"` // and while none was
	TookMs    float64 `json:"large_ms"`       // the median time from Send to delivery
	LargeRate float64 `json:"large_bytes_per_second"`
}

// bars hold the small messages next to a large one against themselves alone.
func (s *spec) bars() (all bench.Set[run]) {
	const beside, alone = "small messages next to a large one", "small messages alone"
	own := bench.Case[run]{Name: beside, Spec: s, Measure: s.measure}
	all.Judge(bench.Bar[run]{
		Unit: "msgs/s", Figure: own, Of: func(r run) float64 { return r.Beside },
		Limits: []bench.Case[run]{own}, LimitOf: func(r run) float64 { return r.Alone }, LimitName: alone, Asked: bench.Asked{AtLeast: 0.5},
	})
	all.Alone(beside+": longest pause", "ms", own, func(r run) float64 { return r.StallMs }, bench.Asked{AtMost: 50})
	all.Alone(alone+": longest pause", "ms", own, func(r run) float64 { return r.RestMs }, bench.Asked{})
	all.Alone("large message, from Send until it is delivered", "ms", own, func(r run) float64 { return r.TookMs }, bench.Asked{})
	all.Alone("its rate", "MB/s", own, func(r run) float64 { return r.LargeRate / 1e6 }, bench.Asked{})
	return all
}

// largeWithin is how long a large message may take.
const largeWithin = 10 * time.Minute

var errOrder = errors.New("members delivered different sequences")

// measure measures once.
func (s *spec) measure(ctx context.Context) (r run, err error) {
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
		}
		if err := wait.Sleep(f.Context(), s.Rest); err != nil {
			return err
		}
		all, err := bench.Ask[*tally](f, bench.Request{Op: opEnd}, bench.SettleWithin)
		if err == nil {
			r, err = s.summarize(larges, all)
		}
		return err
	})
	return r, err
}

// summarize makes a run of what the members counted.
func (s *spec) summarize(larges []spell, all []*tally) (r run, err error) {
	rests := between(larges, s.Rest)
	r.Alone, r.Beside = math.Inf(1), math.Inf(1)
	for i, t := range all {
		if t.Digest != all[0].Digest {
			return r, fmt.Errorf("%w: members 1 and %d", errOrder, i+1)
		}
		r.Alone = min(r.Alone, t.rate(rests))
		r.Beside = min(r.Beside, t.rate(larges))
		r.StallMs = max(r.StallMs, t.longest(larges))
		r.RestMs = max(r.RestMs, t.longest(rests))
	}
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
