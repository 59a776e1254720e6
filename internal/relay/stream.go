package relay

import (
	"math"

	"github.com/squall-go/squall/rdmc/schedule"
)

// A root that produces a message while it sends it needs no memory for all of it, if its schedule
// sends each block soon after the one before: chain and pipeline do, sequential sends and the tree
// do not.

// Span returns how many bytes of a message of this size the root needs at a time at the most: from
// the first byte that is still to be sent, to the last one of the block that is sent. It is 0 if
// the root sends nothing.
func (r *Relay) Span(size int64) (int64, error) {
	if size == 0 || len(r.cfg.Nodes) == 1 {
		return 0, nil
	}
	a, blockBytes := r.choose(size)
	var m message
	m.shape(size, blockBytes)
	p, err := schedule.New(a, len(r.cfg.Nodes), m.blocks, r.cfg.Racks)
	if err != nil {
		return 0, err
	}
	m.sends = p.Sends(r.cfg.Self)
	m.order()
	span, furthest := int32(0), int32(0)
	for i, s := range m.sends {
		furthest = max(furthest, s.Block)
		span = max(span, furthest-m.least[i]+1)
	}
	return min(int64(span)*int64(blockBytes), size), nil
}

// BlockBytes returns the size of all blocks but the last of a message of this size.
func (r *Relay) BlockBytes(size int64) int {
	_, blockBytes := r.choose(size)
	return blockBytes
}

// Needed returns the first byte of a started message that is still to be sent, or math.MaxInt64 if
// there is none. No earlier byte is looked at again.
func (r *Relay) Needed(s *Started) int64 {
	m := s.message
	switch {
	case m == nil || m.known && m.allSent():
		return math.MaxInt64
	case !m.known:
		return 0
	}
	if m.least == nil {
		m.order()
	}
	next := m.count
	if m.sending {
		next--
	}
	return int64(m.least[next]) * int64(m.blockBytes)
}

// order finds the first block of each end of sends.
func (m *message) order() {
	m.least = make([]int32, len(m.sends))
	least := int32(m.blocks)
	for i := len(m.sends) - 1; i >= 0; i-- {
		least = min(least, m.sends[i].Block)
		m.least[i] = least
	}
}
