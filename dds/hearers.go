package dds

import (
	"sync"
	"sync/atomic"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/goroutine"
)

// hearers knows which goroutines other than the group's loop call listeners, so that a writer which would wait there returns ErrInUpcall: what it would wait for may wait for
// the listener.
type hearers struct {
	count atomic.Int32
	mu    sync.Mutex
	all   map[uint64]int // calls of run, by the number of the goroutine
}

// run calls f, which calls listeners.
func (h *hearers) run(f func()) {
	id := goroutine.ID()
	h.count.Add(1)
	h.add(id, 1)
	defer func() {
		h.add(id, -1)
		h.count.Add(-1)
	}()
	f()
}

func (h *hearers) add(id uint64, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[uint64]int{}
	}
	if h.all[id] += n; h.all[id] == 0 {
		delete(h.all, id)
	}
}

// waits returns ErrInUpcall if the caller, which is about to wait for room, is a listener.
func (h *hearers) waits() error {
	if h.count.Load() == 0 {
		return nil
	}
	id := goroutine.ID()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[id] > 0 {
		return squall.ErrInUpcall
	}
	return nil
}
