package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// Machine is where figures come from, and of which program.
type Machine struct {
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	CPU        string `json:"cpu,omitempty"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Commit     string `json:"commit"`
}

func thisMachine() Machine {
	return Machine{
		Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), CPU: cpuModel(), Kernel: kernel(), Go: runtime.Version(), Commit: commit(),
	}
}

func (m Machine) String() string {
	text := fmt.Sprintf("%d cores, GOMAXPROCS %d, %s, %s, commit %s", m.Cores, m.GOMAXPROCS, m.Kernel, m.Go, m.Commit)
	if m.CPU != "" {
		text = m.CPU + ", " + text
	}
	return text
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + runtime.GOARCH
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the commit that the program was built from, if the build recorded it.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = " with changes"
		}
	}
	if revision == "" {
		return "unknown (go build -buildvcs=true records it)"
	}
	return revision + dirty
}

// watchMachine tells how many cores were busy between two instants, or 0 where the system does not say.
func watchMachine(ctx context.Context, from, to time.Time) <-chan float64 {
	cores := make(chan float64, 1)
	go func() {
		defer close(cores)
		if proc.Rest(ctx, time.Until(from)) != nil {
			return
		}
		before, start := busyTime(), time.Now()
		if proc.Rest(ctx, time.Until(to)) != nil {
			return
		}
		cores <- (busyTime() - before).Seconds() / time.Since(start).Seconds()
	}()
	return cores
}

// busyTime is the time that the machine's cores worked so far, or were taken from it. The kernel counts in hundredths of a second.
func busyTime() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, wait, irq, softirq, steal int64
	fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal)
	return time.Duration(user+nice+system+steal) * 10 * time.Millisecond
}
