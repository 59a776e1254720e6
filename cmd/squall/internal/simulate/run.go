package simulate

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/cmd/squall/internal/version"
	"github.com/squall-go/squall/internal/sim"
)

// run plays the seeds. Standard output gets the result, standard error what is for people
// meanwhile.
func (o *options) run(ctx context.Context, out, errs io.Writer) error {
	if o.trace {
		return o.show(out)
	}
	bar := show.NewProgress(show.ProgressConfig{To: errs, What: "simulating", Total: int64(o.count), Unit: "seeds"})
	c := sim.Campaign{First: o.first, Count: o.count, Limits: o.limits, Options: o.play, Workers: o.jobs, Stop: ctx.Done(), Progress: func(c *sim.Campaign) { bar.Set(int64(c.Seeds)) }}
	if o.drawn != nil {
		c.Draw = func(uint64) *sim.Plan { return o.drawn }
	}
	start := time.Now()
	c.Run()
	took := time.Since(start)
	bar.End()
	small, err := o.shrunk(ctx, &c, errs)
	if err != nil {
		return err
	}
	r := o.result(&c, took, small)
	if err := r.write(out, o); err != nil {
		return err
	}
	if ctx.Err() != nil && c.Err == nil {
		return ctx.Err()
	}
	return r.verdict()
}

// show plays one seed, and prints its plan and everything that happens.
func (o *options) show(out io.Writer) error {
	p := o.drawn
	if p == nil {
		p = sim.Draw(o.first, o.limits)
	}
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%v\n", p)
	start := time.Now()
	play := o.play
	play.Trace = w
	run := sim.Run(p, play)
	r := o.result(&sim.Campaign{Tally: single(p, run)}, time.Since(start), nil)
	fmt.Fprintln(w)
	if err := r.write(w, o); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.verdict()
}

// single is what one run comes to.
func single(p *sim.Plan, r sim.Result) sim.Tally {
	t := sim.Tally{
		Seeds: 1, Deliveries: uint64(r.Deliveries), Steps: uint64(r.Steps), Views: uint64(r.Views), Probes: r.Probes, Slowest: r.SlowestOfBound, Err: r.Err,
	}
	t.Reached.AddRun(&r.Probes)
	if r.Err != nil {
		t.Failed = p
	}
	return t
}

// commit is the commit from which this program was built.
func commit() string {
	commit, modified := version.Commit()
	if modified {
		commit += " (modified)"
	}
	return cmp.Or(commit, "unknown")
}
