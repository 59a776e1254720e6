package logwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/views"
)

// How much a member does at a time. Readers that follow a log have places of their own, so that
// they cannot keep out a member that catches up.
const (
	maxVisitors  = 128
	maxReaders   = 16
	maxFollowers = 48
)

// ServerConfig describes what a member lets others read.
type ServerConfig struct {
	Cluster string
	Find    func(persist.LogID) *persist.Log // nil if there is none
	List    func() []persist.LogID
	// Partial reports whether a log lacks records that other logs have, so that its end is not the
	// end of the shard's log: the server then gives only records before a version that the log has.
	// Optional.
	Partial func(persist.LogID) bool
	// Settle waits until no version with a time up to t can come any more, and all that there are
	// will stay. Optional: without it, what is asked by time is answered as it is on this disk now.
	Settle func(ctx context.Context, id persist.LogID, t order.Time) error
	// Identity is that of the group whose logs these are. Optional: without it, a process that is
	// of a group takes nothing from here.
	Identity func() (group string, secret views.Secret)
	// Open admits every reader. Otherwise a reader proves the group's secret, or shows a
	// certificate.
	Open   bool
	Reject func(port.Rejection) // optional: told of readers that are not admitted, or broke the rules, or came to a full house
	Times  wire.Times
}

// Server answers readers. Its methods may be called from any goroutine.
type Server struct {
	cfg       ServerConfig
	readers   chan struct{} // places
	followers chan struct{}
	callers   *wire.Callers
}

// NewServer makes a server.
func NewServer(cfg ServerConfig) *Server {
	return &Server{
		cfg: cfg, readers: make(chan struct{}, maxReaders), followers: make(chan struct{}, maxFollowers),
		callers: wire.NewCallers(maxVisitors, maxVisitors/2, 0),
	}
}

// Serve is the port's handler. It owns the connection.
func (s *Server) Serve(conn net.Conn) {
	defer conn.Close()
	err := s.enter(conn)
	if err == nil {
		defer s.callers.Leave(conn)
		err = s.visit(conn)
	}
	if err != nil && s.cfg.Reject != nil && !s.callers.Closing() {
		s.cfg.Reject(port.Rejection{Remote: conn.RemoteAddr().String(), Kind: port.KindLog, Reason: reasonOf(err), Err: err})
	}
}

func reasonOf(err error) port.Reason {
	switch {
	case errors.Is(err, ErrBusy):
		return port.TooMany
	case errors.Is(err, os.ErrDeadlineExceeded):
		return port.TimedOut
	case errors.Is(err, ErrCorrupt):
		return port.Garbage
	case errors.Is(err, ErrNotAdmitted):
		return port.NotMember
	}
	return port.Broken
}

func (s *Server) enter(conn net.Conn) error {
	if there, ok := s.callers.Enter(conn); !ok {
		return fmt.Errorf("%w: %d connections", ErrBusy, there)
	}
	return nil
}

// Close ends all answers and waits for them. The logs may be closed afterwards.
func (s *Server) Close() { s.callers.HangUp() }

// visit greets a reader, and answers one request after the other. It returns an error if the reader
// broke the rules.
func (s *Server) visit(conn net.Conn) error {
	c := wire.New(conn, s.cfg.Times, maxRequestBytes)
	err := s.greet(c)
	if err == nil && !s.callers.Settle(conn) { // it had to make room
		return fmt.Errorf("%w: %d connections", ErrBusy, maxVisitors)
	}
	if refused(err) { // it hears why: closing while it still writes would reset the connection
		c.HangUp(s.cfg.Times.WithDefaults().Dial)
		_, _ = io.CopyN(io.Discard, conn, lingerBytes)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	requests := make(chan *request, 1)
	var hearing sync.WaitGroup
	defer hearing.Wait()
	defer conn.Close()
	hearing.Go(func() {
		defer close(requests)
		cancel(s.hear(c, requests))
	})
	for q := range requests {
		if err := s.answer(ctx, c, q); err != nil {
			conn.Close()
		}
	}
	if err := context.Cause(ctx); errors.Is(err, ErrCorrupt) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// lingerBytes bounds what is read from a reader that was refused.
const lingerBytes = 4 << 10

// hear takes the reader's frames until it hangs up, is silent for too long, or talks out of turn.
func (s *Server) hear(c *wire.Conn, requests chan<- *request) error {
	for {
		q := new(request)
		if err := c.Hear(q); err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		select {
		case requests <- q:
		default:
			return fmt.Errorf("%w: a reader asks again before it has its answers", ErrCorrupt)
		}
	}
}

// place takes one of the places that there are for such a request.
func (s *Server) place(q *request) (leave func(), err error) {
	places := s.readers
	if q.Do == doTail {
		places = s.followers
	}
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, fmt.Errorf("%w: %d", ErrBusy, cap(places))
	}
}

// answer answers one request, pulsing all the while. Its error says that the connection is of no
// use any more.
func (s *Server) answer(ctx context.Context, out *wire.Conn, q *request) error {
	stop := out.Pulses()
	e, err := s.serve(ctx, out, q)
	stop()
	if broken := out.Broken(); broken != nil {
		return broken
	}
	if err != nil {
		e.Fail(codeOf(err), err)
	}
	return out.SayAs(wire.End, e)
}

// serve does what a request asks for.
func (s *Server) serve(ctx context.Context, out *wire.Conn, q *request) (e wire.Ending, err error) {
	leave, err := s.place(q)
	if err != nil {
		return e, err
	}
	defer leave()
	if q.Do == doList {
		return s.list(out)
	}
	log := s.cfg.Find(q.id())
	if log == nil {
		return e, fmt.Errorf("%w: %v", ErrNoLog, q.id())
	}
	a := &answerer{s: s, ctx: ctx, out: out, log: log, q: q}
	switch q.Do {
	case doInfo:
		return a.info()
	case doReady:
		return a.ready()
	case doProbe:
		return a.probe()
	case doGet, doAt, doNth:
		return a.one()
	case doRange, doBetween, doTail:
		return a.records()
	case doSnapshot:
		return a.snapshot()
	}
	return e, fmt.Errorf("%w: %q", errRefused, q.Do)
}

func (s *Server) list(out *wire.Conn) (e wire.Ending, err error) {
	for _, id := range s.cfg.List() {
		if log := s.cfg.Find(id); log != nil {
			if err := out.SayAs(kindInfo, infoOf(log.Info())); err != nil {
				return e, err
			}
			e.Count++
		}
	}
	return e, nil
}
