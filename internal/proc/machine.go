package proc

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// WatchMachine tells how many cores were busy between two instants, or 0 where the system does not
// say.
func WatchMachine(ctx context.Context, from, to time.Time) <-chan float64 {
	cores := make(chan float64, 1)
	go func() {
		defer close(cores)
		if wait.Sleep(ctx, time.Until(from)) != nil {
			return
		}
		before, start := busyTime(), time.Now()
		if wait.Sleep(ctx, time.Until(to)) != nil {
			return
		}
		cores <- (busyTime() - before).Seconds() / time.Since(start).Seconds()
	}()
	return cores
}

// busyTime is the time that the machine's cores worked so far, or were taken from it. The kernel
// counts in hundredths of a second.
func busyTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, softirq, steal int64
	_, _ = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal)
	return time.Duration(user+nice+system+steal) * 10 * time.Millisecond
}
