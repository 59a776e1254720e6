package ripc

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/stream"
)

// Defaults of ListenConfig.
const (
	DefaultBacklog    = 256
	DefaultMaxStreams = 1024
)

// ListenConfig has the limits of a listener. The zero value is the defaults.
type ListenConfig struct {
	// Backlog is how many streams may wait to be accepted; further ones are refused.
	Backlog int
	// MaxStreams is how many streams one service of a peer may have open. Each may have up to
	// Config.StreamBytes that are not read.
	MaxStreams int
}

// Listener accepts the streams that others open to a service. It is a [net.Listener].
type Listener struct {
	service *Service
	cfg     ListenConfig

	// Under the endpoint's mu.
	backlog []*Stream
	waiting []*waiter
	closed  bool
}

// Listen accepts streams to a service, which is addressed by its id. Messages and calls to the
// service are received concurrently with them. A service has one listener: a second one takes its
// place, and the first one is closed.
//
//	http.Serve(ripc.Listen(service), handler)
func Listen(s *Service) *Listener { return ListenConfig{}.Listen(s) }

// Listen is the function Listen with limits.
func (cfg ListenConfig) Listen(s *Service) *Listener {
	if cfg.Backlog <= 0 {
		cfg.Backlog = DefaultBacklog
	}
	if cfg.MaxStreams <= 0 {
		cfg.MaxStreams = DefaultMaxStreams
	}
	s.e.lock()
	defer s.e.unlock()
	l := &Listener{service: s, cfg: cfg}
	if s.closed || s.e.closed {
		l.closed = true
		return l
	}
	t := s.streaming()
	if t.listener != nil {
		t.listener.close()
	}
	t.listener = l
	return l
}

// Accept waits for a stream. It is a *Stream.
func (l *Listener) Accept() (net.Conn, error) {
	e := l.service.e
	e.lock()
	defer e.unlock()
	for !l.closed {
		if len(l.backlog) > 0 {
			c := l.backlog[0]
			l.backlog = append(l.backlog[:0], l.backlog[1:]...)
			return c, nil
		}
		if err := l.wait(); err != nil {
			break
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "ripc", Addr: l.Addr(), Err: net.ErrClosed}
}

// wait waits for a stream. It does not poll if a goroutine that reads or writes could.
func (l *Listener) wait() error {
	e := l.service.e
	w := newWaiter()
	w.goal, w.seat.Yields = goalStream, true
	w.check = func() bool { return l.closed || len(l.backlog) > 0 }
	l.waiting = append(l.waiting, w)
	err := e.wait(context.Background(), w)
	for i, o := range l.waiting {
		if o == w {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			break
		}
	}
	return err
}

// push takes in a stream that was opened.
func (l *Listener) push(c *Stream) {
	l.backlog = append(l.backlog, c)
	for _, w := range l.waiting {
		l.service.e.rouse(w)
	}
}

// Close ends the listener. Streams that were not accepted yet are reset; the others stay.
func (l *Listener) Close() error {
	l.service.e.lock()
	defer l.service.e.unlock()
	l.close()
	return nil
}

func (l *Listener) close() {
	if l.closed {
		return
	}
	l.closed = true
	if t := l.service.streams; t.listener == l {
		t.listener = nil
	}
	for _, c := range l.backlog {
		c.end("the service does not accept streams any more")
	}
	l.backlog = nil
	for _, w := range l.waiting {
		l.service.e.rouse(w)
	}
}

// Addr is the id of the service.
func (l *Listener) Addr() net.Addr { return Addr(l.service.id) }

// DialContext opens a stream to the service that addr names, without its port if it has one.
// Network is not used. It is what http.Transport and others take to make connections.
func (s *Service) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	c, err := s.Dial(ctx, ID(addr))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// maxDials is how often a stream is opened again to a service that moved meanwhile.
const maxDials = 8

// Dial opens a stream to a service, wherever it is.
func (s *Service) Dial(ctx context.Context, to ID) (c *Stream, err error) {
	return s.DialRemote(ctx, s.To(to))
}

// DialRemote opens a stream to a service. That of Message.Sender is in the process that sent the
// message.
func (s *Service) DialRemote(ctx context.Context, to *Remote) (c *Stream, err error) {
	for range maxDials {
		c, err = s.dial(ctx, to)
		if to.peer != nil || !errors.Is(err, ErrPeerGone) {
			break
		}
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "ripc", Source: Addr(s.id), Addr: Addr(to.id), Err: err}
	}
	return c, nil
}

// streamsTo returns what has the streams of a service, and the remote by which they go to another
// one.
func (s *Service) streamsTo(ctx context.Context, to *Remote) (*streams, *Remote, error) {
	e := s.e
	if to.peer == nil {
		if err := to.Connect(ctx); err != nil {
			return nil, nil, err
		}
		route := to.route.Load()
		if route == nil {
			return nil, nil, fmt.Errorf("%w: %s", ErrPeerGone, to.id)
		}
		e.lock()
		to = route.peer.pinned(s, to.id)
	} else {
		e.lock()
	}
	defer e.unlock()
	if s.ended || e.closed {
		return nil, nil, ErrClosed
	}
	return s.streaming(), to.streamed(), nil
}

func (s *Service) dial(ctx context.Context, to *Remote) (*Stream, error) {
	e := s.e
	t, r, err := s.streamsTo(ctx, to)
	if err != nil {
		return nil, err
	}
	if err := r.Connect(ctx); err != nil {
		return nil, err
	}
	e.lock()
	defer e.unlock()
	route := r.route.Load()
	if route == nil || s.ended {
		return nil, fmt.Errorf("%w: %s", ErrPeerGone, to.id)
	}
	if err := route.peer.chargeStream(); err != nil {
		return nil, err
	}
	core, limit := t.dialed.Open(nil)
	c := newStream(s, core, t.dialed)
	c.remote, c.charged = to.id, true
	c.attach(route.peer, r)
	var b [stream.LimitBytes]byte
	stream.PutLimit(&b, limit)
	route.peer.say(pair.Message, route.channel, core.ID(stream.Open), b[:])
	return c, c.opened(ctx)
}

// opened waits until the other side accepts the stream.
func (c *Stream) opened(ctx context.Context) error {
	w := c.e.waiter()
	defer c.e.giveBack(w)
	w.goal = goalStream
	w.check = func() bool { return c.core.Accepted() || c.core.Broken() }
	c.reader = w
	err := c.e.wait(ctx, w)
	c.reader = nil
	if err == nil {
		if err = c.lost(); errors.Is(err, ErrReset) {
			why, _ := c.core.WasReset()
			err = fmt.Errorf("%w: %s", ErrRefused, why)
		}
	}
	if err != nil && !c.closed {
		c.end("it is not wanted any more")
	}
	return err
}
