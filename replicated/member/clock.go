package member

import (
	"sync/atomic"
	"time"
)

// clocks is a reading of both clocks of this process at the same moment.
type clocks struct {
	wall      uint64    // nanoseconds since the Unix epoch
	monotonic time.Time // its monotonic part counts
}

// maxReading bounds how late a step of the clock shows in the times of records.
const maxReading = 50 * time.Millisecond

// lastReading is what the times of records refer to.
var lastReading atomic.Pointer[clocks]

// now returns the time of this process's clock for a record. Every command has one, so it takes
// half of what time.Now does, which reads two clocks: it reads the monotonic one, and adds what has
// passed to a recent reading of both.
func now() uint64 {
	if last := lastReading.Load(); last != nil {
		if passed := time.Since(last.monotonic); passed >= 0 && passed < maxReading {
			return last.wall + uint64(passed)
		}
	}
	t := time.Now()
	r := &clocks{uint64(t.UnixNano()), t}
	lastReading.Store(r)
	return r.wall
}
