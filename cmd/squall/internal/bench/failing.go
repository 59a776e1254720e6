package bench

import (
	"context"
	"sync"
)

// Failing keeps the first failure of a member's background work, for which no goroutine waits.
type Failing struct {
	failed  chan struct{}
	failure error // W: the first to fail, before failed is closed
	once    *sync.Once
}

// NewFailing returns one without a failure.
func NewFailing() Failing { return Failing{failed: make(chan struct{}), once: &sync.Once{}} }

// Fail ends the run.
func (f *Failing) Fail(err error) {
	f.once.Do(func() {
		f.failure = err
		close(f.failed)
	})
}

// Failure is why the run has ended, or nil.
func (f *Failing) Failure() error {
	select {
	case <-f.failed:
		return f.failure
	default:
		return nil
	}
}

// WhileWell returns a context that ends also when the run fails.
func (f *Failing) WhileWell(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-f.failed:
			cancel(f.failure)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
