package messages

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/backoff"
	"github.com/squall-go/squall/internal/proc"
)

// Sample is what one member did in the window.
type Sample struct {
	Elapsed   time.Duration // between its two looks
	CPU       time.Duration // user and system, the whole process
	Mallocs   uint64        // objects allocated
	Delivered []uint64      // by sender, from node 1 up
	Batches   Batches
	Nulls     uint64        // nulls sent
	Latency   bench.Latency // of closed loops and round trips
}

// Batches are the sums from which mean batches follow.
type Batches struct{ Send, Receive, Deliver Batch }

// Batch is a number of batches and of messages in them.
type Batch struct{ Sum, Count uint64 }

// Mean is the mean batch, or 0 if there was none.
func (b Batch) Mean() float64 { return bench.Ratio(float64(b.Sum), float64(b.Count)) }

func (b *Batch) subtract(before Batch) {
	b.Sum -= before.Sum
	b.Count -= before.Count
}

func (s Sample) total() (n uint64) {
	for _, k := range s.Delivered {
		n += k
	}
	return n
}

// counters is a member's counters at one moment.
type counters interface {
	// snapshot returns the counts since the start; latencies apart, which are told at the end.
	snapshot() Sample
}

// counts are messages by the member that sent them, from 0, which other goroutines look at.
type counts []atomic.Uint64

func (c counts) snapshot() Sample {
	s := Sample{Delivered: make([]uint64, len(c))}
	for i := range c {
		s.Delivered[i] = c[i].Load()
	}
	return s
}

func (c counts) sum() (n uint64) {
	for i := range c {
		n += c[i].Load()
	}
	return n
}

// observe takes what c counts between two instants, to which it sleeps.
func observe(ctx context.Context, c counters, from, to time.Time) (Sample, error) {
	if err := backoff.Sleep(ctx, time.Until(from)); err != nil {
		return Sample{}, err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	before, cpu, start := c.snapshot(), proc.CPUTime(), time.Now()
	if err := backoff.Sleep(ctx, time.Until(to)); err != nil {
		return Sample{}, err
	}
	s := c.snapshot()
	s.Elapsed, s.CPU = time.Since(start), proc.CPUTime()-cpu
	mallocs := memory.Mallocs
	runtime.ReadMemStats(&memory)
	s.Mallocs = memory.Mallocs - mallocs
	for i := range s.Delivered {
		s.Delivered[i] -= before.Delivered[i]
	}
	s.Batches.Send.subtract(before.Batches.Send)
	s.Batches.Receive.subtract(before.Batches.Receive)
	s.Batches.Deliver.subtract(before.Batches.Deliver)
	s.Nulls -= before.Nulls
	return s, nil
}
