package demo

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/testlab"
)

// memberCommand is the hidden command, below "demo", that members of a demo without --chaos and
// --durable run. Members of the other demos run testlab.Command.
const memberCommand = "run-member"

// memberConfig is what the parent tells a member first.
type memberConfig struct {
	testlab.Spec
	Repeat int    // how often the lines of the load are sent
	Total  uint64 // messages of all members
	Probes int    // messages of the unloaded phase
}

// doProbe is the request to send one message at a time.
const doProbe = "probe"

// memberReport is what a member tells its parent, beside news: one of these.
type memberReport struct {
	Links     []string // by member, ready: the group has formed
	Progress  uint64   // messages delivered so far
	Delivered *delivered
	Probed    *latency
	Lost      *lost
}

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
