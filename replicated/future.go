package replicated

import (
	"context"
	"sync/atomic"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Future is the outcome of a command that returns an R.
type Future[R any] struct {
	awaited
	home interface{ release() }
	slot invoke.Slot[R]
}

// awaited is what needs no type of a future.
type awaited struct {
	state   atomic.Uint32 // underWay, waitedFor or known
	woken   chan struct{} // gets an element when an outcome that is waited for becomes known
	target  invoke.Target // of Go
	version order.Version
	err     error
}

// States of a future. Nothing is woken for an outcome that becomes known before Wait.
const (
	underWay uint32 = iota
	waitedFor
	known
)

// Wait waits for the outcome and returns it. It is called once; if it returns because ctx has
// ended, or with ErrInHandler in a handler, it may be called again.
func (f *Future[R]) Wait(ctx context.Context) (R, error) {
	v, _, err := f.WaitVersion(ctx)
	return v, err
}

// WaitVersion is like Wait, and returns the position at which the command was executed, too.
func (f *Future[R]) WaitVersion(ctx context.Context) (R, order.Version, error) {
	if f.state.Load() != known {
		if err := f.await(ctx); err != nil {
			var none R
			return none, order.Version{}, err
		}
	}
	value, version, err := f.slot.Value, f.version, f.err
	f.home.release()
	return value, version, err
}

// await waits until the outcome is known.
func (f *awaited) await(ctx context.Context) error {
	if f.target != nil {
		if err := f.target.InHandler(); err != nil {
			return err
		}
	}
	if !f.state.CompareAndSwap(underWay, waitedFor) { // known by now
		return nil
	}
	select {
	case <-f.woken:
		return nil
	case <-ctx.Done():
	}
	if f.state.CompareAndSwap(waitedFor, underWay) {
		return context.Cause(ctx)
	}
	<-f.woken // the outcome became known at the same time
	return nil
}

// complete takes what became of the command, and reports whether its reply is to be decoded.
func (f *awaited) complete(name string, o *invoke.Outcome) bool {
	f.version = o.Version
	if f.err = o.Err; f.err == nil {
		f.err = refusal(name, o.Status, o.Reply)
	}
	return f.err == nil && !o.Typed
}

// signal wakes who waits, once the outcome is known.
func (f *awaited) signal() {
	if f.state.Swap(known) == waitedFor {
		f.woken <- struct{}{}
	}
}

// clear makes the future ready for the next command.
func (f *Future[R]) clear() {
	var none R
	f.slot.Value, f.err, f.version, f.target = none, nil, order.Version{}, nil
	f.state.Store(underWay)
}
