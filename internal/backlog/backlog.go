package backlog

import (
	"sync"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/internal/mutant"
)

// Message is one delivered message.
type Message = multicast.Message

// Config describes a backlog.
type Config struct {
	// Bytes bounds what it holds. A message of this size, less MessageBytes, must be the largest that
	// comes.
	Bytes  int
	Upcall func([]Message) // of HandOver
	Wake   func()          // tells the loop that there is room again
}

// MessageBytes is what each message takes beside its data.
const MessageBytes = 64

// Backlog is a queue between the loop, which calls Deliver and Mark, and one goroutine, which calls
// HandOver.
type Backlog struct {
	cfg Config

	mu      sync.Mutex
	parts   []part // the oldest first
	held    int    // bytes of parts, and of what is just being handed over
	fresh   int    // bytes of parts
	allowed int    // the bound of fresh
	refused bool   // the loop has more than there was room for
	dropped bool
	through bool
}

// part is a run of messages whose data lies in one piece of memory, or a mark between two of them.
type part struct {
	run    []Message
	data   []byte
	bytes  int
	bodies bool // there are large messages in it
	mark   func()
}

// release ends the hold on the bodies of large messages.
func (p part) release() {
	if !p.bodies {
		return
	}
	for _, m := range p.run {
		if body := m.Body(); body != nil {
			body.Release()
		}
	}
}

// The memory of a part: twice that of the one before, within limits. So a backlog is as large as it
// has to be.
const (
	minPartBytes = 4 << 10
	maxPartBytes = 1 << 20
)

// New makes an empty backlog.
func New(cfg Config) *Backlog { return &Backlog{cfg: cfg, allowed: cfg.Bytes} }

// Deliver keeps messages as long as there is room, and returns how many. Once the backlog is
// through it takes none: they go straight to the application, now and from then on.
func (b *Backlog) Deliver(run []Message) (taken int, through bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.through {
		return 0, true
	}
	for _, m := range run {
		if !b.dropped && !b.keep(m) {
			if mutant.Enabled && mutant.On(mutant.BacklogLoses) {
				taken++
				continue
			}
			b.refused = true
			break
		}
		taken++
	}
	return taken, false
}

// keep needs mu.
func (b *Backlog) keep(m Message) bool {
	bytes := len(m.Data) + MessageBytes
	if b.held+bytes > b.cfg.Bytes || b.fresh+bytes > b.allowed {
		return false
	}
	p := b.room(m)
	if body := m.Body(); body != nil {
		body.Hold()
		p.bodies = true
	} else {
		start := len(p.data)
		p.data = append(p.data, m.Data...)
		m.Data = p.data[start:len(p.data):len(p.data)]
	}
	p.run = append(p.run, m)
	p.bytes += bytes
	b.held += bytes
	b.fresh += bytes
	b.check()
	return true
}

// room is the last part, if it has room for one message more, or a new one. Large messages take
// none of its memory.
func (b *Backlog) room(m Message) *part {
	n := len(m.Data)
	if m.Body() != nil {
		n = 0
	}
	size := minPartBytes
	if len(b.parts) > 0 {
		last := &b.parts[len(b.parts)-1]
		if last.mark == nil && cap(last.data)-len(last.data) >= n && len(last.run) < maxPartBytes/MessageBytes {
			return last
		}
		size = min(max(2*cap(last.data), minPartBytes), maxPartBytes)
	}
	b.parts = append(b.parts, part{data: make([]byte, 0, max(size, n))})
	return &b.parts[len(b.parts)-1]
}

// Mark lets the goroutine that hands the messages over call f, between the messages that were
// delivered before Mark and the later ones. If the backlog is through, Mark returns true and does
// not take f.
func (b *Backlog) Mark(f func()) (through bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.through && !b.dropped {
		b.parts = append(b.parts, part{mark: f})
	}
	return b.through
}

// HandOver gives everything to the application, until there is no more. What may come meanwhile is
// half as much each time, so that there is an end even if the application is slower than the group:
// then its senders are held up, as they would be without a backlog. It reports whether the backlog
// is through; if not, it was dropped.
func (b *Backlog) HandOver() (through bool) {
	for {
		parts := b.take()
		if len(parts) == 0 {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.through
		}
		for i, p := range parts {
			if p.mark != nil {
				p.mark()
			} else {
				b.cfg.Upcall(p.run)
			}
			p.release()
			if !b.gave(p) {
				for _, left := range parts[i+1:] {
					left.release()
				}
				return false
			}
		}
	}
}

// take removes all parts. With nothing to take the backlog is through.
func (b *Backlog) take() []part {
	b.mu.Lock()
	defer b.mu.Unlock()
	parts := b.parts
	if len(parts) == 0 {
		b.through = !b.dropped
		b.called()
		return nil
	}
	b.parts, b.allowed, b.fresh = nil, b.fresh/2, 0
	if b.allowed < minPartBytes {
		b.allowed = 0
	}
	b.check()
	return parts
}

// gave notes that a part was handed over, and reports whether it goes on.
func (b *Backlog) gave(p part) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held -= p.bytes
	if b.allowed > 0 {
		b.called()
	}
	return !b.dropped
}

// called wakes the loop if it was refused something. It needs mu.
func (b *Backlog) called() {
	if b.refused {
		b.refused = false
		b.cfg.Wake()
	}
}

// Drop forgets everything, and whatever comes: the state to which it would be applied is not wanted
// any more.
func (b *Backlog) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.parts {
		p.release()
	}
	b.dropped, b.parts, b.fresh = true, nil, 0
	b.called()
}

func (b *Backlog) check() {
	if invariants.Enabled {
		invariants.Check(b.held <= b.cfg.Bytes && b.fresh <= b.held, "Q2", "held %d, of these fresh %d, bound %d", b.held, b.fresh, b.cfg.Bytes)
	}
}

// Full reports whether a message found no space before the first one was passed to the application.
func (b *Backlog) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused && b.allowed == b.cfg.Bytes
}

// Held is the number of bytes that it holds.
func (b *Backlog) Held() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
