package ripc

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/squall-go/squall/ripc/internal/pair"
)

// Service is one service of this endpoint: it receives from all that know its id, and sends. Its
// methods may be called from any goroutine.
type Service struct {
	e      *Endpoint
	id     ID
	number uint32          // in this endpoint
	open   context.Context // until Close
	shut   context.CancelCauseFunc

	// Under the endpoint's mu.
	queue    queue
	waiting  []*waiter // for a message
	servers  int       // goroutines in Serve
	busy     int       // the number of them that handle messages
	remotes  remotes
	withdraw func() error
	notices  notices
	long     intake
	streams  *streams
	copies   bool        // what is received is copied before the application gets it
	closed   bool        // nothing is received any more
	ended    bool        // nor are there streams
	ending   atomic.Bool // as closed, for the goroutines that handle messages
}

// ID is the service's id.
func (s *Service) ID() ID { return s.id }

// CopyMessages has the library copy each message, reply and notice that the service gets from now
// on before the application sees it. Without it, Data lies in memory to which a peer of this host
// can still write: a handler that checks Data and then uses it, or decodes it with a package that
// reads bytes twice (such as encoding/json, which panics then), needs copies. The memory of the
// copies is used again, and counts for the sender (Config.MaxBytesPerClient); a message that is
// kept does not block the ring of its pair. Bodies of long messages are copied unless Long.InPlace
// is set.
func (s *Service) CopyMessages() {
	s.e.lock()
	defer s.e.unlock()
	s.copies = true
}

// arrived takes a message into the queue, and wakes a goroutine that waits for one.
func (s *Service) arrived(p *peer, in *inbound, f *pair.Frame) {
	if f.Kind == pair.Notice {
		s.noticed(p, in, f)
		return
	}
	s.queue.push(arrival{p, f, f.Number, in})
	s.rouse()
}

// rouse wakes one of the goroutines that wait for a message. One that finds nothing, because
// another one was faster, waits on.
func (s *Service) rouse() {
	for i := len(s.waiting) - 1; i >= 0; i-- {
		w := s.waiting[i]
		listed := w.seat.IsListed()
		s.e.rouse(w)
		if listed {
			return
		}
	}
}

// Receive waits for a message. Messages of one sender come in the order in which it sent them. The
// message is in place until it is released.
func (s *Service) Receive(ctx context.Context) (m Message, err error) {
	e := s.e
	e.lock()
	if s.queue.len() == 0 && !e.glance(nil, s) {
		err = s.await(ctx)
	}
	if err == nil {
		s.next(&m)
	}
	e.unlock()
	return m, err
}

// TryReceive returns a message, if one is here.
func (s *Service) TryReceive() (m Message, ok bool) {
	e := s.e
	e.lock()
	defer e.unlock()
	if s.queue.len() == 0 && (e.role.Poller() == nil || e.role.IsAsleep()) {
		e.heatStirred()
		e.step()
	}
	if s.queue.len() == 0 {
		return m, false
	}
	s.next(&m)
	return m, true
}

// next hands out the oldest message. It counts as received from now on.
func (s *Service) next(m *Message) {
	a := s.queue.pop()
	a.peer.rx.Received(a.frame)
	if s.copies {
		a.peer.rx.Copy(a.frame)
	}
	a.peer.tell()
	s.fill(m, a)
	a.peer.lastCount(m.channel)
}

// fill makes m the message that arrived.
func (s *Service) fill(m *Message, a arrival) {
	f := a.frame
	m.Data, m.service, m.peer, m.frame, m.number = f.Data, s, a.peer, f, a.number
	m.id, m.channel, m.kind, m.batched, m.long = f.ID, f.Channel, f.Kind, false, nil
	if f.Tag != nil {
		m.fillLong(f)
	} else {
		m.in = a.in
	}
}

// await waits until the queue has a message.
func (s *Service) await(ctx context.Context) error {
	if s.closed {
		return fmt.Errorf("ripc: %s: %w", s.id, ErrClosed)
	}
	w := s.e.waiter()
	defer s.e.giveBack(w)
	w.goal, w.service = goalMessage, s
	s.waiting = append(s.waiting, w)
	err := s.e.wait(ctx, w)
	for i, o := range s.waiting {
		if o == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			break
		}
	}
	if s.queue.len() > 1 || s.queue.len() > 0 && err != nil {
		s.rouse()
	}
	if err == nil && s.queue.len() == 0 {
		err = ErrClosed
	}
	if err != nil {
		return fmt.Errorf("ripc: %s: %w", s.id, err)
	}
	return nil
}

// Close ends the service. Messages that were not received are dropped: their senders learn how
// many, and requests are sent again to the service's next place. A goroutine in Serve finishes its
// present message, and returns. Calls of this service that wait end with ErrClosed, wherever they
// are: the request may have been received or not. So do sends that wait for space.
func (s *Service) Close() error {
	return s.end(s.close)
}

// Withdraw gives the name back and receives nothing any more, so that another process can take the
// service over: senders find it there, and learn how many messages were not received here. Requests
// that were received can be answered, and streams go on, until Close.
func (s *Service) Withdraw() error {
	return s.end(func() {
		if !s.closed {
			s.leave()
		}
	})
}

// end does a part of Close, and gives the name back if that was not done.
func (s *Service) end(part func()) error {
	s.e.lock()
	part()
	withdraw, stopping := s.withdraw, s.long.stopping
	s.withdraw = nil
	if withdraw != nil && !s.e.awaited { // a resolver may end when the endpoint is closed
		s.e.background.Add(1)
		defer s.e.background.Done()
	}
	s.e.unlock()
	for _, stopped := range stopping { // until then the windows are written
		<-stopped
	}
	if withdraw != nil {
		return withdraw()
	}
	return nil
}

// close is Close under the mu.
func (s *Service) close() {
	if s.ended {
		return
	}
	s.ended = true
	s.shut(errServiceClosed)
	if s.streams != nil {
		s.streams.close()
	}
	if !s.closed {
		s.leave()
	}
	s.sayClosed(true)
	if s.busy == 0 {
		s.forget()
	}
	s.endCalls()
}

// forget removes the service from the endpoint: it is closed and handles nothing any more.
func (s *Service) forget() {
	s.leaveAll()
	s.e.services.forget(s)
}

// endCalls ends the calls of a closed service: calls that wait for an answer, and calls that wait
// for space. The caller holds the mu.
func (s *Service) endCalls() {
	for _, p := range s.e.peers {
		p.calls.All(func(id uint64, w *waiter) {
			if w.service != s || w.answered {
				return
			}
			p.calls.End(id)
			w.answered, w.err = true, fmt.Errorf("ripc: a call of %q: %w", s.id, ErrClosed)
			s.e.rouse(w)
		})
		p.send.room.All(func(_ int, w *waiter) {
			if w.isHalted() {
				s.e.rouse(w)
			}
		})
	}
}

// whileOpen is ctx until the service is closed. Stop releases what the context holds.
func (s *Service) whileOpen(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	release := context.AfterFunc(s.open, func() { cancel(context.Cause(s.open)) })
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// leave has the service receive nothing any more. The caller holds the mu.
func (s *Service) leave() {
	e := s.e
	s.closed = true
	s.ending.Store(true)
	delete(e.services.byID, s.id)
	s.turnAwayAll()
	s.closeLong()
	if s.busy == 0 { // else the last goroutine that handles a message says it
		s.sayClosed(false)
	}
	for _, w := range s.waiting {
		e.rouse(w)
	}
	if s.notices.notifier != nil {
		e.rouse(s.notices.notifier)
	}
}

// To is the address of a service as this one uses it. Nothing is sent before it is used.
func (s *Service) To(id ID) *Remote {
	s.e.lock()
	defer s.e.unlock()
	if all := s.remotes.byID[id]; len(all) > 0 {
		return all[0]
	}
	r := newRemote(s, id)
	r.named = true
	s.remotes.list(r)
	return r
}

// idle reports whether an address is not connected, and no goroutine connects it.
func (r *Remote) idle() bool { return r.route.Load() == nil && r.left == nil && len(r.turn) == 0 }

// Send sends a message, of parts that become one, and waits for buffer space if there is none. The
// parts may be used again at once.
func (s *Service) Send(ctx context.Context, to *Remote, parts ...[]byte) error {
	return to.send(ctx, pair.Message, 0, parts)
}

// TrySend sends a message if there is a connection and space, and returns ErrNotConnected or
// ErrFull else.
func (s *Service) TrySend(to *Remote, parts ...[]byte) error {
	r := to.route.Load()
	if r == nil {
		return fmt.Errorf("ripc: %s: %w", to.id, ErrNotConnected)
	}
	if n := size(parts); n > r.max {
		return tooLarge(to.id, n, r.max)
	}
	status, over := r.peer.put(r, pair.Message, 0, parts)
	switch {
	case status == pair.Accepted:
		return nil
	case over:
		if err := to.takeGone(); err != nil {
			return err
		}
		return fmt.Errorf("ripc: %s: %w", to.id, ErrNotConnected)
	}
	return fmt.Errorf("ripc: %s: %w", to.id, ErrFull)
}

func size(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}

func tooLarge(id ID, n, most int) error {
	return fmt.Errorf("ripc: %s: %w: %d bytes, the pair takes %d", id, ErrTooLarge, n, most)
}
