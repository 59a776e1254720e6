package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// Run is one run of a spec.
type Run struct {
	Rate       float64   `json:"rate"`            // messages/s that the slowest member delivered
	Undelayed  float64   `json:"undelayed_rate"`  // of those, the messages of senders without a delay
	BySender   []float64 `json:"by_sender"`       // the same by sender, from node 1 up
	TotalRate  float64   `json:"total_rate"`      // deliveries/s of all members together
	BytesRate  float64   `json:"bytes_rate"`      // bytes/s that the slowest member delivered
	CPUPerMsg  float64   `json:"cpu_us_per_msg"`  // user and system of all members, microseconds per message
	CPUPercent float64   `json:"cpu_percent_max"` // of the busiest member, of one core
	Allocs     float64   `json:"allocs_per_msg"`  // of all members, per message delivered at one
	Nulls      float64   `json:"nulls_per_msg"`   // sent, per message
	Send       float64   `json:"send_batch"`      // mean batches
	Receive    float64   `json:"receive_batch"`
	Deliver    float64   `json:"deliver_batch"`
	Loaded     Latency   `json:"latency_loaded"` // from filling a message to its delivery at its sender, with the stream going on
	Latency    Latency   `json:"latency"`        // of a closed loop
	Foreign    float64   `json:"foreign_cores"`  // cores that others than the members used meanwhile

	cores float64 // that the members used
}

// Times that a run may take beyond its window.
const (
	startWithin  = 45 * time.Second
	answerWithin = 15 * time.Second
	settleWithin = 20 * time.Second
	endWithin    = 3 * time.Second
	noticed      = 200 * time.Millisecond // until the parent knows of all that died together
)

// processes are the members of a run.
type processes struct {
	spec     Spec
	children []*proc.Child
	outer    context.Context // its end kills the members
	ctx      context.Context // ends also with the first member that does
	cancel   context.CancelCauseFunc
	watched  sync.WaitGroup
	segment  *segment
	ending   chan struct{} // closed when members may end
}

// Measure runs a spec once, in processes of its own.
func Measure(ctx context.Context, spec Spec) (Run, error) {
	if err := spec.Validate(); err != nil {
		return Run{}, err
	}
	p := &processes{spec: spec, outer: ctx, ending: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	defer p.close()
	run, err := p.measure()
	if err != nil {
		return Run{}, fmt.Errorf("%s: %w", spec.Kind, p.culprit(err))
	}
	return run, nil
}

func (p *processes) measure() (Run, error) {
	if err := p.start(); err != nil {
		return Run{}, err
	}
	from := time.Now().Add(p.spec.Warmup + 50*time.Millisecond)
	to := from.Add(p.spec.Duration)
	busy := proc.WatchMachine(p.ctx, from, to)
	samples := make([]Sample, len(p.children))
	if err := ask(p, request{Op: opRun, From: from, To: to}, p.spec.Warmup+p.spec.Duration+startWithin, samples); err != nil {
		return Run{}, err
	}
	if err := p.settle(); err != nil {
		return Run{}, err
	}
	finals := make([]final, len(p.children))
	if err := ask(p, request{Op: opEnd}, answerWithin, finals); err != nil {
		return Run{}, err
	}
	run := p.spec.summarize(samples)
	run.Loaded = finals[0].UnderLoad
	run.Foreign = max(0, <-busy-run.cores)
	return run, nil
}

// start starts the members and connects them.
func (p *processes) start() error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, startWithin, errors.New("the members did not come together in time"))
	defer cancel()
	path := ""
	if p.spec.Kind == Memory {
		var err error
		if p.segment, err = newSegment(segmentBytes(p.spec)); err != nil {
			return err
		}
		path = p.segment.path
	}
	var share []string
	if p.spec.Kind == Squall { // the limits get what is best for them: the default
		share = proc.Share(p.spec.Nodes)
	}
	for node := 1; node <= p.spec.Nodes; node++ {
		c, err := proc.Start(p.outer, memberCommand, job{p.spec, node, path}, proc.Options{ID: node, Env: share})
		if err != nil {
			return err
		}
		p.children = append(p.children, c)
		p.watched.Go(func() { p.watch(c) })
	}
	greetings := make([]greeting, len(p.children))
	if err := receive(ctx, p, greetings); err != nil {
		return err
	}
	var all peers
	for _, g := range greetings {
		all.Addrs = append(all.Addrs, g.Addr)
	}
	for _, c := range p.children {
		if err := c.Send(all); err != nil {
			return err
		}
	}
	return receive(ctx, p, greetings)
}

// watch ends the run when a member ends before its time.
func (p *processes) watch(c *proc.Child) {
	<-c.Done()
	select {
	case <-p.ending:
	default:
		err := c.Wait()
		if err == nil {
			err = fmt.Errorf("member %d (pid %d) ended", c.ID(), c.Pid())
		}
		p.cancel(err)
	}
}

// culprit is the member that died first, if one did: the others fail because of it, and may say so first.
func (p *processes) culprit(err error) error {
	if p.outer.Err() != nil {
		return context.Cause(p.outer)
	}
	time.Sleep(noticed)
	for _, c := range p.children {
		select {
		case <-c.Done():
			var exit *proc.Exit
			if errors.As(c.Wait(), &exit) && exit.Signal != 0 {
				return exit
			}
		default:
		}
	}
	if cause := context.Cause(p.ctx); cause != nil {
		return cause
	}
	return err
}

// close ends the members.
func (p *processes) close() {
	close(p.ending)
	for _, c := range p.children {
		c.CloseInput()
	}
	timer := time.AfterFunc(endWithin, func() {
		for _, c := range p.children {
			c.Kill()
		}
	})
	defer timer.Stop()
	for _, c := range p.children {
		c.Wait()
	}
	p.watched.Wait()
	p.cancel(nil)
	if p.segment != nil {
		p.segment.close()
	}
}

// ask sends a request to all members and takes their answers.
func ask[T any](p *processes, r request, within time.Duration, answers []T) error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, within, fmt.Errorf("no answer to %q within %v", r.Op, within))
	defer cancel()
	for _, c := range p.children {
		if err := c.Send(r); err != nil {
			return err
		}
	}
	return receive(ctx, p, answers)
}

func receive[T any](ctx context.Context, p *processes, answers []T) error {
	for i, c := range p.children {
		if err := c.Receive(ctx, &answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// settle waits until everything is delivered everywhere, and checks that it was the same.
func (p *processes) settle() error {
	if p.spec.Kind == RoundTrip {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.ctx, settleWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	before := make([]State, len(p.children))
	for first := true; ; first = false {
		states := make([]State, len(p.children))
		if err := ask(p, request{Op: opState}, answerWithin, states); err != nil {
			return err
		}
		err := compare(states, p.spec.stalls())
		same := !first && equal(states, before)
		if err == nil && (same || !p.spec.stalls()) {
			return nil
		}
		if err != nil && !errors.Is(err, ErrNotSettled) && same {
			return err
		}
		before = states
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err == nil {
				err = ErrNotSettled
			}
			return errors.Join(err, context.Cause(p.ctx))
		}
	}
}

func equal(a, b []State) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
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
		if rate := figures.Ratio(float64(total), seconds); r.Rate < 0 || rate < r.Rate {
			r.Rate, slowest = rate, total
			undelayed := uint64(0)
			r.BySender = make([]float64, len(m.Delivered))
			for i, n := range m.Delivered {
				r.BySender[i] = figures.Ratio(float64(n), seconds)
				if s.Delays[i+1] == 0 {
					undelayed += n
				}
			}
			r.Undelayed = figures.Ratio(float64(undelayed), seconds)
		}
		r.TotalRate += figures.Ratio(float64(total), seconds)
		r.cores += figures.Ratio(m.CPU.Seconds(), seconds)
		r.CPUPercent = max(r.CPUPercent, 100*figures.Ratio(m.CPU.Seconds(), seconds))
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
	r.CPUPerMsg = figures.Ratio(float64(cpu)/1e3, float64(slowest))
	r.Allocs = figures.Ratio(float64(mallocs), float64(slowest))
	r.Nulls = figures.Ratio(float64(nulls), float64(slowest))
	r.Send, r.Receive, r.Deliver = batches.Send.Mean(), batches.Receive.Mean(), batches.Deliver.Mean()
	r.Latency = samples[0].Latency
	return r
}
