package benchrdmc

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// instant is a time on the clock that all processes of this machine share, in nanoseconds. Go's own monotonic clock counts from the start of each process.
type instant int64

func now() instant {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it fails only for a clock that is unknown
	return instant(t.Nano())
}

func (i instant) add(d time.Duration) instant     { return i + instant(d) }
func (i instant) sub(j instant) (d time.Duration) { return time.Duration(i - j) }

// sleepUntil sleeps to an instant.
func sleepUntil(ctx context.Context, at instant) error {
	timer := time.NewTimer(at.sub(now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cpuTime is the user and system time of this process so far.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
