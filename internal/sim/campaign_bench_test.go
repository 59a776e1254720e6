package sim

import (
	"runtime/debug"
	"testing"
)

// BenchmarkSeeds plays the usual plans, one after the other on one core: what a campaign spends its
// time on.
func BenchmarkSeeds(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	seed, steps := uint64(0), 0
	for b.Loop() {
		seed++
		p := Draw(seed, Limits{})
		r := Run(p, Options{})
		if r.Err != nil {
			b.Fatal(Report(p, Options{}, r.Err))
		}
		steps += r.Steps
	}
	b.ReportMetric(float64(seed)/b.Elapsed().Seconds(), "seeds/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
}
