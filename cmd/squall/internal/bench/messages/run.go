package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
)

// Run is one run of a spec.
type Run struct {
	Rate       float64       `json:"rate"`            // messages/s that the slowest member delivered
	BySender   []float64     `json:"by_sender"`       // the same by sender, from node 1 up
	TotalRate  float64       `json:"total_rate"`      // deliveries/s of all members together
	BytesRate  float64       `json:"bytes_rate"`      // bytes/s that the slowest member delivered
	CPUPerMsg  float64       `json:"cpu_us_per_msg"`  // user and system of all members, microseconds per message
	CPUPercent float64       `json:"cpu_percent_max"` // of the busiest member, of one core
	Allocs     float64       `json:"allocs_per_msg"`  // of all members, per message delivered at one
	Nulls      float64       `json:"nulls_per_msg"`   // sent, per message
	Loaded     bench.Latency `json:"latency_loaded"`  // from filling a message to its delivery at its sender, with the stream going on
	Latency    bench.Latency `json:"latency"`         // of a closed loop
	Foreign    float64       `json:"foreign_cores"`   // cores that others than the members used meanwhile

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
	err = s.start(ctx, func(f *bench.Fleet) error {
		samples, busy, err := bench.Sampled[Sample](f, bench.Request{Op: opRun}, s.Warmup, s.Duration)
		if err != nil {
			return err
		}
		if err := s.settle(f); err != nil {
			return err
		}
		finals, err := bench.Ask[bench.Latency](f, bench.Request{Op: opEnd}, bench.AnswerWithin)
		if err != nil {
			return err
		}
		run = s.summarize(samples)
		run.Loaded = finals[0]
		run.Foreign = max(0, busy-run.cores)
		return nil
	})
	return run, err
}

// start starts the members, has them do something, and ends them.
func (s Spec) start(ctx context.Context, do func(f *bench.Fleet) error) (err error) {
	c, j := bench.FleetConfig{Workload: Workload.Name, Count: s.Nodes, Link: s.Link}, job{Spec: s}
	if s.Kind == Memory {
		var remove func() error
		if j.Segment, remove, err = bench.NewSegment(segmentBytes(s)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	if s.Kind == Squall { // the limits get what is best for them: the default
		c.Env = proc.Share(s.Nodes)
	}
	c.Spec = j
	return bench.Run(ctx, c, do)
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
	for _, m := range samples {
		total := m.total()
		if rate := m.Rate(float64(total)); r.Rate < 0 || rate < r.Rate {
			r.Rate, slowest = rate, total
			r.BySender = r.BySender[:0]
			for _, n := range m.Delivered {
				r.BySender = append(r.BySender, m.Rate(float64(n)))
			}
		}
		r.TotalRate += m.Rate(float64(total))
		r.cores += m.Rate(m.CPU.Seconds())
		r.CPUPercent = max(r.CPUPercent, 100*m.Rate(m.CPU.Seconds()))
		cpu += m.CPU
		mallocs += m.Mallocs
		nulls += m.Nulls
	}
	r.BytesRate = r.Rate * float64(s.SizeBytes)
	r.CPUPerMsg = bench.Ratio(float64(cpu)/1e3, float64(slowest))
	r.Allocs = bench.Ratio(float64(mallocs), float64(slowest))
	r.Nulls = bench.Ratio(float64(nulls), float64(slowest))
	r.Latency = samples[0].Latency
	return r
}

// Sample is what one member did in the window.
type Sample struct {
	bench.Usage
	Delivered []uint64      // by sender, from node 1 up
	Nulls     uint64        // nulls sent
	Latency   bench.Latency // of closed loops and round trips
}

func (s Sample) total() (n uint64) {
	for _, k := range s.Delivered {
		n += k
	}
	return n
}

// observe takes what is counted in the window of a request: the messages that were delivered, by
// sender from node 1 up, and behind them the nulls that were sent, if any are.
func observe(ctx context.Context, r bench.Request, nodes int, count func() []uint64) (Sample, error) {
	grown, usage, err := bench.Observe(ctx, r, count)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Usage: usage, Delivered: grown[:nodes]}
	for _, n := range grown[nodes:] {
		s.Nulls += n
	}
	return s, nil
}

// digest is a hash over (sender, index) in the order of delivery: one chain for everything, or in
// unordered mode one per sender.
type digest struct {
	unordered bool
	chains    [MaxNodes + 1]uint64
}

const fnvPrime = 1099511628211

// chain is the number of the chain that a sender's messages are in.
func (d *digest) chain(sender int) int {
	if d.unordered {
		return sender
	}
	return 0
}

func (d *digest) add(sender int, index uint64) {
	chain := &d.chains[d.chain(sender)]
	*chain = (*chain ^ (uint64(sender)<<56 | index)) * fnvPrime
}

// State is how far a member is.
type State struct {
	Sent      uint64
	Delivered uint64
	Digest    uint64 // of all subgroups
	Fault     string // what was wrong with the sequence, if anything (BM2)
}

// ErrNotSettled says that the members have not delivered the same number of messages yet, or not
// all that were sent.
var ErrNotSettled = errors.New("not settled")

// ErrDifferent says that members delivered different sequences.
var ErrDifferent = errors.New("the members delivered different sequences")

// ErrSequence says that a member delivered something out of turn.
var ErrSequence = errors.New("wrong sequence")

// compare checks BM1 to BM3. stalled says that what was sent may be stuck.
func compare(states []State, stalled bool) error {
	var faults []error
	sent, unequal := uint64(0), false
	for i, s := range states {
		if s.Fault != "" {
			faults = append(faults, fmt.Errorf("%w (BM2): member %d: %s", ErrSequence, i+1, s.Fault))
		}
		sent += s.Sent
		unequal = unequal || s.Delivered != states[0].Delivered
	}
	switch {
	case len(faults) > 0:
		return errors.Join(faults...)
	case unequal || !stalled && states[0].Delivered != sent:
		return fmt.Errorf("%w (BM3): %d sent, delivered %s", ErrNotSettled, sent, list(states, func(s State) string { return fmt.Sprint(s.Delivered) }))
	case slices.ContainsFunc(states, func(s State) bool { return s.Digest != states[0].Digest }):
		return fmt.Errorf("%w (BM1): digests %s", ErrDifferent, list(states, func(s State) string { return fmt.Sprintf("%016x", s.Digest) }))
	}
	return nil
}

func list(states []State, text func(State) string) string {
	var all []string
	for i, s := range states {
		all = append(all, fmt.Sprintf("%s at member %d", text(s), i+1))
	}
	return strings.Join(all, ", ")
}

// Workload is what the processes of "squall bench" do.
var Workload = bench.NewWorkload("messages", open)

// job is what a member process does.
type job struct {
	Spec
	Segment string // memory that all processes of a Memory run share
}

type process = bench.Process[job]

// Requests.
const (
	opRun   = "run"   // answered with a Sample when the window is over
	opState = "state" // answered with a State
	opEnd   = "end"   // answered with the Latency under load: nothing moves any more
)

// work is what a member process does. Its methods are called in this order; state more than once.
type work interface {
	Listen(ctx context.Context) (addr string, err error)
	Connect(ctx context.Context, addrs []string) error
	// run works, fills the window's sample and has stopped sending when it returns.
	run(ctx context.Context, r bench.Request) (Sample, error)
	state() (State, error)
	end() bench.Latency
	Close() error
	WhileWell(ctx context.Context) (context.Context, context.CancelCauseFunc)
}

// member answers requests about some work.
type member struct{ work }

func open(p process) (bench.Member, error) {
	switch p.Spec.Kind {
	case Squall:
		return member{newGroupMember(p)}, nil
	case Fanout, Batched:
		return member{newFanout(p)}, nil
	case Memory:
		w, err := newMemoryMember(p)
		return member{w}, err
	case RoundTrip:
		return member{&roundTrip{process: p, Failing: bench.NewFailing()}}, nil
	case Foreign:
		return newForeign(), nil
	}
	return nil, fmt.Errorf("no such kind of run: %q", p.Spec.Kind)
}

func (m member) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opRun:
		return m.run(ctx, r)
	case opState:
		return m.state()
	case opEnd:
		return m.end(), nil
	}
	return nil, r.Unknown()
}
