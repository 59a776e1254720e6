package schedule

import (
	"fmt"
	"testing"
)

// BenchmarkSends is what a node computes before its first send. 63 and 1,023 nodes are all pairs,
// the dearest case.
func BenchmarkSends(b *testing.B) {
	for _, a := range []Algorithm{Chain, Pipeline, Hybrid} {
		for _, nodes := range []int{63, 64, 1023, 1024} {
			for _, blocks := range []int{512, 16384} {
				b.Run(fmt.Sprintf("algorithm=%v/nodes=%d/blocks=%d", a, nodes, blocks), func(b *testing.B) {
					p := mustNew(b, a, nodes, blocks, labels(nodes, 16))
					b.ReportAllocs()
					for b.Loop() {
						p.Sends(nodes / 3)
					}
				})
			}
		}
	}
}

func BenchmarkAll(b *testing.B) {
	p := mustNew(b, Pipeline, 1023, 512, nil)
	moves := 0
	for b.Loop() {
		for range p.All() {
			moves++
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(moves), "ns/move")
}
