package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/squall-go/squall/internal/sim"
)

// readPlan reads the plan of --plan.
func (o *options) readPlan() error {
	text, err := os.ReadFile(o.plan)
	if err != nil {
		return err
	}
	var file sim.PlanFile
	if err := json.Unmarshal(text, &file); err != nil {
		return fmt.Errorf("%s: %w", o.plan, err)
	}
	if file.Plan == nil {
		return fmt.Errorf("%s has no plan", o.plan)
	}
	o.drawn = file.Plan
	o.first, o.seed = file.Plan.Seed, file.Plan.Seed
	return nil
}

// shrunk makes the plan with which a campaign failed smaller, and writes the result to a file. It
// returns nil if the campaign did not fail, or its plan is not to be changed.
func (o *options) shrunk(ctx context.Context, c *sim.Campaign, errs io.Writer) (*Shrunk, error) {
	if c.Failed == nil || !o.shrink {
		return nil, nil
	}
	if o.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.patience)
		defer cancel()
	}
	fmt.Fprintf(errs, "seed %d failed: %v\nshrinking %s\n", c.Failed.Seed, c.Err, c.Failed.Size())
	told, size := time.Now(), ""
	s := sim.Shrinker{Options: o.play, Stop: ctx.Done(), Progress: func(tried int, smallest *sim.Plan) {
		if now := smallest.Size(); now != size && time.Since(told) > time.Second {
			told, size = time.Now(), now
			fmt.Fprintf(errs, "after %d tries: %s\n", tried, size)
		}
	}}
	p, err := s.Shrink(c.Failed)
	if err == nil {
		return nil, nil // it does not fail once more: the report says so
	}
	name, fault := o.keep(p, err)
	if fault != nil {
		return nil, fault
	}
	return &Shrunk{Plan: p, File: name, Error: err.Error(), Replay: sim.ReplayFile(name), Tried: s.Tried(), err: err}, nil
}

// keep writes a plan to its file.
func (o *options) keep(p *sim.Plan, violation error) (name string, err error) {
	if o.save != "" {
		return o.save, o.write(o.save, p, violation)
	}
	f, err := os.CreateTemp("", "squall-plan-*.json")
	if err != nil {
		return "", err
	}
	f.Close()
	return f.Name(), o.write(f.Name(), p, violation)
}

func (o *options) write(name string, p *sim.Plan, violation error) error {
	text, err := json.MarshalIndent(sim.NewPlanFile(p, violation, commit()), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}
