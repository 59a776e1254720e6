package simulate

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/sim"
)

// Result is what a campaign came to; with --json it is printed as it is.
type Result struct {
	First          uint64         `json:"first"`
	Seeds          uint64         `json:"seeds"` // that were played
	Seconds        float64        `json:"seconds"`
	SeedsPerSecond float64        `json:"seeds_per_second"`
	Deliveries     uint64         `json:"deliveries"`
	Views          uint64         `json:"views"`
	Steps          uint64         `json:"steps"`
	SlowestOfBound float64        `json:"slowest_of_bound"` // the part of its bound that the slowest delivery took
	Commit         string         `json:"commit"`
	Probes         map[string]int `json:"probes,omitempty"`  // how often each rare branch was taken
	Reached        map[string]int `json:"reached,omitempty"` // by how many seeds
	Failed         *Failure       `json:"failed,omitempty"`

	probes []sim.Probe // in the order of the table
}

// Failure is the failed run with the lowest seed.
type Failure struct {
	Seed   uint64  `json:"seed"`
	Error  string  `json:"error"`
	Replay string  `json:"replay"`
	Report string  `json:"report,omitempty"` // the violation, the plan and the end of the trace
	Shrunk *Shrunk `json:"shrunk,omitempty"`
}

// Shrunk is the smallest plan that was found to fail as the failed one does.
type Shrunk struct {
	Plan   *sim.Plan `json:"plan"`
	File   string    `json:"file"`
	Error  string    `json:"error"`
	Replay string    `json:"replay"`
	Tried  int       `json:"tried"` // plans

	err error
}

func (o *options) result(c *sim.Campaign, took time.Duration, small *Shrunk) Result {
	r := Result{
		First: o.first, Seeds: c.Seeds, Seconds: took.Seconds(), SeedsPerSecond: float64(c.Seeds) / max(took.Seconds(), 1e-9),
		Deliveries: c.Deliveries, Views: c.Views, Steps: c.Steps, SlowestOfBound: c.Slowest, Commit: commit(),
	}
	if o.coverage {
		r.Probes, r.Reached = map[string]int{}, map[string]int{}
		for k, n := range c.Probes {
			r.Probes[sim.Probe(k).String()] = n
			r.Reached[sim.Probe(k).String()] = c.Reached[k]
			r.probes = append(r.probes, sim.Probe(k))
		}
	}
	if p := c.Failed; p != nil {
		r.Failed = &Failure{Seed: p.Seed, Error: c.Err.Error(), Replay: sim.Replay(p), Shrunk: small}
		if o.drawn != nil {
			r.Failed.Replay = sim.ReplayFile(o.plan)
		}
		switch {
		case small != nil:
			r.Failed.Report = sim.ReportOf(small.Plan, o.play, small.err, small.Replay)
		case !o.trace: // it stands above already
			r.Failed.Report = sim.ReportOf(p, o.play, c.Err, r.Failed.Replay)
		}
	}
	return r
}

func (r Result) write(w io.Writer, o *options) error {
	if o.json {
		return show.JSON(w, r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// text is the result for people.
func (r Result) text() string {
	var b strings.Builder
	if f := r.Failed; f != nil {
		fmt.Fprintf(&b, "seed %d failed at commit %s\n", f.Seed, r.Commit)
		if f.Report == "" || f.Shrunk != nil {
			fmt.Fprintf(&b, "%s\nreplay: %s\n", f.Error, f.Replay)
		}
		if s := f.Shrunk; s != nil {
			fmt.Fprintf(&b, "\nshrunk to %s, in %d tries; %s has this plan\n", s.Plan.Size(), s.Tried, s.File)
		}
		fmt.Fprintf(&b, "%s\n", f.Report)
	}
	for _, p := range r.probes {
		fmt.Fprintf(&b, "%10d in %7d seeds  %v\n", r.Probes[p.String()], r.Reached[p.String()], p)
	}
	if never := r.never(); len(never) > 0 {
		fmt.Fprintf(&b, "never taken: %s\n", strings.Join(never, ", "))
	}
	fmt.Fprintf(&b, "%d seeds from %d in %.1f s, %.0f seeds/s: %d deliveries in %d views, %d steps of members",
		r.Seeds, r.First, r.Seconds, r.SeedsPerSecond, r.Deliveries, r.Views, r.Steps)
	if r.SlowestOfBound > 0 {
		fmt.Fprintf(&b, "; the slowest delivery took %.0f %% of its bound", 100*r.SlowestOfBound)
	}
	return b.String() + "\n"
}

// never lists the rare branches that were not taken.
func (r Result) never() (names []string) {
	for _, p := range r.probes {
		if r.Probes[p.String()] == 0 {
			names = append(names, p.String())
		}
	}
	return names
}

// verdict is the error that the command ends with.
func (r Result) verdict() error {
	if r.Failed == nil {
		return nil
	}
	first, _, _ := strings.Cut(r.Failed.Error, "\n")
	return fmt.Errorf("seed %d: %s", r.Failed.Seed, first)
}
