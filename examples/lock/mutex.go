package main

import (
	"context"
	"errors"
	"time"

	"github.com/squall-go/squall/replicated"
)

// Mutex is a lock as a client uses it.
type Mutex struct {
	locks        replicated.Target
	name, holder string
	lease        time.Duration
}

// Lock waits until the lock is free, and returns the fence of the grant and a context that ends
// when the lock is lost: the caller stops then. The lease is renewed until Unlock.
func (m *Mutex) Lock(ctx context.Context) (fence uint64, held context.Context, unlock func() error, err error) {
	request := Request{m.name, m.holder, m.lease.Milliseconds()}
	for {
		after, err := replicated.Now(ctx, m.locks) // before the attempt, so that no release is missed
		if err != nil {
			return 0, nil, nil, err
		}
		began := time.Now()
		g, err := Acquire.Call(ctx, m.locks, request)
		var refused *replicated.HandlerError
		switch {
		case err == nil:
			held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				m.renew(held, cancel, request, began)
			}()
			return g.Fence, held, func() error {
				cancel(context.Canceled)
				<-stopped
				_, err := Release.Call(context.WithoutCancel(ctx), m.locks, request)
				return err
			}, nil
		case errors.As(err, &refused) && refused.Text == errHeld.Error():
			m.awaitRelease(ctx, after)
		default:
			return 0, nil, nil, err
		}
	}
}

// renew prolongs the lease. Counted from before the request, it ends here before it ends in the
// time of the object, as far as the clocks run equally fast.
func (m *Mutex) renew(ctx context.Context, cancel context.CancelCauseFunc, r Request, began time.Time) {
	tick := time.NewTicker(m.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		asking, stop := context.WithDeadlineCause(ctx, began.Add(m.lease), errLost)
		next := time.Now()
		_, err := Renew.Call(asking, m.locks, r)
		stop()
		if err != nil {
			cancel(errLost)
			return
		}
		began = next
	}
}

// awaitRelease waits for an event that says that the lock is free, and for no longer than a lease:
// nothing is emitted while nothing is called.
func (m *Mutex) awaitRelease(ctx context.Context, after replicated.Cursor) {
	ctx, cancel := context.WithTimeout(ctx, m.lease)
	defer cancel()
	for range replicated.Watch(ctx, m.locks, after, "free/"+m.name) {
		return
	}
}
