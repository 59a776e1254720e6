package member

import (
	"sync/atomic"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// heldBack are messages that wait until every member's disk has them, as copies in pieces of memory
// that are used again.
type heldBack struct {
	bound  int
	self   order.NodeID
	own    atomic.Int64 // messages of this member. W: the goroutine that has the rest. R: any goroutine.
	bytes  int
	pieces []*piece // the oldest first
	spare  []*piece // given, as many as fit into the bound with the pieces that are not
}

// piece is a run of messages whose data lies in one piece of memory, but for the bodies of large
// ones.
type piece struct {
	run   []multicast.Message
	given int // from the start
	data  []byte
	bytes int
}

// pieceBytes is the memory of a piece, in bytes, and pieceMessages the largest number of its
// messages: empty messages take room, too.
const (
	pieceBytes    = 256 << 10
	pieceMessages = 4096
)

func (h *heldBack) empty() bool { return len(h.pieces) == 0 }

// room reports whether there is room for a message. One that is larger than all of it may be alone.
func (h *heldBack) room(m multicast.Message) bool {
	return h.empty() || h.bytes+len(m.Data) <= h.bound
}

// keep copies a message, or holds its body.
func (h *heldBack) keep(m multicast.Message) {
	p := h.last(m)
	if body := m.Body(); body != nil {
		body.Hold()
	} else {
		start := len(p.data)
		p.data = append(p.data, m.Data...)
		m.Data = p.data[start:len(p.data):len(p.data)]
	}
	if m.Sender == h.self {
		h.own.Add(1)
	}
	p.run = append(p.run, m)
	p.bytes += len(m.Data)
	h.bytes += len(m.Data)
}

// last is the piece for the next message.
func (h *heldBack) last(m multicast.Message) *piece {
	n := 0
	if m.Body() == nil {
		n = len(m.Data)
	}
	if k := len(h.pieces) - 1; k >= 0 && len(h.pieces[k].run) < pieceMessages && len(h.pieces[k].data)+n <= cap(h.pieces[k].data) {
		return h.pieces[k]
	}
	var p *piece
	if k := len(h.spare) - 1; k >= 0 && n <= pieceBytes {
		p, h.spare = h.spare[k], h.spare[:k]
	} else {
		p = &piece{data: make([]byte, 0, max(n, pieceBytes))}
	}
	h.pieces = append(h.pieces, p)
	return p
}

// give hands over what lies before a version, as far as the receiver takes it, and returns how many
// messages these were and the version before which all were.
func (h *heldBack) give(to multicast.Receiver, before order.Version) (given int, next order.Version) {
	if mutant.Enabled && mutant.On(mutant.EarlyShown) {
		before.Seq++
	}
	for len(h.pieces) > 0 {
		p := h.pieces[0]
		run := p.run[p.given:]
		n := 0
		for n < len(run) && run[n].Version().Before(before) {
			n++
		}
		taken := 0
		if n > 0 {
			taken = to.Deliver(run[:n])
		}
		for i := range run[:taken] {
			next = order.Version{View: run[i].View, Seq: run[i].Seq + 1}
			h.release(&run[i])
		}
		given += taken
		p.given += taken
		if p.given < len(p.run) {
			break
		}
		h.pieces = h.pieces[1:]
		h.bytes -= p.bytes
		if cap(p.data) == pieceBytes && (len(h.spare)+len(h.pieces))*pieceBytes < h.bound {
			h.spare = append(h.spare, &piece{run: p.run[:0], data: p.data[:0]})
		}
	}
	return given, next
}

func (h *heldBack) release(m *multicast.Message) {
	if m.Sender == h.self {
		h.own.Add(-1)
	}
	if body := m.Body(); body != nil {
		body.Release()
		*m = multicast.Message{}
	}
}

// drop forgets everything.
func (h *heldBack) drop() {
	for _, p := range h.pieces {
		for i := range p.run[p.given:] {
			h.release(&p.run[p.given+i])
		}
	}
	h.bytes, h.pieces, h.spare = 0, nil, nil
}
