package bench

import (
	"encoding/binary"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// IndexBytes is the size of a message's first field: its index among its sender's messages.
const IndexBytes = 8

// pattern is what messages are filled with. It stays in the first cache, so that filling costs what
// writing costs.
var pattern = func() (p [4 << 10]byte) {
	for i := range p {
		p[i] = byte(i*7 + 1)
	}
	return p
}()

// Fill writes every byte of a message.
func Fill(b []byte, index uint64) {
	for done := 0; done < len(b); {
		done += copy(b[done:], pattern[:])
	}
	if len(b) >= IndexBytes {
		binary.LittleEndian.PutUint64(b, index)
	}
}

// Touch reads one byte of each cache line. The sum is for the caller to keep, or the compiler would
// leave it out.
func Touch(b []byte) (sum uint64) {
	for i := 0; i < len(b); i += 64 {
		sum += uint64(b[i])
	}
	return sum
}

// Latency is a distribution of latencies in microseconds.
type Latency struct {
	Count         int64
	P50Us, P99Us  float64
	MinUs, MeanUs float64
}

// NewHistogram takes latencies in nanoseconds up to a minute. Longer ones are not recorded.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// LatencyOf summarizes a histogram.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return Latency{
		Count: h.TotalCount(), P50Us: us(h.ValueAtQuantile(50)), P99Us: us(h.ValueAtQuantile(99)), MinUs: us(h.Min()), MeanUs: h.Mean() / 1e3,
	}
}
