package member

import (
	"context"
	"slices"
	"sync"

	"github.com/squall-go/squall/order"
)

// Frontier is how far a persistent subgroup's order has come, at this member and on all disks, over
// all views. Versions in it are half-open: what comes before one is done. Its methods may be called
// from any goroutine.
type Frontier struct {
	mu      sync.Mutex
	at      [stages]order.Version
	settled order.Time
	err     error // of a halt
	away    error // why nothing is learned at the moment
	waiters []*stageWaiter
}

// Stage is how far a version has come. Each stage implies the earlier ones.
type Stage int

// Stages of a version.
const (
	Here       Stage = iota // it is on this member's disk
	Everywhere              // it is on the disk of every member (G6)
	Shown                   // where deliveries wait for all disks: this application saw it
	stages
)

type stageWaiter struct {
	reached func(*Frontier) bool
	done    chan struct{}
}

// At is the version before which everything has come to a stage.
func (f *Frontier) At(s Stage) order.Version {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at[s]
}

// Settled is a time up to which no more versions come, and all that there are are on every disk.
func (f *Frontier) Settled() order.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.settled
}

// Wait returns when a version has come to a stage, or with the reason of a halt, with ErrLeftShard,
// or with the context's reason.
func (f *Frontier) Wait(ctx context.Context, s Stage, v order.Version) error {
	return f.wait(ctx, func(f *Frontier) bool { return v.Before(f.at[s]) })
}

// Settle returns when a time is settled.
func (f *Frontier) Settle(ctx context.Context, t order.Time) error {
	return f.wait(ctx, func(f *Frontier) bool { return t <= f.settled })
}

func (f *Frontier) wait(ctx context.Context, reached func(*Frontier) bool) error {
	w := f.join(reached)
	if w == nil {
		return f.verdict(reached)
	}
	select {
	case <-w.done:
		return f.verdict(reached)
	case <-ctx.Done():
		f.leave(w)
		return context.Cause(ctx)
	}
}

// join begins to wait; nil: there is nothing to wait for.
func (f *Frontier) join(reached func(*Frontier) bool) *stageWaiter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.away != nil || reached(f) {
		return nil
	}
	w := &stageWaiter{reached, make(chan struct{})}
	f.waiters = append(f.waiters, w)
	return w
}

// verdict is what a wait came to. What was reached before a halt was reached.
func (f *Frontier) verdict(reached func(*Frontier) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reached(f) {
		return nil
	}
	return or(f.err, f.away)
}

func (f *Frontier) leave(w *stageWaiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.waiters, w); i >= 0 {
		f.waiters = slices.Delete(f.waiters, i, i+1)
	}
}

// reach notes that everything before a version has come to a stage. It returns whether that is
// news. Loop.
func (f *Frontier) reach(s Stage, v order.Version) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at[s].Before(v) {
		return false
	}
	f.at[s] = v
	f.call()
	return true
}

// settle notes that a time is settled. Loop.
func (f *Frontier) settle(t order.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = max(f.settled, t)
	f.call()
}

// fail tells all goroutines that wait, and will wait, why nothing more will come.
func (f *Frontier) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = or(f.err, err)
	f.call()
}

// suspend tells all goroutines that wait why nothing more will come, until it is called with nil.
// Loop.
func (f *Frontier) suspend(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.away = why
	f.call()
}

// call ends the waits that are over. It needs mu.
func (f *Frontier) call() {
	f.waiters = slices.DeleteFunc(f.waiters, func(w *stageWaiter) bool {
		over := f.err != nil || f.away != nil || w.reached(f)
		if over {
			close(w.done)
		}
		return over
	})
}
