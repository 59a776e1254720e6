package core

import (
	"sync/atomic"
	"time"
)

// Now is the wall clock, in nanoseconds since the Unix epoch. It is read once a second; the
// monotonic clock, which costs half as much, tells what has passed since.
func Now() int64 {
	at := lastRead.Load()
	if at != nil {
		if since := time.Since(*at); since < time.Second {
			return at.UnixNano() + int64(since)
		}
	}
	t := time.Now()
	lastRead.Store(&t)
	return t.UnixNano()
}

var lastRead atomic.Pointer[time.Time]

// Samples that are written before anything else happens here have one time: reading the clock costs
// as much as all the rest. A time is used for so many of them, and not beyond the next Elapsed.
const samplesOfATime = 16

// sampleTime is the time of samples. It needs no lock.
type sampleTime struct {
	now  atomic.Int64
	left atomic.Int32 // samples that it is still used for
}

// SampleTime is the time of a sample that is written now, at a member, which calls Elapsed.
func (p *Participant) SampleTime() int64 {
	if p.samples.left.Add(-1) > 0 {
		return p.samples.now.Load()
	}
	return p.readTime()
}

func (p *Participant) readTime() int64 {
	t := Now()
	p.samples.now.Store(t)
	p.samples.left.Store(samplesOfATime)
	return t
}

// Elapsed says that time has passed: later samples have another time.
func (p *Participant) Elapsed() { p.samples.left.Store(0) }
