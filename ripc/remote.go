package ripc

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// Remote is the address of a service, wherever it is, as one service of this endpoint uses it. It
// is resolved when something is sent, and again when the service has moved.
type Remote struct {
	service *Service // that sends
	id      ID
	notices bool          // for notices only
	pinned  Place         // the only place at which it is looked for, if it is one
	news    wait.Bell     // has room for the word that the service has moved
	carries *carried      // streams only, which are these
	turn    chan struct{} // has room for the goroutine that connects
	route   atomic.Pointer[route]

	search search

	// A service that is known by what it sent: where, and as what.
	peer   *peer
	number uint32

	// Under the endpoint's mu.
	named   bool       // by Service.To
	listed  bool       // the service knows it
	mute    bool       // the service that is known by what it sent has no channel to this one any more: it was closed
	opening *waiter    // that waits for the answer to an Open
	gone    *GoneError // for the next call that sends
	left    *route     // to a place that the service has left, and that may still receive
	board   *Remote    // the address for notices
	streams *Remote    // the address for streams, of a service in one process
}

// search is what the goroutine that connects knows of earlier attempts.
type search struct {
	reached  bool      // the service was connected once
	expected bool      // the resolver knew a place for it
	missed   time.Time // when the service was first not found; zero: it is found
}

// route is a channel to a service. It does not change.
type route struct {
	peer    *peer
	channel int
	max     int   // bytes of a message
	at      Place // where the service is
	over    bool  // the channel is not the route's any more; under the mu of the peer's sending half
}

func newRemote(s *Service, id ID) *Remote {
	return &Remote{service: s, id: id, turn: make(chan struct{}, 1), news: wait.NewBell()}
}

// ID is the id of the service.
func (r *Remote) ID() ID { return r.id }

// Connect finds the service and connects to it, if that is not done. Sending does so by itself.
func (r *Remote) Connect(ctx context.Context) error {
	if r.route.Load() != nil {
		return nil
	}
	return r.connect(ctx)
}

// MaxMessageBytes is the size, in bytes, of the largest message that can be sent to where the
// service is, or 0 before Connect.
func (r *Remote) MaxMessageBytes() int {
	if route := r.route.Load(); route != nil {
		return route.max
	}
	return 0
}

// Transport is the name of the transport to where the service is, "shm" or "tcp", or "" before
// Connect.
func (r *Remote) Transport() string {
	if route := r.route.Load(); route != nil {
		return route.peer.line.link.Name()
	}
	return ""
}

// send sends a frame and waits for buffer space.
func (r *Remote) send(ctx context.Context, k pair.Kind, id uint64, parts [][]byte) error {
	for {
		to := r.route.Load()
		if to == nil {
			if err := r.connect(ctx); err != nil {
				return err
			}
			continue
		}
		status, over := pair.NoRoom, false
		n := size(parts)
		if n > to.max {
			return tooLarge(r.id, n, to.max)
		}
		if status, over = to.peer.put(to, k, id, parts); status == pair.Accepted {
			return nil
		}
		if !over && to.peer.send.roomSoon(k, to.channel, n) {
			continue
		}
		e := r.service.e
		e.lock()
		var accepted bool
		var err error
		if !over && !to.peer.ended() && !to.over {
			accepted, err = to.peer.putOrWait(ctx, to, k, id, parts, nil)
		}
		if !accepted && err == nil {
			err = r.goneLocked()
		}
		e.unlock()
		if accepted || err != nil {
			return err
		}
	}
}

// takeGone returns what the sender has to be told, once.
func (r *Remote) takeGone() error {
	r.service.e.lock()
	defer r.service.e.unlock()
	return r.goneLocked()
}

func (r *Remote) goneLocked() error {
	if gone := r.gone; gone != nil {
		r.gone = nil
		return gone
	}
	return nil
}

// lost notes that the route has ended. If all messages were received, no error is kept for the
// senders. The caller holds the mu.
func (r *Remote) lost(p *peer, channel int, why error) {
	if left := r.left; left != nil && left.peer == p && left.channel == channel {
		r.leave()
		return
	}
	to := r.route.Load()
	if to == nil || to.peer != p || to.channel != channel {
		return
	}
	r.route.Store(nil)
	to.end()
	if r.carries != nil {
		r.carries.lose(why)
		return
	}
	if n := p.unreceived(channel); n > 0 {
		r.miss(n, p.direct || p.send.tx.IsShut(channel), why)
	}
}

// miss notes messages that were not received, for the next call that sends. Exact says that no
// other ones may have been received.
func (r *Remote) miss(n int, exact bool, why error) {
	if r.gone == nil {
		r.gone = &GoneError{Service: r.id, Exact: true}
	}
	r.gone.Unreceived += n
	r.gone.Exact = r.gone.Exact && exact
	r.gone.Cause = why
}

// hasOpened checks that a channel is of use, which was opened if err is nil, and otherwise gives it
// up.
func (r *Remote) hasOpened(p *peer, channel int, err error) error {
	if err == nil && (p.ended() || p.opened.out[channel] != r) { // since it was opened
		err = &GoneError{Exact: true, Cause: firstOf(p.why, errServiceClosed)}
	}
	if err == nil && r.service.ended {
		p.leave(channel)
		err = fmt.Errorf("ripc: %s: %w", r.service.id, ErrClosed)
	}
	if err == nil {
		return nil
	}
	r.opening = nil
	if p.opened.out[channel] == r {
		p.opened.out[channel] = &p.e.nowhere // the answer is for no goroutine
	}
	if gone, ok := err.(*GoneError); ok {
		gone.Service, gone.Unreceived = r.id, 0
	}
	return err
}

// open asks a peer, which is at a place, for a channel to the service.
func (r *Remote) open(ctx context.Context, p *peer, at Place) error {
	e := r.service.e
	e.lock()
	defer e.unlock()
	if p.ended() || e.closed || r.service.closed {
		return &GoneError{Service: r.id, Exact: true, Cause: firstOf(p.why, ErrClosed)}
	}
	channel, err := p.takeChannel(ctx)
	if err != nil {
		return fmt.Errorf("ripc: %s: %w", r.id, err)
	}
	p.opened.out[channel] = r
	o := opening{From: r.service.id, Number: r.service.number, To: r.id, Back: r.number, Notices: r.notices, Streams: r.carries != nil}
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	w := newWaiter()
	w.goal, w.peer, w.channel = goalAnswer, p, channel
	r.opening = w
	id := p.calls.Begin(w) // so that the end of the peer is told
	p.say(pair.Open, channel, 0, text)
	err = e.wait(ctx, w)
	p.calls.End(id)
	if err == nil || w.answered {
		err = w.err
	}
	r.search.reached = r.search.reached || err == nil
	if err = r.hasOpened(p, channel, err); err != nil {
		return err
	}
	r.route.Store(&route{peer: p, channel: channel, max: p.send.tx.MaxMessage(), at: at})
	if r.named && !r.listed {
		r.service.remotes.list(r)
	}
	if at != (Place{}) && r.pinned == (Place{}) {
		if before, moved := e.dialer.saw(r.id, at); moved {
			e.emit(ServiceMoved{r.id, before, at})
		}
	}
	return nil
}

// unreceived returns how many short messages of a channel were not received. Requests are not
// counted: their callers learn of each, or gave it up. Long messages are counted one by one, when
// they end: they outlast their channel. The caller holds the endpoint's mu.
func (p *peer) unreceived(channel int) int {
	p.send.lock()
	defer p.send.unlock()
	n := p.send.tx.Unreceived(channel)
	p.calls.All(func(_ uint64, w *waiter) {
		if w.goal == goalAnswer && w.channel == channel && !w.answered && !p.send.tx.WasReceived(channel, w.ordinal) {
			n--
		}
	})
	return n
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
