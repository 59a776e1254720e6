package ripc

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	serveBatch = 32                    // messages that one goroutine takes at a time, if it serves alone
	replyDelay = 20 * time.Microsecond // how long a reply may wait for the replies to the next requests of the batch
)

// Serve receives messages and calls handle for each, until ctx ends or the service is closed; it
// returns why. A request that was not answered when handle returns is refused. The message is
// released when handle returns. To handle messages concurrently, call Serve on several goroutines.
func (s *Service) Serve(ctx context.Context, handle func(context.Context, *Message)) error {
	e := s.e
	var m Message // one for all: what handle gets is on the heap
	var store [serveBatch]arrival
	e.lock()
	defer e.unlock()
	s.servers++
	defer func() { s.servers-- }()
	for {
		batch, err := s.some(ctx, store[:0])
		if errors.Is(err, ErrClosed) {
			return err
		}
		if err != nil {
			return fmt.Errorf("serving ended: %w", err)
		}
		s.busy++
		e.unlock()
		s.handleAll(ctx, batch, &m, handle)
	}
}

// some waits for messages and takes one, or as many as are here if no other goroutine could handle
// them meanwhile. They count as received one by one, when they are handled. The caller holds the
// mu.
func (s *Service) some(ctx context.Context, batch []arrival) ([]arrival, error) {
	if s.queue.len() == 0 && !s.e.glance(nil, s) {
		if err := s.await(ctx); err != nil {
			return nil, err
		}
	}
	most := 1
	if s.servers == 1 && len(s.waiting) == 0 {
		most = min(s.queue.len(), serveBatch)
	}
	for range most {
		a := s.queue.pop()
		a.peer.rx.Hold(a.frame)
		if s.copies {
			a.peer.rx.Copy(a.frame)
		}
		batch = append(batch, a)
	}
	return batch, nil
}

// handleAll calls the application for some messages, and frees them. It comes without the mu and
// returns with it, whatever the application does.
func (s *Service) handleAll(ctx context.Context, batch []arrival, m *Message, handle func(context.Context, *Message)) {
	done := 0
	defer func() {
		s.e.lock()
		s.handled(batch, done)
	}()
	began := time.Time{}
	for i, a := range batch {
		if i > 0 && s.ending.Load() {
			return // the others were not received
		}
		a.peer.rx.Count(a.frame)
		s.fill(m, a)
		m.batched = !a.peer.direct && len(batch) > 1
		done++
		handle(ctx, m)
		if m.IsRequest() {
			_ = m.Refuse("the service did not answer")
		}
		if !m.batched || i == len(batch)-1 {
			continue
		}
		if now := time.Now(); began.IsZero() {
			began = now
		} else if now.Sub(began) > replyDelay {
			began = now
			s.e.lock()
			flushAll(batch[:done])
			s.e.unlock()
		}
	}
}

// handled frees the messages of a batch that were handled, and puts back the others.
func (s *Service) handled(batch []arrival, done int) {
	for i := len(batch) - 1; i >= done; i-- {
		batch[i].peer.rx.Unhold(batch[i].frame)
		s.queue.unpop(batch[i])
	}
	for _, a := range batch[:done] {
		a.peer.lastCount(a.in.channel)
	}
	freeAll(batch[:done])
	flushAll(batch[:done])
	clear(batch)
	if s.busy--; s.closed {
		s.turnAwayAll()
		if s.busy == 0 {
			s.sayClosed(false)
			if s.ended {
				s.forget()
			}
		}
	}
}

// freeAll frees the messages that the application did not release. Of several of one peer, the last
// one has that peer told.
func freeAll(batch []arrival) {
	for i, a := range batch {
		p := a.peer
		if a.frame.Number == a.number {
			p.giveBack(a.frame)
		}
		if i == len(batch)-1 || batch[i+1].peer != p {
			p.settle()
		}
	}
}

// flushAll writes the replies to some messages to the sockets.
func flushAll(batch []arrival) {
	for i, a := range batch {
		if !a.peer.direct && (i == 0 || batch[i-1].peer != a.peer) {
			a.peer.flush()
		}
	}
}
