package ripc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// longs is a peer's part in long messages. It is under the endpoint's mu.
type longs struct {
	out        pair.Outbox[*sending]
	in         pair.Inbox[*receiving]
	sendings   []*sending
	receivings []*receiving
	turns      []*waiter    // for room on a channel
	toFetch    []*receiving // whose bodies are to be brought, within a host
	fetchers   int

	// Over TCP: the connection on which bodies come and go.
	bulk     *bulk
	dialer   bool   // this side made the pair, and makes that connection
	dialing  bool   // it does
	place    Place  // where
	token    string // names the pair there
	reserved bool   // memory of a stream is counted
	ready    chan struct{}
	isReady  bool
}

// sending is a long message that this side sends.
type sending struct {
	peer *peer
	to   *Remote // nil for a reply
	call uint64  // of a request
	out  *pair.Outgoing[*sending]
	hold samehost.Hold // on the memory that the peer looks at
	held bool
	went bool    // the offer is in the ring
	kept int64   // bytes of a copy that count for the peer
	w    *waiter // of the goroutine that sends, while it waits
	err  error   // that ended it
}

// SendLong sends a message of any size: a body, and a head that comes with it as Data, of parts
// that become one and are a short message at most. It returns when the receiving process has all of
// it, and the body may be used again. The service takes it later: a message that the service has
// not released when its process ends is counted in the next GoneError. A service that takes no long
// messages refuses with ErrNoWindow.
func (s *Service) SendLong(ctx context.Context, to *Remote, body Body, head ...[]byte) error {
	ctx, stop := s.whileOpen(ctx)
	defer stop()
	offer := pair.Offer{Purpose: pair.LongMessage}
	for {
		r := to.route.Load()
		if r == nil {
			if err := to.connect(ctx); err != nil {
				return err
			}
			continue
		}
		again, err := r.peer.sendLong(ctx, to, r, offer, &body, head)
		if !again {
			return err
		}
	}
}

// CallLong sends a request with a body, which may be empty, and waits for the reply, which the
// caller releases. into is the return buffer: a reply whose body fits is put there, and waits for
// no window. A larger one, or any if into is nil, goes where the long messages of the service go.
// into is not touched any more when CallLong returns, but for the reply that it returned. A request
// is sent once: it is not sent again if the process of the service ends.
func (s *Service) CallLong(ctx context.Context, to *Remote, into []byte, body Body, head ...[]byte) (Message, error) {
	ctx, stop := s.whileOpen(ctx)
	defer stop()
	for {
		r := to.route.Load()
		if r == nil {
			if err := to.connect(ctx); err != nil {
				return Message{}, err
			}
			continue
		}
		m, again, err := s.callLong(ctx, to, r, into, &body, head)
		if !again {
			return m, err
		}
	}
}

// callLong sends a request on a route. again says that it was not sent.
func (s *Service) callLong(ctx context.Context, to *Remote, r *route, into []byte, body *Body, head [][]byte) (m Message, again bool, err error) {
	e, p := s.e, r.peer
	e.lock()
	defer e.unlock()
	if p.ended() || r.over {
		err = to.goneLocked()
		return m, err == nil, err
	}
	w := e.waiter()
	defer e.giveBack(w)
	w.goal, w.peer, w.service, w.channel, w.ordinal, w.answered, w.into = goalAnswer, p, s, 0, 0, false, into // no channel counts it
	id := p.calls.Begin(w)
	defer p.calls.End(id)
	offer := pair.Offer{Purpose: pair.LongRequest, Call: id, Room: uint64(len(into))}
	e.unlock()
	again, err = p.sendLong(ctx, to, r, offer, body, head)
	e.lock()
	if err == nil && !again {
		err = e.wait(ctx, w)
	}
	if w.answered { // also when the request did not end well: it may have been answered before its end
		again, err = false, w.err
	}
	if w.frame == nil {
		w.detach()
	}
	switch gone, ok := err.(*GoneError); {
	case again:
		return m, true, nil
	case ok && gone.Exact && errors.Is(gone.Cause, errServiceClosed): // the service was closed before it received the request
		gone.Service = to.id
		return m, body.isRepeatable(), gone
	case ok:
		gone.Service, gone.Exact, gone.Unreceived = to.id, false, 1
		return m, false, gone
	case err != nil:
		return m, false, fmt.Errorf("ripc: calling %s: %w", to.id, err)
	}
	f := w.frame
	if f.Kind == pair.Refusal {
		err = fmt.Errorf("ripc: calling %s: %w: %.500s", to.id, ErrRefused, string(f.Data))
		p.free(f)
		return m, false, err
	}
	return s.replyMessage(to, p, f), false, nil
}

// replyMessage is the message of a frame that answers a call.
func (s *Service) replyMessage(to *Remote, p *peer, f *pair.Frame) Message {
	if s.copies {
		p.rx.Copy(f)
	}
	m := Message{Data: f.Data, service: s, peer: p, frame: f, number: f.Number, kind: pair.Reply, from: to.id}
	m.long, _ = f.Tag.(*receiving)
	return m
}

// detach has a reply that is on its way go nowhere, and waits until the return buffer is not
// written any more. The caller holds the mu.
func (w *waiter) detach() {
	m := w.reply
	if m == nil {
		return
	}
	w.reply, m.call = nil, nil
	if m.in.IsOpen() {
		m.deny(pair.Unwanted, "no caller waits for the reply")
	}
	m.quiet()
}

// ReplyLong answers a request with a body and a head. Within a host it returns at once: the peer
// looks at the body in shared memory. Over TCP it returns when the body was sent. What becomes of
// the reply is the caller's to know: a reply that has no place is an error of the call.
func (m *Message) ReplyLong(ctx context.Context, body Body, head ...[]byte) error {
	if m.kind != pair.Request {
		return fmt.Errorf("ripc: %s: %w: not a request, or answered already", m.service.id, ErrRefused)
	}
	offer := pair.Offer{Purpose: pair.LongReply, Call: m.id}
	if !m.peer.direct && body.size > 0 && body.size <= m.ReturnSize() {
		offer.Way = pair.Direct
	}
	m.kind = pair.Message
	_, err := m.peer.sendLong(ctx, nil, nil, offer, &body, head)
	if err == nil || errors.Is(err, ErrPeerGone) { // the caller of a process that ended waits for nothing
		return nil
	}
	_ = m.refuse(fmt.Sprintf("the reply failed: %v", err))
	return err
}

// refuse answers a request whose reply failed.
func (m *Message) refuse(reason string) error {
	m.kind = pair.Request
	return m.Refuse(reason)
}

// sendLong offers a message, and sends its bytes. again says that the peer had ended before it
// heard of it. The caller does not hold the mu.
func (p *peer) sendLong(ctx context.Context, to *Remote, r *route, offer pair.Offer, body *Body, head [][]byte) (again bool, err error) {
	e := p.e
	if err := body.check(); err != nil {
		return false, fmt.Errorf("ripc: %w", err)
	}
	if body.buffer != nil {
		body.buffer.Retain()
		defer body.buffer.Release()
	}
	if n, most := size(head), p.send.tx.MaxMessage()-pair.MaxOfferBytes; n > most {
		return false, tooLarge("a head", n, most)
	}
	offer.Size = uint64(body.size)
	m := &sending{peer: p, to: to, call: requestOf(&offer)}
	if p.direct && body.size > 0 {
		if err := m.show(body, &offer); err != nil {
			return false, err
		}
	}
	e.lock()
	defer e.unlock()
	if err := m.begin(ctx, r, &offer, head); err != nil || m.out == nil {
		m.drop(false)
		return err == nil, err
	}
	w := e.waiter()
	defer e.giveBack(w)
	if err = m.finish(ctx, w, &offer, body); err != nil {
		m.giveUp()
		if to != nil && to.service.open.Err() == nil && errors.Is(err, errServiceClosed) { // the receiving service
			return body.isRepeatable(), &GoneError{Service: to.id, Unreceived: 1, Exact: true, Cause: errServiceClosed}
		}
		return false, fmt.Errorf("ripc: a long message: %w", err)
	}
	return false, nil
}

// requestOf is the call of a request that is offered, 0 of anything else.
func requestOf(offer *pair.Offer) uint64 {
	if offer.Purpose == pair.LongRequest {
		return offer.Call
	}
	return 0
}

// show brings the body into memory that the peer can look at.
func (m *sending) show(body *Body, offer *pair.Offer) (err error) {
	e := m.peer.e
	data := body.bytes
	if offer.Purpose == pair.LongReply {
		if err := m.keep(body); err != nil {
			return err
		}
		defer func() {
			if !m.held {
				e.lock()
				m.refund()
				e.unlock()
			}
		}()
	}
	if body.buffer == nil {
		memory, err := e.allocate(int(body.size), m.peer.viewer)
		if err != nil {
			return err
		}
		defer memory.Release() // the message holds it
		data = memory.Bytes()
		if err := body.copy(data); err != nil {
			return fmt.Errorf("ripc: the body: %w", err)
		}
	}
	var at samehost.Place
	if m.hold, at, m.held = e.memory.space.Hold(data); !m.held {
		return fmt.Errorf("ripc: %w: no shared memory for %d bytes", ErrLimit, body.size)
	}
	offer.Way, offer.Segment, offer.Offset, offer.Owner = pair.Placed, at.ID, uint64(at.Offset), e.memory.space.Name()
	return nil
}

// maxKeptReplies is how many replies a peer of this host may have that it has not given back.
const maxKeptReplies = 4096

// keep counts a reply for the peer, which looks at it for as long as it likes: the bytes of the
// copy, or, of a buffer, which others may look at too, only that there is one more reply.
func (m *sending) keep(body *Body) error {
	p := m.peer
	p.e.lock()
	defer p.e.unlock()
	if p.long.out.Replies() >= maxKeptReplies {
		return fmt.Errorf("%w: the peer keeps %d replies", ErrLimit, p.long.out.Replies())
	}
	if body.buffer != nil {
		return nil
	}
	if err := p.fits(body.size); err != nil {
		return fmt.Errorf("the peer keeps its replies: %w", err)
	}
	p.charge(body.size)
	m.kept = body.size
	return nil
}

// refund ends what keep counts. The caller holds the mu.
func (m *sending) refund() {
	if m.kept > 0 {
		n := m.kept
		m.kept = 0
		m.peer.refund(n)
	}
}

// begin offers the message when its channel and the ring have room. Without an error, out is nil if
// the peer had ended. The caller holds the mu.
func (m *sending) begin(ctx context.Context, r *route, offer *pair.Offer, head [][]byte) error {
	p, channel := m.peer, r.on()
	for !p.long.out.HasRoom(channel) && !p.ended() && !r.isOver() {
		if err := p.awaitTurn(ctx); err != nil {
			return err
		}
	}
	if p.ended() || r.isOver() {
		return m.gone()
	}
	if !p.direct && p.long.dialer && (offer.Size > 0 || offer.Room > 0) {
		p.dialBulk() // the peer may need it at once
	}
	m.out = p.long.out.Begin(channel, offer.Way, offer.Size, m)
	p.long.sendings = append(p.long.sendings, m) // before the offer goes: the peer may be found to have ended then
	parts := append([][]byte{offer.Append(make([]byte, 0, pair.MaxOfferBytes))}, head...)
	accepted, err := p.putOrWait(ctx, r, pair.Offered, m.out.ID, parts, nil)
	if accepted {
		m.went = true
		return nil
	}
	p.unlistSending(m)
	p.long.out.End(m.out)
	m.out = nil
	p.wakeTurns()
	if err == nil {
		err = m.gone()
	}
	return err
}

// gone is what the sender has to be told of a peer that ended; nil if the message can be sent
// elsewhere.
func (m *sending) gone() error {
	if m.to == nil {
		return fmt.Errorf("ripc: %w", ErrPeerGone)
	}
	return m.to.goneLocked()
}

// finish sends the bytes, and waits as long as the sender has to. The caller holds the mu.
func (m *sending) finish(ctx context.Context, w *waiter, offer *pair.Offer, body *Body) error {
	if m.err != nil || offer.Size == 0 || offer.Way == pair.Placed && offer.Purpose == pair.LongReply {
		return m.err
	}
	if offer.Way == pair.Asked {
		if err := m.await(ctx, w, m.out.IsGranted); err != nil {
			return err
		}
	}
	if offer.Way != pair.Placed {
		e := m.peer.e
		e.moving++
		e.unlock()
		err := m.peer.write(ctx, m, body)
		e.lock()
		e.moving--
		if err != nil || m.err != nil {
			return firstOf(m.err, err)
		}
	}
	if offer.Purpose == pair.LongReply {
		return nil
	}
	return m.await(ctx, w, func() bool { return m.out.IsHere() || m.out.IsOver() })
}

// await waits until the message is as far, or ended with an error.
func (m *sending) await(ctx context.Context, w *waiter, done func() bool) error {
	m.w, w.seat.Yields = w, true
	defer func() { m.w, w.seat.Yields = nil, false }()
	for m.err == nil && !done() {
		w.goal, w.peer, w.answered = goalAnswer, m.peer, false
		if err := m.peer.e.wait(ctx, w); err != nil {
			return err
		}
	}
	return m.err
}

// giveUp ends a message that its sender does not want any more.
func (m *sending) giveUp() {
	p := m.peer
	if !p.ended() && m.out.Withdraw() {
		p.say(pair.Withdrawn, m.out.Channel, m.out.ID, nil)
	}
}

// wake wakes the goroutine that sends.
func (m *sending) wake() {
	if m.w != nil {
		m.w.answered = true
		m.peer.e.rouse(m.w)
	}
}

// drop gives up the memory that the peer looked at. seen says that it may do so forever. The caller
// holds the mu.
func (m *sending) drop(seen bool) {
	m.refund()
	if m.held {
		m.held = false
		m.hold.Drop(seen)
	}
}

// heard takes in what the peer says of a long message of this side.
func (p *peer) heard(f *pair.Frame) error {
	out, err := p.long.out.Answer(f.Kind, f.ID)
	if err != nil {
		return err
	}
	m := out.Value
	switch f.Kind {
	case pair.Denied:
		if m.err == nil {
			m.err = refusedBy(f)
		}
		m.drop(false)
		if out.Size == 0 { // its service was closed, and its sender did not wait for that
			m.turnedAway()
		}
	case pair.Here:
		if len(f.Data) == 1 && f.Data[0] == 0 {
			m.drop(false)
		}
	case pair.Freed:
		m.drop(false)
		if len(f.Data) == 1 && f.Data[0] == unreceived {
			m.turnedAway()
		}
	}
	if out.IsOver() {
		p.unlistSending(m)
		p.wakeTurns()
	}
	m.wake()
	return nil
}

func (p *peer) unlistSending(m *sending) {
	if i := slices.Index(p.long.sendings, m); i >= 0 {
		p.long.sendings = slices.Delete(p.long.sendings, i, i+1)
	}
}

// isSent reports whether nobody waits for the message, because the peer has it. One without a
// body was sent with its offer.
func (m *sending) isSent() bool {
	return m.to != nil && m.call == 0 && (m.out.IsHere() || m.went && m.out.Size == 0)
}

// turnedAway notes that the service was closed before it received the message: a request is sent
// again, and of a message the sender learns later.
func (m *sending) turnedAway() {
	p := m.peer
	switch {
	case m.call != 0:
		if w, ok := p.calls.End(m.call); ok {
			w.err, w.answered = &GoneError{Unreceived: 1, Exact: true, Cause: errServiceClosed}, true
			p.e.rouse(w)
		}
	case m.to != nil:
		m.to.miss(1, true, errServiceClosed)
	}
}

// awaitTurn waits until a long message of the peer ended.
func (p *peer) awaitTurn(ctx context.Context) error {
	e := p.e
	w := e.waiter()
	defer e.giveBack(w)
	w.goal, w.peer, w.answered = goalAnswer, p, false
	p.long.turns = append(p.long.turns, w)
	err := e.wait(ctx, w)
	if i := slices.Index(p.long.turns, w); i >= 0 {
		p.long.turns = slices.Delete(p.long.turns, i, i+1)
	}
	return err
}

func (p *peer) wakeTurns() {
	for _, w := range p.long.turns {
		w.answered = true
		p.e.rouse(w)
	}
	p.long.turns = p.long.turns[:0]
}
