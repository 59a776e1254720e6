package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
)

// Run is one run of a spec.
type Run struct {
	Rate       float64       `json:"rate"`            // messages/s that the slowest member delivered
	Undelayed  float64       `json:"undelayed_rate"`  // of these, the messages of senders without a delay
	BySender   []float64     `json:"by_sender"`       // the same by sender, from node 1 up
	TotalRate  float64       `json:"total_rate"`      // deliveries/s of all members together
	BytesRate  float64       `json:"bytes_rate"`      // bytes/s that the slowest member delivered
	CPUPerMsg  float64       `json:"cpu_us_per_msg"`  // user and system of all members, microseconds per message
	CPUPercent float64       `json:"cpu_percent_max"` // of the busiest member, of one core
	Allocs     float64       `json:"allocs_per_msg"`  // of all members, per message delivered at one
	Nulls      float64       `json:"nulls_per_msg"`   // sent, per message
	Send       float64       `json:"send_batch"`      // mean batches
	Receive    float64       `json:"receive_batch"`
	Deliver    float64       `json:"deliver_batch"`
	Loaded     bench.Latency `json:"latency_loaded"` // from filling a message to its delivery at its sender, with the stream going on
	Latency    bench.Latency `json:"latency"`        // of a closed loop
	Foreign    float64       `json:"foreign_cores"`  // cores that others than the members used meanwhile

	cores float64 // that the members used
}

// Measure runs a spec once, in processes of its own.
func Measure(ctx context.Context, spec Spec) (Run, error) {
	if err := spec.Validate(); err != nil {
		return Run{}, err
	}
	run, err := spec.measure(ctx)
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", spec.Kind, err)
	}
	return run, nil
}

func (s Spec) measure(ctx context.Context) (run Run, err error) {
	f, release, err := s.start(ctx)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, release()) }()
	samples, busy, err := bench.Sampled[Sample](f, bench.Request{Op: opRun}, s.Warmup, s.Duration)
	if err != nil {
		return run, err
	}
	if err := s.settle(f); err != nil {
		return run, err
	}
	finals, err := bench.Ask[bench.Latency](f, bench.Request{Op: opEnd}, bench.AnswerWithin)
	if err != nil {
		return run, err
	}
	run = s.summarize(samples)
	run.Loaded = finals[0]
	run.Foreign = max(0, busy-run.cores)
	return run, nil
}

// start starts the members and connects them. release ends them.
func (s Spec) start(ctx context.Context) (f *bench.Fleet, release func() error, err error) {
	memory := &bench.Segment{Close: func() error { return nil }}
	if s.Kind == Memory {
		if memory, err = bench.NewSegment(segmentBytes(s)); err != nil {
			return nil, nil, err
		}
	}
	c := bench.FleetConfig{Workload: Workload.Name, Count: s.Nodes, Config: func(node int) any { return job{s, node, memory.Path} }}
	if s.Kind == Squall { // the limits get what is best for them: the default
		c.Env = proc.Share(s.Nodes)
	}
	if f, err = bench.Start(ctx, c); err != nil {
		return nil, nil, errors.Join(err, memory.Close())
	}
	return f, func() error { return errors.Join(f.Close(), memory.Close()) }, nil
}

// settle waits until everything is delivered everywhere, and checks that it was the same.
func (s Spec) settle(f *bench.Fleet) error {
	if s.Kind == RoundTrip {
		return nil
	}
	var before []State
	return f.Until(func() (missing, fatal error) {
		states, err := bench.Ask[State](f, bench.Request{Op: opState}, bench.AnswerWithin)
		if err != nil {
			return nil, err
		}
		err = compare(states, s.stalls())
		same := slices.Equal(states, before)
		before = states
		switch {
		case err == nil && (same || !s.stalls()):
			return nil, nil
		case err == nil:
			return ErrNotSettled, nil
		case same && !errors.Is(err, ErrNotSettled):
			return nil, err
		}
		return err, nil
	})
}

// summarize makes a run of what its members saw.
func (s Spec) summarize(samples []Sample) (r Run) {
	r.Rate = -1
	var cpu time.Duration
	var mallocs, nulls, slowest uint64
	var batches Batches
	for _, m := range samples {
		seconds := m.Elapsed.Seconds()
		total := m.total()
		if rate := bench.Ratio(float64(total), seconds); r.Rate < 0 || rate < r.Rate {
			r.Rate, slowest = rate, total
			undelayed := uint64(0)
			r.BySender = make([]float64, len(m.Delivered))
			for i, n := range m.Delivered {
				r.BySender[i] = bench.Ratio(float64(n), seconds)
				if s.Delays[i+1] == 0 {
					undelayed += n
				}
			}
			r.Undelayed = bench.Ratio(float64(undelayed), seconds)
		}
		r.TotalRate += bench.Ratio(float64(total), seconds)
		r.cores += bench.Ratio(m.CPU.Seconds(), seconds)
		r.CPUPercent = max(r.CPUPercent, 100*bench.Ratio(m.CPU.Seconds(), seconds))
		cpu += m.CPU
		mallocs += m.Mallocs
		nulls += m.Nulls
		for _, b := range []struct{ to, from *Batch }{
			{&batches.Send, &m.Batches.Send}, {&batches.Receive, &m.Batches.Receive}, {&batches.Deliver, &m.Batches.Deliver},
		} {
			b.to.Sum += b.from.Sum
			b.to.Count += b.from.Count
		}
	}
	r.BytesRate = r.Rate * float64(s.SizeBytes)
	r.CPUPerMsg = bench.Ratio(float64(cpu)/1e3, float64(slowest))
	r.Allocs = bench.Ratio(float64(mallocs), float64(slowest))
	r.Nulls = bench.Ratio(float64(nulls), float64(slowest))
	r.Send, r.Receive, r.Deliver = batches.Send.Mean(), batches.Receive.Mean(), batches.Deliver.Mean()
	r.Latency = samples[0].Latency
	return r
}
