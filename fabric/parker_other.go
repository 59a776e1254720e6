//go:build !linux

package fabric

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// Parker is the one place where a loop sleeps. Away from Linux it is a channel; links bring their
// own goroutines.
type Parker struct {
	OneLoop  bool // of no use here
	sleeping atomic.Uint32
	bell     wait.Bell
}

// Readiness is what the last look at the sockets said about one of them.
type Readiness struct {
	In, Out bool
	Owner   any
}

// NewParker makes a parker.
func NewParker() (*Parker, error) { return &Parker{bell: wait.NewBell()}, nil }

// Watch is not available: sockets are served by goroutines here.
func (p *Parker) Watch(int, bool) (*Readiness, error) { return nil, errors.ErrUnsupported }

// WatchOut is not available.
func (p *Parker) WatchOut(int, bool) error { return errors.ErrUnsupported }

// Unwatch does nothing.
func (p *Parker) Unwatch(int) {}

// FewSockets is true.
func (p *Parker) FewSockets() bool { return true }

// Look does nothing.
func (p *Parker) Look() {}

// Shared is false.
func (p *Parker) Shared() bool { return false }

// Announce is to be called before the last look.
func (p *Parker) Announce() { p.sleeping.Store(1) }

// Retract is to be called when the loop works again.
func (p *Parker) Retract() { p.sleeping.Store(0) }

// Sleep waits for a bell or the end of d; less than 0 is without end.
func (p *Parker) Sleep(d time.Duration) {
	if d < 0 {
		<-p.bell
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.bell:
	case <-t.C:
	}
}

// Doze is Sleep without an end.
func (p *Parker) Doze(bool) { p.Sleep(-1) }

// Rouse does nothing.
func (p *Parker) Rouse() {}

// Rang returns nothing: no sockets are watched here.
func (p *Parker) Rang() []*Readiness { return nil }

// Yield offers the core to other goroutines; the system's schedulers do the rest.
func (p *Parker) Yield() { runtime.Gosched() }

// Wake rings the bell if the loop sleeps or is about to. Any goroutine may call it.
func (p *Parker) Wake() {
	if p.sleeping.Load() == 1 && p.sleeping.CompareAndSwap(1, 2) {
		p.bell.Ring()
	}
}

// Close does nothing.
func (p *Parker) Close() error { return nil }
