package relay

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/rdmc/schedule"
)

// message is one node's part in one message. Its life, at a receiver:
//
//	heard of (by a ready that was faster than the announcement) → known → room → complete → over
//
// and at the root: waiting → known → sent → over. An aborted one goes from known to over once
// nothing touches its memory.
type message struct {
	index, tag uint64
	size       int64
	blockBytes int
	blocks     int
	algorithm  schedule.Algorithm
	known      bool
	started    *Started // the root's

	ready []bool          // by place: has room for all blocks
	sends []schedule.Move // in order. [0, count) have left, or are leaving: see sending
	count int             // of sends that were begun
	least []int32         // the root's, see Needed: by place in sends, the first block of the sends from there on; nil: not asked for yet
	from  []source        // the nodes that send blocks to this node

	filled  int64 // bytes that are there: at the root; elsewhere of messages in shared memory
	have    []bool
	left    int // blocks that are missing
	sums    []uint32
	summed  []bool // the root's: sums are taken when a block is first sent
	asked   bool   // for room
	room    bool
	reading int // blocks that are being read into its memory
	sending bool

	shared *shared // nil: it goes in blocks

	aborted error
	told    bool // the root's: Sent
	toldAll bool // the root's: Everywhere
}

// source is a node that sends blocks to this one, in an order that both know.
type source struct {
	place  int
	blocks []int32
	count  int // blocks that have come, or are coming
	told   bool
}

// shape gives a message its blocks. MaxBlocks bounds the memory that an announcement costs before
// the application is asked.
func (m *message) shape(size int64, blockBytes int) {
	m.size, m.blockBytes = size, blockBytes
	if size > 0 {
		m.blocks = int((size + int64(blockBytes) - 1) / int64(blockBytes))
	}
}

// plan gives a message this node's part of the schedule.
func (m *message) plan(c *Config, a schedule.Algorithm) error {
	m.algorithm, m.sums = a, make([]uint32, m.blocks)
	if len(c.Nodes) == 1 || m.blocks == 0 {
		return nil
	}
	p, err := schedule.New(a, len(c.Nodes), m.blocks, c.Racks)
	if err != nil {
		return err
	}
	m.sends = p.Sends(c.Self)
	if c.Self == 0 {
		m.summed = make([]bool, m.blocks)
		return nil
	}
	m.have, m.left = make([]bool, m.blocks), m.blocks
	for _, r := range p.Receives(c.Self) {
		i := slices.IndexFunc(m.from, func(s source) bool { return s.place == int(r.From) })
		if i < 0 {
			i = len(m.from)
			m.from = append(m.from, source{place: int(r.From)})
		}
		m.from[i].blocks = append(m.from[i].blocks, r.Block)
	}
	return nil
}

// span is where a block lies.
func (m *message) span(block int) (offset int64, length int) {
	offset = int64(block) * int64(m.blockBytes)
	return offset, int(min(int64(m.blockBytes), m.size-offset))
}

// has reports whether a block is here. The root has what is filled.
func (m *message) has(block int) bool {
	if m.have != nil {
		return m.have[block]
	}
	offset, length := m.span(block)
	return offset+int64(length) <= m.filled
}

// allSent reports whether no block has to leave any more, or is leaving.
func (m *message) allSent() bool { return !m.sending && (m.aborted != nil || m.count == len(m.sends)) }

// quiet reports whether nothing touches the message's memory.
func (m *message) quiet() bool {
	if mutant.Enabled && mutant.On(mutant.HalfFreed) {
		return !m.sending && (m.room || !m.asked)
	}
	return !m.sending && m.reading == 0 && (m.room || !m.asked) && (m.shared == nil || !m.shared.fetching)
}

// over reports whether a receiver is done with the message.
func (m *message) over(view bool) bool {
	if mutant.Enabled && mutant.On(mutant.BlockMissing) && m.known && m.room && m.quiet() && m.left == 1 && m.allSent() {
		return true
	}
	return m.known && m.quiet() && (m.aborted != nil || m.room && m.left == 0 && m.allSent() && (m.shared == nil || m.shared.isHere(m, view)))
}

// next is what a source must send next, or an error.
func (m *message) next(place int, h *Header) (*source, error) {
	i := slices.IndexFunc(m.from, func(s source) bool { return s.place == place })
	switch {
	case i < 0:
		return nil, fmt.Errorf("block %d of message %d: it is not its part to send any", h.Block, m.index)
	case !m.room:
		return nil, fmt.Errorf("block %d of message %d: this node was not ready for it", h.Block, m.index)
	}
	s := &m.from[i]
	if s.count == len(s.blocks) || s.blocks[s.count] != int32(h.Block) {
		if slices.Contains(s.blocks[:s.count], int32(h.Block)) {
			return nil, fmt.Errorf("block %d of message %d came twice", h.Block, m.index)
		}
		return nil, fmt.Errorf("block %d of message %d is not its turn", h.Block, m.index)
	}
	if _, length := m.span(int(h.Block)); length != int(h.Length) {
		return nil, fmt.Errorf("block %d of message %d has %d bytes instead of %d", h.Block, m.index, h.Length, length)
	}
	return s, nil
}
