package predicates

import (
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// usages is a kernel on which no core is ever idle.
type usages func() (ran, delayed time.Duration)

func (f usages) Usage() wait.Usage {
	ran, delayed := f()
	return wait.Usage{Thread: 1, Ran: ran, Delayed: delayed}
}

func (usages) Idle() time.Duration { return 0 }
func (usages) Close()              {}

// SetUsage has a runner believe that its thread ran, and was delayed, for so long. Before Start.
func (r *Runner) SetUsage(f func() (ran, delayed time.Duration)) { r.contention.Kernel = usages(f) }
