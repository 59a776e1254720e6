package ripc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/squall-go/squall/internal/wait"
)

// A service moves when it is closed at one place and registered at another one. This file is what
// its senders do meanwhile.

// Pauses between two attempts to find a service.
const (
	minSearchPause = time.Millisecond
	maxSearchPause = 50 * time.Millisecond
)

// errServiceClosed is why a channel ended whose service was closed.
var errServiceClosed = fmt.Errorf("%w: the service", ErrClosed)

// shut takes in that the peer closed a channel after it received so many messages. Requests on it
// that were not received never will be: their callers send them again. The caller holds the
// endpoint's mu.
func (p *peer) shut(channel int, received uint64, to *Remote) error {
	if err := p.send.shut(channel, received); err != nil {
		return err
	}
	to.lost(p, channel, errServiceClosed)
	p.calls.All(func(id uint64, w *waiter) {
		if w.channel == channel && !w.answered && !p.send.tx.WasReceived(channel, w.ordinal) {
			p.calls.End(id)
			w.answered, w.err = true, &GoneError{Unreceived: 1, Exact: true, Cause: errServiceClosed}
			p.e.rouse(w)
		}
	})
	p.wakeSenders() // those that wait there
	return nil
}

// connect finds the service and opens a channel to it. Of several goroutines one does so. A service
// that was reached before, or that the resolver still expects at a place, may be moving: it is
// looked for until Config.MoveTimeout has passed since it was missed, by all that send to it
// together. It ends as this service is closed, too.
func (r *Remote) connect(ctx context.Context) error {
	ctx, stop := r.service.whileOpen(ctx)
	defer stop()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e := r.service.e
	pauses := wait.Backoff{First: minSearchPause, Longest: maxSearchPause}
	for {
		if r.route.Load() != nil {
			return nil
		}
		if err := r.drain(ctx); err != nil {
			return err
		}
		if err := r.takeGone(); err != nil {
			return err
		}
		err := r.find(ctx)
		if err != nil && r.service.open.Err() != nil {
			return context.Cause(r.service.open)
		}
		if err == nil || !r.mayCome(err) {
			return err
		}
		if r.search.missed.IsZero() {
			r.search.missed = time.Now()
		}
		pause := pauses.Next()
		if time.Since(r.search.missed)+pause > e.cfg.MoveTimeout {
			return err
		}
		if cause := r.pause(ctx, pause); cause != nil {
			return fmt.Errorf("%w, waiting for a service that is nowhere: %w", cause, err)
		}
	}
}

// pause waits before the next attempt, and returns why there is none.
func (r *Remote) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.news:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.service.e.ctx.Done():
		return ErrClosed
	}
	return nil
}

// find makes one attempt to connect, at the places of the service, the nearest first.
func (r *Remote) find(ctx context.Context) error {
	if r.peer != nil {
		return r.open(ctx, r.peer, Place{})
	}
	e := r.service.e
	places, err := r.placesOf(ctx)
	if err != nil {
		return fmt.Errorf("ripc: %s: %w", r.id, err)
	}
	for _, at := range places {
		var p *peer
		if p, err = e.peerAt(ctx, at); err == nil {
			err = r.open(ctx, p, at)
			if gone, ok := errors.AsType[*GoneError](err); ok { // while it was looked for: nothing was sent to it
				err = fmt.Errorf("ripc: %s: %w: %w", r.id, ErrNoService, gone.Cause)
			}
		} else {
			err = fmt.Errorf("ripc: %s: %w", r.id, err)
		}
		if err == nil {
			r.search.missed = time.Time{}
			return nil
		}
		if !isElsewhere(err) {
			return err
		}
		if r.pinned == (Place{}) && e.forgetPlace(r.id, at) {
			r.search.expected = true
		}
	}
	return err
}

// isElsewhere reports whether an error says that a service is not at the place where it was looked
// for.
func isElsewhere(err error) bool {
	return errors.Is(err, ErrNoService) || errors.Is(err, ErrUnreachable) || errors.Is(err, ErrPeerGone)
}

// mayCome reports whether a service that was not found may be moving.
func (r *Remote) mayCome(err error) bool {
	e := r.service.e
	e.lock()
	defer e.unlock()
	return r.peer == nil && r.pinned == (Place{}) && (r.search.reached || r.search.expected) && isElsewhere(err) && !e.closing && !r.service.closed
}

// sayClosed tells all that send to the service, or all that open streams to it, that it receives
// nothing more. What it received is counted: no goroutine handles a message of it any more that is
// not. The caller holds the mu.
func (s *Service) sayClosed(streams bool) {
	s.closeLong()
	for _, p := range s.e.peers {
		for channel, in := range p.served.in {
			if in != nil && in.service == s && (in.callers != nil) == streams {
				p.stopServing(channel)
			}
		}
	}
}

// turnAwayAll frees the messages that were not received.
func (s *Service) turnAwayAll() {
	for s.queue.len() > 0 {
		a := s.queue.pop()
		a.turnAway()
	}
	for _, b := range s.notices.boards {
		for f := b.in.board.Take(); f != nil; f = b.in.board.Take() {
			arrival{peer: b.peer, frame: f}.turnAway()
		}
	}
	s.notices.boards = nil
}

// turnAway frees what arrived and is not received.
func (a arrival) turnAway() {
	a.peer.life.GiveBack()
	a.peer.turnAway(a.frame)
	a.peer.disposeIfOver()
}
