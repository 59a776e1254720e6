package ripc

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// Message is a message, a request or a reply that was received. Data is valid until Release. A
// hostile peer of this host can change Data until then, unless the service copies messages
// (Service.CopyMessages). Over a socket Data does not change.
type Message struct {
	Data []byte

	service *Service
	peer    *peer
	frame   *pair.Frame
	number  uint64 // of the frame: a frame that was released is used again
	id      uint64
	channel int
	in      *inbound // on which it came; nil for a reply
	kind    pair.Kind
	from    ID         // of a reply
	long    *receiving // what comes with a long message
	batched bool       // the goroutine that serves writes the reply to the socket
}

// IsRequest reports whether the sender waits for a reply.
func (m *Message) IsRequest() bool { return m.kind == pair.Request }

// From is the id of the service that sent it, as the sending process says. Peer is what was proved.
func (m *Message) From() ID {
	if m.in == nil {
		return m.from
	}
	return m.in.from
}

// Sender is the address of the service that sent it, in the process in which it is now.
func (m *Message) Sender() *Remote {
	m.service.e.lock()
	defer m.service.e.unlock()
	if m.kind == pair.Reply {
		return m.peer.pinned(m.service, m.from)
	}
	if m.in == nil {
		return newRemote(m.service, "")
	}
	return m.in.back
}

// Reply answers a request, once. It does not wait: what finds no space is kept, within limits.
func (m *Message) Reply(parts ...[]byte) error {
	return m.answer(pair.Reply, parts)
}

// Refuse answers a request with a reason.
func (m *Message) Refuse(reason string) error {
	return m.answer(pair.Refusal, [][]byte{[]byte(reason)})
}

func (m *Message) answer(k pair.Kind, parts [][]byte) error {
	if m.kind != pair.Request {
		return fmt.Errorf("ripc: %s: %w: not a request, or answered already", m.service.id, ErrRefused)
	}
	p := m.peer
	if n := size(parts); n > p.send.tx.MaxMessage() {
		return tooLarge(m.service.id, n, p.send.tx.MaxMessage())
	}
	m.kind = pair.Message
	status, over := p.putReply(k, m.id, parts, m.batched)
	if status == pair.Accepted || over { // the caller of a process that ended waits for nothing
		return nil
	}
	p.e.lock()
	defer p.e.unlock()
	whole := make([]byte, 0, size(parts))
	for _, b := range parts {
		whole = append(whole, b...)
	}
	p.say(k, 0, m.id, whole)
	return nil
}

// Release gives the message back. A request that was not answered is refused. A second call does
// nothing.
func (m *Message) Release() {
	if m.frame == nil {
		return
	}
	if m.kind == pair.Request {
		_ = m.Refuse("the service did not answer")
	}
	m.Free()
}

// Free gives the bytes of a message back, like Release, and leaves a request open: it is answered
// later, once.
func (m *Message) Free() {
	if m.frame == nil {
		return
	}
	e := m.peer.e
	e.lock()
	if m.frame.Number == m.number {
		m.peer.free(m.frame)
	}
	e.unlock()
	m.frame, m.Data = nil, nil
}

// MaxReplyBytes returns the size of the longest reply, in bytes.
func (m *Message) MaxReplyBytes() int { return m.peer.send.tx.MaxMessage() }

// Call sends a request and waits for the reply, which the caller releases. If the service ended,
// the error is a GoneError, which says whether the request was received; one that was certainly not
// received is sent again to where the service is then.
func (s *Service) Call(ctx context.Context, to *Remote, parts ...[]byte) (Message, error) {
	for {
		r := to.route.Load()
		if r == nil {
			if err := to.connect(ctx); err != nil {
				return Message{}, err
			}
			continue
		}
		if n := size(parts); n > r.max {
			return Message{}, tooLarge(to.id, n, r.max)
		}
		m, again, err := s.call(ctx, to, r, parts)
		if !again {
			return m, err
		}
	}
}

// call sends a request on a route. again says that it was not received, and never will be.
func (s *Service) call(ctx context.Context, to *Remote, r *route, parts [][]byte) (m Message, again bool, err error) {
	e, p := s.e, r.peer
	e.lock()
	defer e.unlock()
	if p.ended() || r.over {
		err = to.goneLocked()
		return m, err == nil, err
	}
	w := e.waiter()
	defer e.giveBack(w)
	w.goal, w.peer, w.service, w.channel, w.answered = goalAnswer, p, s, 0, false // no channel counts it yet
	id := p.calls.Begin(w)
	e.counts.Calls++
	if accepted, err := p.putOrWait(ctx, r, pair.Request, id, parts, w); !accepted {
		p.calls.End(id)
		return m, err == nil, err
	}
	if !e.glance(w, nil) {
		err = e.wait(ctx, w)
	}
	if w.frame == nil {
		w.detach() // a long one may be on its way
	}
	if err != nil && !w.answered {
		p.calls.End(id) // a reply that comes now is dropped
		p.send.giveUp(r.channel, w.ordinal)
		return m, false, fmt.Errorf("ripc: calling %s: %w", to.id, err)
	}
	f, err := w.frame, w.err
	if gone, ok := err.(*GoneError); ok {
		gone.Service = to.id
		if again = gone.Exact && gone.Unreceived == 1; again {
			e.counts.CallsRetried++
		}
		return m, again, gone
	}
	if err != nil {
		return m, false, err
	}
	if f.Kind == pair.Refusal {
		err = fmt.Errorf("ripc: calling %s: %w: %.500s", to.id, ErrRefused, string(f.Data))
		p.free(f)
		return m, false, err
	}
	return s.replyMessage(to, p, f), false, nil
}
