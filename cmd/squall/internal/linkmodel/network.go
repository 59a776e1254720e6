package linkmodel

import (
	"errors"
	"math"
	"time"

	"github.com/squall-go/squall/internal/errs"
)

// DefaultRate is what a node sends, and receives at the same time, unless the network says
// otherwise: 10 Gbit/s.
const DefaultRate = 1.25e9

// ErrConfig says that a network or a transfer makes no sense.
var ErrConfig = errors.New("linkmodel: no such network or transfer")

// Network is nodes 0 to Nodes−1 and what lies between them. Beyond Nodes, zero is an ideal network:
// no latency, overhead or jitter, no racks.
type Network struct {
	Nodes    int
	Rate     float64       // bytes/s that a node sends, and as many that it receives at the same time; 0: DefaultRate
	Latency  time.Duration // between the end of a send and its arrival
	Overhead time.Duration // for which each block keeps its sender and its receiver busy, beside its bytes
	Jitter   time.Duration // each send begins later by a time drawn evenly between 0 and this
	Seed     uint64        // of the jitter
	Intake   Intake

	SlowLinks []SlowLink

	Racks            []string // none, or a label for each node
	Oversubscription float64  // the rates of a rack's nodes together, over that of its uplink, and of its downlink; 0: both are without limit
}

// Intake is in which order a receiver takes the blocks of a transfer that several nodes send to it.
// A sender that runs ahead of its step, because it had nothing to send in some step, may meet one
// that does not.
type Intake uint8

const (
	InTurn     Intake = iota // in the order of the receiver's schedule: a sender that runs ahead waits
	AsTheyCome               // a late sender waits behind a sender that runs ahead, and delays all senders behind it
)

// SlowLink is a pair of nodes between which nothing goes faster, in either direction.
type SlowLink struct {
	A, B int
	Rate float64 // bytes/s
}

// Validate reports all faults at once.
func (n Network) Validate() error {
	faults := errs.Faults{Kind: ErrConfig}
	outside := func(node int) bool { return node < 0 || node >= n.Nodes }
	faults.If(n.Nodes < 1, "%d nodes", n.Nodes)
	faults.If(n.Rate != 0 && !isRate(n.Rate), "a rate of %g bytes/s", n.Rate)
	for _, d := range []time.Duration{n.Latency, n.Overhead, n.Jitter} {
		faults.If(d < 0 || d > maxDelay, "a delay of %v, want 0 to %v", d, maxDelay)
	}
	for _, l := range n.SlowLinks {
		faults.If(outside(l.A) || outside(l.B) || l.A == l.B || !isRate(l.Rate),
			"slow link %d–%d at %g bytes/s among %d nodes", l.A, l.B, l.Rate, n.Nodes)
	}
	faults.If(len(n.Racks) != 0 && len(n.Racks) != n.Nodes, "%d rack labels for %d nodes", len(n.Racks), n.Nodes)
	if o := n.Oversubscription; o != 0 && (!(o >= 0.01) || o > 1e6) {
		faults.Add("an oversubscription of %g, want 0.01 to 1e6", o)
	}
	return faults.Err()
}

// maxDelay bounds what may be added to each send, so that no sum overflows.
const maxDelay = time.Hour

// isRate leaves out what would make a block take longer than a clock can tell.
func isRate(bytesPerSecond float64) bool {
	return bytesPerSecond >= 1 && !math.IsInf(bytesPerSecond, 1)
}

// rate is that of a node.
func (n Network) rate() float64 {
	if n.Rate == 0 {
		return DefaultRate
	}
	return n.Rate
}

// duration is how long bytes take at a rate. It is rounded up, since time has to pass.
func duration(bytes int64, rate float64) time.Duration {
	return time.Duration(math.Ceil(float64(bytes) / rate * float64(time.Second)))
}
