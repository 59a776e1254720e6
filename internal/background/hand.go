package background

import "sync"

// Hand does work on a thread that gives way, for a goroutine that waits for the result: for work
// that takes the processor for so long that other threads must come first, while the goroutine does
// its short work itself. The zero value is ready. Do and Close belong to one goroutine.
type Hand struct {
	work chan func()
	done sync.WaitGroup
}

// Do returns when f has.
func (h *Hand) Do(f func()) {
	if h.work == nil {
		h.work = make(chan func())
		h.done.Go(h.run)
	}
	h.work <- f
	h.work <- nil // it is taken when f has returned
}

func (h *Hand) run() {
	GiveWay()
	for f := range h.work {
		if f != nil {
			f()
		}
	}
}

// Close ends the thread, if there was anything to do.
func (h *Hand) Close() {
	if h.work != nil {
		close(h.work)
		h.done.Wait()
	}
}
