package logs

import (
	"bufio"
	"sync"
	"time"
)

// flushEvery is how long a record that is followed stays in this process.
const flushEvery = 50 * time.Millisecond

// lazy flushes a writer soon after something was written to it: at once would be a system call for
// each record, and waiting until the buffer is full would hold back what a person waits for.
type lazy struct {
	w *bufio.Writer

	mu    sync.Mutex
	timer *time.Timer // nil: nothing waits
	err   error       // the first one stays
}

// do writes.
func (l *lazy) do(write func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = write()
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(flushEvery, l.flush)
	}
	return l.err
}

func (l *lazy) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if l.err == nil {
		l.err = l.w.Flush()
	}
}

// stop lets the writer be used without lazy again.
func (l *lazy) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.NewTimer(time.Hour) // a late flush finds nothing to start
	l.timer.Stop()
}
