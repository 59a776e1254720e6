package linkmodel

import (
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Transfer is one message among some nodes of a network. All transfers of a run begin at time 0.
type Transfer struct {
	Plan       *schedule.Plan
	Nodes      []int // which node each rank of the plan is; nil: node i is rank i
	Bytes      int64 // of the message
	BlockBytes int64 // of each block but the last one
}

// node is the node of a rank.
func (t *Transfer) node(rank int) int {
	if t.Nodes == nil {
		return rank
	}
	return t.Nodes[rank]
}

// size is that of a block.
func (t *Transfer) size(block int32) int64 {
	return min(t.BlockBytes, t.Bytes-int64(block)*t.BlockBytes)
}

// validate reports all faults at once.
func (t *Transfer) validate(nodes int) error {
	if t.Plan == nil {
		return fmt.Errorf("%w: a transfer without a plan", ErrConfig)
	}
	faults := errs.Faults{Kind: ErrConfig}
	if b := int64(t.Plan.Blocks()); t.Bytes < 1 || t.BlockBytes < 1 || (t.Bytes-1)/t.BlockBytes+1 != b {
		faults.Add("a message of %d bytes is not %d blocks of %d", t.Bytes, b, t.BlockBytes)
	}
	if t.Nodes != nil && len(t.Nodes) != t.Plan.Nodes() {
		faults.Add("%d nodes for a plan of %d", len(t.Nodes), t.Plan.Nodes())
		return faults.Err()
	}
	seen := make([]bool, max(nodes, 0))
	for rank := range t.Plan.Nodes() {
		if node := t.node(rank); node < 0 || node >= nodes || seen[node] {
			faults.Add("rank %d is node %d: there are %d, and each has one rank", rank, node, nodes)
		} else {
			seen[node] = true
		}
	}
	return faults.Err()
}

// fits refuses what would take longer than time can tell, were it sent block by block at the lowest
// rate.
func fits(n *Network, transfers []Transfer) error {
	slowest := n.rate()
	if n.Oversubscription > 0 {
		slowest /= n.Oversubscription
	}
	for _, l := range n.SlowLinks {
		slowest = min(slowest, l.Rate)
	}
	seconds := 0.0
	for i := range transfers {
		t := &transfers[i]
		receivers := float64(t.Plan.Nodes() - 1)
		each := (n.Latency + 2*n.Overhead + n.Jitter).Seconds() + 1e-8
		seconds += receivers * (float64(t.Bytes)/slowest + float64(t.Plan.Blocks())*each)
	}
	if seconds*1e9 > math.MaxInt64/8 {
		return fmt.Errorf("%w: it would take %.3g s", ErrConfig, seconds)
	}
	return nil
}
