package rdmc

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/squall-go/squall/internal/backoff"
	"golang.org/x/sys/unix"
)

// instant is a time on the clock that all processes of this machine share, in nanoseconds. Go's own
// monotonic clock counts from the start of each process.
type instant int64

func now() instant {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it fails only for a clock that is unknown
	return instant(t.Nano())
}

func (i instant) add(d time.Duration) instant     { return i + instant(d) }
func (i instant) sub(j instant) (d time.Duration) { return time.Duration(i - j) }

// sleepUntil sleeps to an instant.
func sleepUntil(ctx context.Context, at instant) error { return backoff.Sleep(ctx, at.sub(now())) }

// idleTime is how long the cores of this machine had nothing to do so far; ok is false where the
// system does not say.
func idleTime() (idle time.Duration, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	// User, nice, system, idle, wait for disks, interrupts, soft interrupts, and what the
	// hypervisor took, in hundredths of a second.
	var t [8]int64
	_, err = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
	return time.Duration(t[3]+t[4]+t[7]) * 10 * time.Millisecond, err == nil
}

// watchMachine returns a function that returns how long the machine's cores have worked since: for
// the nodes, for all other programs, and in the kernel's interrupts, which are charged to the
// interrupted process or to none. It returns 0 if the system does not report it.
func watchMachine() func() time.Duration {
	start := now()
	before, ok := idleTime()
	return func() time.Duration {
		idle, still := idleTime()
		if !ok || !still {
			return 0
		}
		return max(0, now().sub(start)*time.Duration(runtime.NumCPU())-(idle-before))
	}
}
