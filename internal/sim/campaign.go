package sim

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/internal/mutant"
)

// Campaign runs many seeds on all cores and stops at the first failure.
type Campaign struct {
	First, Count uint64
	Limits       Limits
	Options      Options
	Workers      int // 0: one for each core
	// Draw makes the plans; nil: Draw of this package within Limits.
	Draw func(seed uint64) *Plan
	// Stop, if not nil, ends the campaign early once it is closed.
	Stop <-chan struct{}
	// Progress, if not nil, is called after every run, by one worker at a time.
	Progress func(*Campaign)

	mu sync.Mutex
	// Tally is what was done so far. Progress may read it, and any goroutine once Run has returned.
	Tally
}

// Tally adds runs up.
type Tally struct {
	Seeds, Deliveries, Steps, Views uint64
	Probes                          Probes  // how often each rare branch was taken
	Reached                         Probes  // the runs that took it
	Slowest                         float64 // the part of its bound that the slowest delivery took
	Failed                          *Plan   // the failed one with the lowest seed; nil: none
	Err                             error   // how it failed
}

// gcPercent lets the heap of a campaign grow to some 20 MB: a run makes much garbage, and keeps
// little.
const gcPercent = 400

// Run plays all seeds, or as many as it takes until one fails, and returns the violation.
func (c *Campaign) Run() error {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	workers := c.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var next atomic.Uint64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for k := next.Add(1) - 1; k < c.Count && !c.stopped() && c.one(c.First+k); k = next.Add(1) - 1 {
			}
			next.Store(c.Count)
		})
	}
	all.Wait()
	return c.Err
}

func (c *Campaign) stopped() bool {
	select {
	case <-c.Stop:
		return true
	default:
		return false
	}
}

func (c *Campaign) plan(seed uint64) *Plan {
	if c.Draw != nil {
		return c.Draw(seed)
	}
	return Draw(seed, c.Limits)
}

func (c *Campaign) one(seed uint64) bool {
	p := c.plan(seed)
	r := Run(p, c.Options)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(p, &r)
	if c.Progress != nil {
		c.Progress(c)
	}
	return r.Err == nil
}

func (t *Tally) add(p *Plan, r *Result) {
	t.Seeds++
	t.Deliveries += uint64(r.Deliveries)
	t.Steps += uint64(r.Steps)
	t.Views += uint64(r.Views)
	t.Probes.Add(&r.Probes)
	t.Reached.AddRun(&r.Probes)
	t.Slowest = max(t.Slowest, r.SlowestOfBound)
	if r.Err != nil && (t.Failed == nil || p.Seed < t.Failed.Seed) {
		t.Failed, t.Err = p, r.Err
	}
}

// CoverSeeds is how many seeds must reach every probe.
const CoverSeeds = 2000

// reportLines is how much of a trace a report shows.
const reportLines = 120

// Report says all about a failed run: the violation, the plan, the end of its trace, and how to see
// it again. It plays the plan once more for the trace.
func Report(p *Plan, o Options, err error) string { return ReportOf(p, o, err, Replay(p)) }

// ReportOf is a Report with the command that plays the plan again.
func ReportOf(p *Plan, o Options, err error, replay string) string {
	var out bytes.Buffer
	o.Trace = &out
	again := Run(p, o)
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	lines = lines[max(0, len(lines)-reportLines):]
	text := fmt.Sprintf("%v\n\n%v\nreplay: %s\n\n%s\n", err, p, replay, strings.Join(lines, "\n"))
	if again.Err == nil || again.Err.Error() != err.Error() && !strings.Contains(err.Error(), "panic") {
		text += fmt.Sprintf("The replay ended otherwise: %v\n", again.Err)
	}
	return text
}

// Replay is the command that plays a plan once more with its trace. It takes the same build: with
// the tag mutants rows change between the loads of a step.
func Replay(p *Plan) string {
	return fmt.Sprintf("%s --seed %d%s --trace", command(), p.Seed, p.Limits.Flags())
}

// ReplayFile is the command that plays the plan in a file.
func ReplayFile(name string) string { return fmt.Sprintf("%s --plan %s --trace", command(), name) }

func command() string {
	if mutant.Enabled {
		return "go run -tags mutants ./cmd/squall sim"
	}
	return "go run ./cmd/squall sim"
}
