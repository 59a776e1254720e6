package demo

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
)

// delivered is a member's account of the loaded phase.
type delivered struct {
	Messages uint64
	Bytes    uint64
	Digest   string
	Took     time.Duration // from the first send to the last delivery
	Loaded   latency
	Batch    batches
}

// lost says that a member misses another one.
type lost struct {
	ID    squall.NodeID // of the other one
	Error string
}

// latency of own messages, from the call of Send to the own delivery.
type latency struct {
	Messages int64 `json:"messages"`
	P50Ns    int64 `json:"p50_ns"`
	P99Ns    int64 `json:"p99_ns"`
}

// batches are mean batches by stage, in messages.
type batches struct {
	Send    float64 `json:"send"`
	Receive float64 `json:"receive"`
	Deliver float64 `json:"deliver"`
}

// newHistogram returns a histogram of times from a microsecond's tenth to a minute, to a hundredth.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(100, int64(time.Minute), 2) }

func latencyOf(h *hdrhistogram.Histogram) latency {
	return latency{Messages: h.TotalCount(), P50Ns: h.ValueAtQuantile(50), P99Ns: h.ValueAtQuantile(99)}
}
