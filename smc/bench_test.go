package smc

import (
	"math"
	"testing"

	"github.com/squall-go/squall/order"
)

// BenchmarkRing is a batch of messages through a ring: sent, published, taken and released.
func BenchmarkRing(b *testing.B) {
	s, r := newRing(64, 1<<14)
	i, data := order.Index(0), make([]byte, 100)
	for b.Loop() {
		for range 8 {
			s.Send(data, Small)
		}
		batch, _ := s.Publish(i, math.MaxInt)
		r.See(batch.Position)
		for ; r.Next() == i; i++ {
			r.Take()
			r.Pass()
		}
		s.Release(i)
	}
}
