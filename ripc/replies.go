package ripc

import (
	"slices"

	"github.com/squall-go/squall/internal/hooks"
)

func init() { hooks.NewReplies = func() hooks.Replies { return &replies{} } }

// replies are replies that are put into the rings of their callers, before each of these processes
// is woken once.
type replies struct{ peers []*peer }

// Reply implements hooks.Replies.
func (r *replies) Reply(message any, answer []byte) error {
	m := message.(*Message)
	m.batched = true
	if p := m.peer; !slices.Contains(r.peers, p) {
		r.peers = append(r.peers, p)
	}
	return m.Reply(answer)
}

// Flush implements hooks.Replies.
func (r *replies) Flush() {
	for _, p := range r.peers {
		p.flushReplies()
	}
	clear(r.peers)
	r.peers = r.peers[:0]
}

// flushReplies has the peer look at what putReply put.
func (p *peer) flushReplies() {
	if p.direct {
		p.send.mu.Lock()
		if !p.send.over {
			p.line.ring()
		}
		p.send.mu.Unlock()
		if !p.stirs.Load() {
			return
		}
	}
	p.e.lock()
	defer p.e.unlock()
	if p.direct {
		p.e.stir(p)
	} else {
		p.flush()
	}
}
