package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/shard"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// How much a source does at a time. A member that comes in vain comes again.
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
	Reject func(port.Rejection)   // told of strangers, and of callers that broke the rules
	Given  func(Given)
	Taken  func() // a fresh member has a state and waits no more
	Times  wire.Times
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
	callers *wire.Callers
}

// NewSource makes a source that has nothing yet.
func NewSource(cfg SourceConfig) *Source {
	return &Source{
		cfg: cfg, offers: newOffers(cfg.Self, cfg.ID, cfg.Keeps),
		streams: make(chan struct{}, maxStreams), callers: wire.NewCallers(0, maxVisitors, 0),
	}
}

// Installed takes a view that was installed here, before anything is delivered in it.
func (s *Source) Installed(v *views.View) { s.offers.installed(v) }

// Wanted reports whether a snapshot of a subgroup at the boundary of a view has to be taken.
func (s *Source) Wanted(view order.ViewID, subgroup int) bool { return s.offers.wanted(view, subgroup) }

// Put keeps a snapshot for the members that wait for it. Its function is called once for each
// stream, maybe several at a time.
func (s *Source) Put(view order.ViewID, subgroup int, write func(io.Writer) error) {
	s.offers.put(view, subgroup, write)
}

// Withhold says that there will be no snapshot of a subgroup at the boundary of a view: this member
// does not have that state any more. Members that wait for it are refused, and ask other members.
func (s *Source) Withhold(view order.ViewID, subgroup int) { s.offers.withhold(view, subgroup) }

// Waiting returns the subgroups of which this member keeps a snapshot, or will, for fresh members
// that wait for it.
func (s *Source) Waiting() (subgroups []int) { return s.offers.awaited() }

// Depended reports whether fresh members depend on this member for a state, as far as the view in
// force says.
func (s *Source) Depended(v *views.View) bool { return s.offers.depended(v) }

// Serve is the port's handler. It owns the connection.
func (s *Source) Serve(c net.Conn) {
	defer c.Close()
	if _, ok := s.callers.Enter(c); !ok {
		return
	}
	defer s.callers.Leave(c)
	if err := s.serve(wire.New(c, s.cfg.Times, maxGreetingBytes)); err != nil && !s.callers.Closing() {
		s.cfg.Reject(port.NewRejection(port.KindState, c.RemoteAddr().String(), err))
	}
}

// Close ends all streams and waits for the application's functions in them.
func (s *Source) Close() {
	s.callers.HangUp()
	s.offers.clear()
}

// serve returns an error if its caller should not have come.
func (s *Source) serve(c *wire.Conn) error {
	hello, q := challenge{trust.NewNonce()}, request{}
	c.Greet()
	if err := c.Say(hello); err != nil {
		return err
	}
	if err := c.Hear(&q); err != nil {
		return err
	}
	if !s.callers.Settle(c.Conn) {
		return errBusy
	}
	c.Greeted()
	f, w, k, err := s.offers.ask(c.Conn, hello, q)
	caller := caller{c, q, k}
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
		s.cfg.Taken()
		s.answer(caller, answer{})
	default:
		s.give(caller, f, w)
	}
	return nil
}

// caller is a conversation, and what was asked in it.
type caller struct {
	*wire.Conn
	request request
	key     *trust.Key // that it shares with this member; nil: its view is not known here
}

// answer is best effort: a member that does not hear it asks again.
func (s *Source) answer(c caller, a answer) error {
	if c.key != nil {
		a.sign(*c.key, c.request)
	}
	return c.Say(a)
}

// give streams a snapshot, unless enough is streamed already. It ends when the member waits no
// more.
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
	out := c.NewWriter(frameBytes)
	err := s.answer(c, answer{})
	if err == nil {
		err = s.write(c, out, f.State)
	}
	s.cfg.Given(Given{f.Subgroup().Name, f.Subgroup().Shard, w.Member.ID, out.Total(), time.Since(start), err})
}

// write streams a snapshot, with pulses for as long as its application takes.
func (s *Source) write(c caller, out *wire.Writer, write func(io.Writer) error) error {
	stop := out.Pulses()
	err := write(out)
	stop()
	if broken := c.Broken(); broken != nil {
		return broken // whatever the application made of it
	}
	if err != nil {
		return fmt.Errorf("the snapshot: %w", err)
	}
	return out.Close()
}
