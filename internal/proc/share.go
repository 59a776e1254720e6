package proc

import (
	"fmt"
	"os"
	"runtime"
)

// Share returns the environment that gives each of n member processes on this host its share of the
// cores, at least one: a process whose goroutines may run on more cores than are its own takes them
// from those that it waits for. A GOMAXPROCS that is set for this process is set for its members.
func Share(n int) []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	return []string{fmt.Sprintf("GOMAXPROCS=%d", max(1, runtime.NumCPU()/n))}
}
