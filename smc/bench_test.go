package smc

import (
	"math"
	"testing"

	"github.com/squall-go/squall/order"
)

// BenchmarkRing is a batch of messages through a ring: claimed and committed, published, taken and
// released.
func BenchmarkRing(b *testing.B) {
	s, r := newRing(64, 1<<14)
	i := order.Index(0)
	for b.Loop() {
		for range 8 {
			c, _ := s.Claim(100)
			s.Commit(c)
		}
		n, _ := s.Publish(i, math.MaxInt)
		for range n {
			r.Take(i)
			i++
		}
		s.Release(i)
	}
}
