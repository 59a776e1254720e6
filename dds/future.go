package dds

import (
	"context"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/dds/internal/remote"
)

// Future is the delivery of a sample. At a member it is a *squall.Future. At a client it is about the order, and the disks of the members.
type Future interface {
	// Done is closed when the sample is in the order, or when it is known that this will not be known.
	Done() <-chan struct{}
	// Wait waits until the sample is in the order, and returns its position in the log of the space. A client gets the position that its relay had come to when it said so:
	// that of the sample, or a later one.
	Wait(ctx context.Context) (squall.Version, error)
	// Persisted is Wait, and then waits until the sample is on the disk of this process or of every member; of a client's sample, always of every member. It fails with
	// squall.ErrNotPersistent if the space is not Persistent.
	Persisted(ctx context.Context, s squall.Stage) (squall.Version, error)
}

// future is the Future of a client's sample.
type future struct {
	c        *client
	of       *used
	sequence uint64 // of the sample; written under the client's lock
	done     chan struct{}

	// Written under the client's lock before done is closed.
	at  squall.Version
	err error
}

// Done implements Future.
func (f *future) Done() <-chan struct{} { return f.done }

// Wait implements Future.
func (f *future) Wait(ctx context.Context) (squall.Version, error) {
	select {
	case <-f.done:
		return f.at, f.err
	case <-ctx.Done():
		return squall.Version{}, context.Cause(ctx)
	}
}

// Persisted implements Future.
func (f *future) Persisted(ctx context.Context, _ squall.Stage) (squall.Version, error) {
	at, err := f.Wait(ctx)
	if err != nil {
		return at, err
	}
	if !f.c.persistent() {
		return at, fmt.Errorf("dds: topic %q: %w", f.of.info.Topic, squall.ErrNotPersistent)
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
