package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// memberCommand is the hidden command of a member process.
const memberCommand = "bench-member"

// job is a member process's configuration.
type job struct {
	Spec    Spec
	Node    int    // from 1
	Segment string // memory that all processes of a Memory run share
}

// greeting tells the parent where a member listens, if the others have to know, and peers the member where the others do, by node.
type greeting struct{ Addr string }
type peers struct{ Addrs []string }

// The parent's requests after that. Each is answered.
type request struct {
	Op       string    // opRun, opState
	From, To time.Time // the window of opRun
}

const (
	opRun   = "run"   // answered with a Sample when the window is over
	opState = "state" // answered with a State
	opEnd   = "end"   // answered with a final: nothing moves any more
)

// final is what is told when nothing moves any more.
type final struct{ UnderLoad Latency }

// workload is what a member process does. Its methods are called in this order; state more than once.
type workload interface {
	listen(ctx context.Context) (addr string, err error)
	connect(ctx context.Context, addrs []string) error
	// run works, fills the window's sample and has stopped sending when it returns.
	run(ctx context.Context, from, to time.Time) (Sample, error)
	state() (State, error)
	end() Latency
	// broken is closed when the workload cannot go on; state then returns why.
	broken() <-chan struct{}
}

// NewMemberCommand returns the hidden command that "squall bench" starts its member processes with. It belongs to the root command.
func NewMemberCommand() *cobra.Command { return proc.Command(memberCommand, serve) }

func serve(ctx context.Context, p *proc.Parent) error {
	var j job
	if err := p.Config(&j); err != nil {
		return err
	}
	serve := j.serve
	if j.Spec.Kind == Foreign {
		serve = func(ctx context.Context, _ *proc.Parent) error { return compute(ctx) }
	}
	err := serve(ctx, p)
	if errors.Is(err, proc.ErrParentGone) {
		return nil
	}
	return err
}

func (j job) workload() (workload, error) {
	switch j.Spec.Kind {
	case Squall:
		return newGroupMember(j), nil
	case Fanout, Batched:
		return newFanout(j), nil
	case Memory:
		return newMemoryMember(j)
	case RoundTrip:
		return &roundTrip{job: j}, nil
	}
	return nil, fmt.Errorf("no such kind of run: %q", j.Spec.Kind)
}

func (j job) serve(ctx context.Context, p *proc.Parent) error {
	w, err := j.workload()
	if err != nil {
		return err
	}
	addr, err := w.listen(ctx)
	if err != nil {
		return err
	}
	if err := p.Send(greeting{addr}); err != nil {
		return err
	}
	var all peers
	if err := p.Receive(ctx, &all); err != nil {
		return err
	}
	if err := w.connect(ctx, all.Addrs); err != nil {
		return err
	}
	if err := p.Send(greeting{addr}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-w.broken():
			_, err := w.state()
			cancel(fmt.Errorf("stopped: %w", err))
		case <-ctx.Done():
		}
	}()
	for {
		var r request
		if err := p.Receive(ctx, &r); err != nil {
			return err
		}
		answer, err := r.serve(ctx, w)
		if err != nil {
			return err
		}
		if err := p.Send(answer); err != nil {
			return err
		}
	}
}

func (r request) serve(ctx context.Context, w workload) (any, error) {
	switch r.Op {
	case opRun:
		return w.run(ctx, r.From, r.To)
	case opState:
		return w.state()
	case opEnd:
		return final{w.end()}, nil
	}
	return nil, fmt.Errorf("no such request: %q", r.Op)
}
