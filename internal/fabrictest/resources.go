package fabrictest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Use is what a process holds of what it must give back.
type Use struct {
	Goroutines  int
	Descriptors int // open files, where /proc tells
	Mappings    int // of rows and other shared memory, where /proc tells
}

func (u Use) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d mappings", u.Goroutines, u.Descriptors, u.Mappings)
}

// Resources counts what this process holds now.
func Resources() Use {
	u := Use{Goroutines: runtime.NumGoroutine()}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.Descriptors = len(fds)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		u.Mappings = strings.Count(string(maps), "squall-")
	}
	return u
}

// Settle fails the test unless the process soon holds no more than before. Connections and
// goroutines end shortly after they were told to, so it looks several times.
func Settle(t testing.TB, before Use) {
	t.Helper()
	var now Use
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		now = Resources()
		if now.Goroutines <= before.Goroutines && now.Descriptors <= before.Descriptors && now.Mappings <= before.Mappings {
			return
		}
	}
	stacks := make([]byte, 64<<10)
	t.Errorf("left behind: before %v; now %v\n%s", before, now, stacks[:runtime.Stack(stacks, true)])
}
