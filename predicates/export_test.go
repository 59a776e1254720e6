package predicates

import "time"

// usages is a kernel on which no core is ever idle.
type usages func() (ran, delayed time.Duration)

func (f usages) usage() usage {
	ran, delayed := f()
	return usage{1, ran, delayed}
}

func (usages) idle() time.Duration { return 0 }
func (usages) close()              {}

// SetUsage has a runner believe that its thread ran, and was delayed, for so long. Before Start.
func (r *Runner) SetUsage(f func() (ran, delayed time.Duration)) { r.contention.kernel = usages(f) }
