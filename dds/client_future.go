package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/dds/internal/remote"
)

// future is the Future of a client's sample.
type future struct {
	c        *client
	of       *used
	sequence uint64 // of the sample; written under the client's lock
	done     chan struct{}

	// Written under the client's lock before done is closed.
	at  Version
	err error
}

// Done implements Future.
func (f *future) Done() <-chan struct{} { return f.done }

// Wait implements Future.
func (f *future) Wait(ctx context.Context) (Version, error) {
	select {
	case <-f.done:
		return f.at, f.err
	case <-ctx.Done():
		return Version{}, context.Cause(ctx)
	}
}

// Persisted implements Future.
func (f *future) Persisted(ctx context.Context, _ Stage) (Version, error) {
	at, err := f.Wait(ctx)
	if err != nil {
		return at, err
	}
	if !f.c.Persistent() {
		return at, fmt.Errorf("dds: topic %q: %w", f.of.info.Topic, ErrNotPersistent)
	}
	return at, f.c.stored(ctx, f.of, func() uint64 { return f.sequence })
}

// stored waits until a sample of a writer is on all disks.
func (c *client) stored(ctx context.Context, u *used, sequence func() uint64) error {
	return c.until(ctx, func() (bool, error) {
		if u.stored >= sequence() {
			return true, nil
		}
		return false, u.failed
	})
}

// acknowledged is the number of the last sample of a writer that is where it is to be.
func (u *used) acknowledged(c remote.Come) uint64 {
	if u.persist {
		return c.Stored
	}
	return c.Ordered
}

// come notes how far the samples of a writer have come. The client's lock is held.
func (u *used) come(c remote.Come) {
	u.ordered, u.stored = max(u.ordered, c.Ordered), max(u.stored, c.Stored)
	u.outbox.Acknowledge(u.acknowledged(c))
	n := 0
	for ; n < len(u.futures) && u.futures[n].sequence <= c.Ordered; n++ {
		u.futures[n].at = c.At
		close(u.futures[n].done)
		u.futures[n] = nil
	}
	u.futures = u.futures[n:]
}

// fail notes why the samples of a writer may be in the order, or not. The client's lock is held.
func (u *used) fail(err error) {
	u.failed = err
	for _, f := range u.futures {
		f.err = err
		close(f.done)
	}
	u.futures = nil
}
