package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/trust"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// How much a source does at a time. Who comes in vain comes again.
const (
	maxStreams  = 4
	maxVisitors = 128
)

// errBusy says that a source does enough already.
var errBusy = errors.New("too many at a time")

// SourceConfig describes what a member gives to others.
type SourceConfig struct {
	Self   order.NodeID
	ID     *trust.Identity        // of this process
	Keeps  func(name string) bool // whether the application makes snapshots of a subgroup
	Reject func(port.Rejection)   // told of strangers, and of who broke the rules
	Given  func(Given)
	Times  Times
}

// Given tells of a state that was given to a fresh member, or of the attempt.
type Given struct {
	Subgroup string
	Shard    int
	To       order.NodeID
	Bytes    uint64
	Took     time.Duration
	Err      error // why it did not get all of it; nil if it did
}

// Source gives the snapshots of one member to others. Its methods may be called from any goroutine.
type Source struct {
	cfg     SourceConfig
	offers  *offers
	streams chan struct{}
	callers port.Callers
}

// NewSource makes a source that has nothing yet.
func NewSource(cfg SourceConfig) *Source {
	cfg.Times = cfg.Times.withDefaults()
	return &Source{
		cfg: cfg, offers: newOffers(cfg.Self, cfg.ID, cfg.Keeps),
		streams: make(chan struct{}, maxStreams),
	}
}

// Installed takes a view that was installed here, before anything is delivered in it.
func (s *Source) Installed(v *views.View) { s.offers.installed(v) }

// Wanted reports whether a snapshot of a subgroup at the boundary of a view has to be taken.
func (s *Source) Wanted(view order.ViewID, subgroup int) bool { return s.offers.wanted(view, subgroup) }

// Put keeps a snapshot for those who wait for it. Its function is called once for each stream, maybe several at a time.
func (s *Source) Put(view order.ViewID, subgroup int, write func(io.Writer) error) {
	s.offers.put(view, subgroup, write)
}

// Withhold says that there will be no snapshot of a subgroup at the boundary of a view: this member does not have that state any
// more. Those who wait for it are refused, and ask other members.
func (s *Source) Withhold(view order.ViewID, subgroup int) { s.offers.withhold(view, subgroup) }

// Waiting returns the subgroups of which this member keeps a snapshot, or will, for fresh members that wait for it.
func (s *Source) Waiting() (subgroups []int) { return s.offers.awaited() }

// Serve is the port's handler. It owns the connection.
func (s *Source) Serve(conn net.Conn) {
	defer conn.Close()
	if !s.callers.Admit(conn, maxVisitors) {
		return
	}
	defer s.callers.Leave(conn)
	if err := s.serve(conn); err != nil && !s.callers.Closing() {
		s.cfg.Reject(port.RejectedState(conn.RemoteAddr().String(), err))
	}
}

// Close ends all streams and waits for the application's functions in them.
func (s *Source) Close() {
	s.callers.HangUp()
	s.offers.clear()
}

// serve returns an error if whoever called should not have.
func (s *Source) serve(conn net.Conn) error {
	c, q := challenge{trust.NewNonce()}, request{}
	if err := say(conn, s.cfg.Times.Greet, c); err != nil {
		return err
	}
	if err := hear(conn, s.cfg.Times.Greet, &q); err != nil {
		return err
	}
	if !s.callers.Settle(conn) {
		return errBusy
	}
	f, w, k, err := s.offers.ask(conn, c, q)
	caller := caller{conn, q, k}
	switch {
	case errors.Is(err, ErrLater):
		s.answer(caller, answer{Later: err.Error()})
	case errors.Is(err, errStranger):
		s.answer(caller, answer{Refused: errStranger.Error()})
		return err
	case err != nil:
		s.answer(caller, answer{Refused: err.Error()})
	case q.Done:
		s.offers.done(f, w)
		s.answer(caller, answer{})
	default:
		s.give(caller, f, w)
	}
	return nil
}

// caller is a connection, and what was asked on it.
type caller struct {
	net.Conn
	request request
	key     *trust.Key // that it shares with this member; nil: its view is not known here
}

// answer is best effort: who does not hear it asks again.
func (s *Source) answer(c caller, a answer) error {
	if c.key != nil {
		a.sign(*c.key, c.request)
	}
	return say(c, s.cfg.Times.Greet, a)
}

// give streams a snapshot, unless enough is streamed already. It ends when the member waits no more.
func (s *Source) give(c caller, f *offer, w *shard.Wait) {
	ctx, cut := s.offers.stream(w)
	defer cut()
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		s.answer(c, answer{Later: fmt.Sprintf("%v: %d streams", errBusy, maxStreams)})
		return
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	start := time.Now()
	out := newStream(c, s.cfg.Times.Stall)
	err := s.answer(c, answer{})
	if err == nil {
		err = s.write(out, f.State)
	}
	s.cfg.Given(Given{f.Subgroup().Name, f.Subgroup().Shard, w.Member.ID, out.total, time.Since(start), err})
}

func (s *Source) write(out *stream, write func(io.Writer) error) error {
	var pulse sync.WaitGroup
	stop := make(chan struct{})
	pulse.Go(func() { out.pulse(s.cfg.Times.Pulse, stop) })
	err := write(out)
	close(stop)
	pulse.Wait()
	if out.err != nil {
		return out.err // whatever the application made of it
	}
	if err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	return out.end()
}
