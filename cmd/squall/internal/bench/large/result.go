package large

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/backoff"
)

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
	StallMs    float64 `json:"stall_ms"`       // the longest time in which some member delivered none while a large one was under way
	RestMs     float64 `json:"stall_alone_ms"` // and while none was
	TookMs     float64 `json:"large_ms"`       // the median time from Send to delivery
	LargeRate  float64 `json:"large_bytes_per_second"`
}

// largeWithin is how long a large message may take.
const largeWithin = 10 * time.Minute

var errOrder = errors.New("members delivered different sequences")

// measure measures once.
func measure(ctx context.Context, s spec, p *show.Progress) (r *result, err error) {
	f, err := bench.Start(ctx, bench.FleetConfig{Workload: Workload.Name, Count: s.Nodes, Config: func(int) any { return s }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := bench.Ask[any](f, bench.Request{Op: opStream}, bench.AnswerWithin); err != nil {
		return nil, err
	}
	var larges []spell
	defer p.End()
	for range s.Rounds {
		if err := backoff.Sleep(f.Context(), s.Rest); err != nil {
			return nil, err
		}
		l, err := bench.AskSome[spell](f, f.Children()[:1], bench.Request{Op: opLarge}, largeWithin)
		if err != nil {
			return nil, err
		}
		larges = append(larges, l...)
		p.Add()
	}
	if err := backoff.Sleep(f.Context(), s.Rest); err != nil {
		return nil, err
	}
	all, err := bench.Ask[*tally](f, bench.Request{Op: opEnd}, bench.SettleWithin)
	if err != nil {
		return nil, err
	}
	return judge(s, larges, all)
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
