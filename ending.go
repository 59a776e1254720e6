package squall

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall/internal/wait"
)

// ending is how a process's part in a group ends: it halts, whatever the reason, and is closed.
//
// Invariant: halted is closed once, by the loop; err is the result of the only call of what once
// runs, and does not change after closed is closed.
type ending struct {
	leavers leavers
	halted  chan struct{}
	closing sync.Once
	closed  chan struct{}
	err     error // result of Close
}

func newEnding() ending { return ending{halted: make(chan struct{}), closed: make(chan struct{})} }

// halt says that the group has halted here.
func (e *ending) halt() { close(e.halted) }

// once runs f, the first time that it is called, and returns the error of f.
func (e *ending) once(f func() error) error {
	e.closing.Do(func() {
		defer close(e.closed)
		e.err = f()
	})
	<-e.closed
	return e.err
}

// await waits until a condition is met, and returns why it ended before: the group halted, for a
// reason, or ctx ended.
func (e *ending) await(ctx context.Context, reason func() error, met func() bool) error {
	b := e.leavers.enter()
	defer e.leavers.exit(b)
	for !met() {
		select {
		case <-b:
		case <-e.halted:
			return reason()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// leavers are the goroutines that wait in Leave, each with a bell.
type leavers struct {
	n     atomic.Int32
	mu    sync.Mutex
	bells map[wait.Bell]struct{}
}

func (l *leavers) enter() wait.Bell {
	b := wait.NewBell()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bells == nil {
		l.bells = map[wait.Bell]struct{}{}
	}
	l.bells[b] = struct{}{}
	l.n.Add(1)
	return b
}

func (l *leavers) exit(b wait.Bell) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.bells, b)
	l.n.Add(-1)
}

// ring has each of them look again. It costs one load while nobody leaves.
func (l *leavers) ring() {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for b := range l.bells {
		b.Ring()
	}
}
