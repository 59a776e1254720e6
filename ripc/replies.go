package ripc

import "slices"

// Replies are replies that are put into the rings of their callers, before each of these processes
// is woken once: a server that answers many requests at a time wakes each process only once. The
// zero value is ready. It is for one goroutine.
type Replies struct{ peers []*peer }

// Reply answers a message, as its method Reply does. The caller's process may sleep until Flush.
func (r *Replies) Reply(m *Message, answer []byte) error {
	m.batched = true
	if p := m.peer; !slices.Contains(r.peers, p) {
		r.peers = append(r.peers, p)
	}
	return m.Reply(answer)
}

// Flush wakes the processes of all callers.
func (r *Replies) Flush() {
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
