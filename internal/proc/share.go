package proc

import (
	"fmt"
	"os"
	"runtime"
)

// Share returns the environment that gives each of n member processes on this host its share of the
// cores, at least one: a process whose goroutines run on more cores than its share takes the cores
// from the processes that it waits for. A GOMAXPROCS that is set for this process applies to its
// members.
func Share(n int) []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/n))}
}
