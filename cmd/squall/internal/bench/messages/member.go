package messages

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Workload is what the processes of "squall bench" do.
var Workload = bench.Workload{Name: "messages", Open: open}

// job is the configuration of a member process.
type job struct {
	Spec    Spec
	Node    int    // from 1
	Segment string // memory that all processes of a Memory run share
}

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
	run(ctx context.Context, from, to time.Time) (Sample, error)
	state() (State, error)
	end() bench.Latency
	Close() error
	// WhileWell returns a context that ends when the work cannot go on; state then returns why.
	WhileWell(ctx context.Context) (context.Context, context.CancelCauseFunc)
}

// member answers requests about some work.
type member struct{ work }

func open(_ int, config func(v any) error) (bench.Member, error) {
	var j job
	if err := config(&j); err != nil {
		return nil, err
	}
	if j.Spec.Kind == Foreign {
		return &foreign{}, nil
	}
	w, err := j.work()
	return member{w}, err
}

func (j job) work() (work, error) {
	switch j.Spec.Kind {
	case Squall:
		return newGroupMember(j), nil
	case Fanout, Batched:
		return newFanout(j), nil
	case Memory:
		return newMemoryMember(j)
	case RoundTrip:
		return &roundTrip{job: j, Failing: bench.NewFailing()}, nil
	}
	return nil, fmt.Errorf("no such kind of run: %q", j.Spec.Kind)
}

func (m member) Answer(ctx context.Context, r bench.Request) (any, error) {
	ctx, cancel := m.WhileWell(ctx)
	defer cancel(nil)
	switch r.Op {
	case opRun:
		return m.run(ctx, r.From, r.To)
	case opState:
		return m.state()
	case opEnd:
		return m.end(), nil
	}
	return nil, r.Unknown()
}
