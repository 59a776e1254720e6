package predicates

import "time"

// SetUsage has a runner believe that its thread ran, and was delayed, for so long. Before Start.
func (r *Runner) SetUsage(f func() (ran, delayed time.Duration)) {
	r.contention.ask = func() usage {
		ran, delayed := f()
		return usage{1, ran, delayed}
	}
}
