//go:build linux

package verbs

import (
	"fmt"
	"sync"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/internal/mutant"
)

// An ID tells whose request a completion ends: the link's number in its hub, which is never used
// again, and which request of the link.
//
//	link: 32 bits | receive: 1 bit | count: 31 bits
const (
	countMask  = 1<<31 - 1
	receiveBit = 1 << 31
)

func requestID(link, count uint32) uint64 { return uint64(link)<<32 | uint64(count&countMask) }

func receiveID(link, count uint32) uint64 { return requestID(link, count) | receiveBit }

// hub is the completion queue that the links of one table share. The first link that the loop polls
// in a step polls the queue for all of them.
//
//	field           used by
//	armed, rounds   the loop
//	the rest        any goroutine, under mu: links end on others
type hub struct {
	queue  device.Queue
	parker *fabric.Parker
	ready  *fabric.Readiness
	clock  clock
	armed  bool
	rounds uint // polls of the loop

	mu    sync.Mutex
	next  uint32
	links map[uint32]*Link
	buf   [64]device.Completion
	err   error // of the queue; final
}

func newHub(q device.Queue, parker *fabric.Parker) (*hub, error) {
	ready, err := parker.Watch(q.Descriptor(), false)
	if err != nil {
		return nil, err
	}
	return &hub{queue: q, parker: parker, ready: ready, clock: wall{}, links: map[uint32]*Link{}}, nil
}

// add gives a link its number.
func (h *hub) add(l *Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next++
	l.id = h.next
	h.links[l.id] = l
}

// remove removes a link whose pair is closed, and drains its completions from the queue: a queue
// that overflows is lost.
func (h *hub) remove(l *Link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.links, l.id)
	h.poll()
}

// step polls for the loop, at most once for all links that call it in a step, and returns what
// completed of a link. The slice is valid until the next call for this link.
func (h *hub) step(l *Link) ([]device.Completion, error) {
	if h.ready.In {
		h.ready.In = false
		if h.queue.Drain() {
			h.armed = false
		}
	}
	due := l.round == h.rounds
	if h.parker.Announced() && !h.armed { // QP7
		late := mutant.Enabled && mutant.On(mutant.ArmLate)
		if late {
			h.mu.Lock()
			h.poll()
			h.mu.Unlock()
		}
		if err := h.queue.Arm(); err != nil {
			return nil, fmt.Errorf("%w: %w", device.ErrFailed, err)
		}
		h.armed, due = true, !late
	}
	if due {
		h.rounds++
	}
	l.round = h.rounds
	return h.take(l, due)
}

// take returns what completed of a link, after a poll if that is asked for.
func (h *hub) take(l *Link, poll bool) ([]device.Completion, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if poll {
		h.poll()
	}
	took := l.inbox
	l.inbox, l.spare = l.spare[:0], took
	return took, h.err
}

// maxPolls bounds what one poll takes in.
const maxPolls = 16

// poll distributes completions. The caller holds mu.
func (h *hub) poll() {
	for range maxPolls {
		n, err := h.queue.Poll(h.buf[:])
		if err != nil && h.err == nil {
			h.err = fmt.Errorf("%w: %w", device.ErrFailed, err)
		}
		for _, c := range h.buf[:n] {
			if l := h.links[uint32(c.ID>>32)]; l != nil { // QP6
				l.inbox = append(l.inbox, c)
			}
			if mutant.Enabled && mutant.On(mutant.OldPair) {
				h.countByPair(c)
			}
		}
		if n < len(h.buf) {
			return
		}
	}
}

// countByPair implements the mutant OldPair.
func (h *hub) countByPair(c device.Completion) {
	for _, l := range h.links {
		if l.pair != nil && l.pair.Endpoint().Number == c.Pair && l.id != uint32(c.ID>>32) {
			l.inbox = append(l.inbox, c)
		}
	}
}

func (h *hub) close() error {
	h.parker.Unwatch(h.queue.Descriptor())
	return h.queue.Close()
}
