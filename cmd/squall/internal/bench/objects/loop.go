package objects

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/backoff"
)

// counter is a count of one goroutine, on a cache line of its own.
type counter struct {
	atomic.Uint64
	_ [56]byte
}

// loop has callers do something again and again until the window ends.
type loop struct {
	counters []counter
	over     atomic.Bool
	callers  sync.WaitGroup
	mu       sync.Mutex
	err      error
}

// begin starts the callers. Once does the thing, and returns how often it did.
func begin(n int, once func(caller int) (int, error)) *loop {
	l := &loop{counters: make([]counter, n)}
	for i := range n {
		l.callers.Go(func() {
			for !l.over.Load() {
				done, err := once(i)
				if err != nil {
					l.mu.Lock()
					l.err = errors.Join(l.err, err)
					l.mu.Unlock()
					return
				}
				l.counters[i].Add(uint64(done))
			}
		})
	}
	return l
}

// end waits for the callers.
func (l *loop) end() error {
	l.over.Store(true)
	l.callers.Wait()
	return l.err
}

func (l *loop) done() (n uint64) {
	for i := range l.counters {
		n += l.counters[i].Load()
	}
	return n
}

// observe counts in a window.
func observe(ctx context.Context, from, to time.Time, profile string, count func() uint64) (s sample, err error) {
	if err := backoff.Sleep(ctx, time.Until(from)); err != nil {
		return s, err
	}
	stop, err := startProfile(profile)
	if err != nil {
		return s, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, start := count(), time.Now()
	if err := backoff.Sleep(ctx, time.Until(to)); err != nil {
		return s, errors.Join(err, stop())
	}
	s.Done, s.Elapsed = float64(count()-began), time.Since(start)
	runtime.ReadMemStats(&after)
	s.Mallocs = float64(after.Mallocs - before.Mallocs)
	return s, stop()
}

// startProfile writes a CPU profile until stop, if one was asked for.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// profile is where a process writes its profile.
func (j *job) profile() string {
	if j.Spec.Profile == "" {
		return ""
	}
	load := strings.NewReplacer(" ", "-", ",", "").Replace(string(j.Spec.Load))
	return fmt.Sprintf("%s.%s.%d.pprof", j.Spec.Profile, load, j.Node)
}
