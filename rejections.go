package squall

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/trust"
)

// Of a flood of rejected connections, so many are reported one by one in each window; the window's
// end tells how many more there were. Strangers decide how often they knock, but not how much of it
// is logged.
const (
	rejectionsTold  = 10
	rejectionWindow = time.Second
)

// rejections counts the connections that were rejected, and tells of them. A window begins with a
// rejection when none is open.
type rejections struct {
	emit  func(Event)
	total atomic.Uint64
	timer sync.WaitGroup // 1 while a window is open

	mu           sync.Mutex
	window       *time.Timer // nil: none is open
	closed       bool
	told, untold int // in this window
}

func (r *rejections) count() uint64 { return r.total.Load() }

// add is called from any goroutine.
func (r *rejections) add(p port.Rejection) {
	r.total.Add(1)
	if r.tells() {
		r.emit(ConnectionRejected{Remote: p.Remote, Reason: p.Reason.String(), Err: p.Err, text: p.String(), broken: p.Reason == port.Broken && !errors.Is(p.Err, trust.ErrSecret)})
	}
}

// tells reports whether the next rejection is told of by itself.
func (r *rejections) tells() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if r.window == nil {
		r.timer.Add(1)
		r.window = time.AfterFunc(rejectionWindow, func() {
			defer r.timer.Done()
			r.sumUp()
		})
	}
	if r.told == rejectionsTold {
		r.untold++
		return false
	}
	r.told++
	return true
}

// sumUp ends the window.
func (r *rejections) sumUp() {
	r.mu.Lock()
	more := r.untold
	r.told, r.untold, r.window = 0, 0, nil
	r.mu.Unlock()
	if more > 0 {
		r.emit(ConnectionsRejected{more})
	}
}

// close tells what is left to tell. There are no events afterwards.
func (r *rejections) close() {
	r.mu.Lock()
	r.closed = true
	stopped := r.window != nil && r.window.Stop()
	r.mu.Unlock()
	if stopped {
		r.sumUp()
		r.timer.Done()
	}
	r.timer.Wait()
}
