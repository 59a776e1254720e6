// Package join forms the first view of a group: processes that know an address or two agree on who is in, and start
// together. Membership is fixed by the founder; there is no vote here, because there is no view yet that could be split.
//
// Life of the first view: asked (a process wants in) → held (the founder keeps its place) → proposed (all Expect are there,
// everybody gets the View) → ready (a member's links stand) → installed (all are ready).
//
//	joiner                       founder
//	request        ───────▶      refuse | formed | later | redirect (from one that is not the founder): the end
//	               ◀───────      wait          its place is held
//	               ◀───────      view          all Expect asked
//	ready | abort  ───────▶
//	               ◀───────      install | abort: the end
//
// Invariants:
//
//	J1  the founder has rank 0, the others are ranked in the order in which they asked
//	J2  a place is lost with its connection until the View is proposed, and never changes hands afterwards
//	J3  install is said only after every member said ready; abort is never said after install
//	J4  a failure between proposal and install ends the attempt for everybody, and names the node that failed
//	J5  a View is used only if it is valid, has this process in it and its subgroups as declared here
//
// What cannot be had: a joiner whose connection breaks after it said ready does not know whether the view was installed. It
// gets an error, and the others, if they did install, find a member that does not move.
//
// Roll (roll.go) decides and is pure; founder.go and joiner.go own the connections.
package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/views"
)

var (
	// ErrRefused says that the founder will not have this process, whenever it asks. The text names the reason.
	ErrRefused = errors.New("refused")
	// ErrAlreadyFormed is the refusal of a process that came after the first view was installed.
	ErrAlreadyFormed = errors.New("the first view is installed")
	// ErrAborted says that the view was proposed and then given up. The text names the node that failed and why.
	ErrAborted = errors.New("the first view was aborted")
	// ErrBadView says that the founder proposed a View that this process cannot be a member of.
	ErrBadView = errors.New("unusable view")
	// ErrTooManyRedirects says that processes sent us to each other instead of to the founder.
	ErrTooManyRedirects = errors.New("too many redirects")
)

// Bounds on what other processes can cost.
const (
	// silence is how long a peer may take where nothing but itself can delay it: the request, the first answer, a write.
	silence = 5 * time.Second
	// requestsPerMember times Expect is the number of conversations a process has at a time.
	requestsPerMember = 4
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 8
	// maxTextBytes bounds a reason that is sent, so that no peer can make the next one's message too long.
	maxTextBytes = 2048
	// maxNameBytes bounds each string of a member's record.
	maxNameBytes = 256
)

// MaxClusterBytes bounds the name of a cluster.
const MaxClusterBytes = maxNameBytes

// Config is what a process knows before there is a view.
type Config struct {
	// Cluster keeps groups apart that share machines.
	Cluster string
	// Self is this process. An empty Addr becomes the port's.
	Self views.Member
	// Join are the addresses to ask, the founder's first. Empty, or this process first: this process is the founder, even if
	// it learns only by asking that the first address leads to itself.
	Join []string
	// Expect is the number of members of the first view, this one included.
	Expect int
	// Declarations are the subgroups. They must be the same everywhere.
	Declarations []views.Declaration
	// Port takes the control connections of this process from now on.
	Port *port.Port
	// TLS is used to dial; nil is plain.
	TLS *tls.Config
	// OnEvent is told what happens, one event at a time. It must neither block nor call the Session.
	OnEvent func(Event)

	silence time.Duration // tests shorten it
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("join: "+format, args...)) }
	if c.Expect < 1 || c.Expect > views.MaxMembers {
		fault("expect %d members (1 to %d)", c.Expect, views.MaxMembers)
	}
	if c.Port == nil {
		fault("no port")
	} else if c.Self.Addr != "" && c.Self.Addr != c.Port.Addr() {
		fault("this process is %s, but its port advertises %s", c.Self.Addr, c.Port.Addr())
	}
	if len(c.Cluster) > MaxClusterBytes {
		fault("cluster name of %d bytes (at most %d)", len(c.Cluster), MaxClusterBytes)
	}
	for _, d := range c.Declarations {
		if err := views.CheckSizes(d.RingBytes, d.Window); err != nil {
			fault("subgroup %q: %w", d.Name, err)
		}
	}
	for _, addr := range c.Join {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			fault("join %q: %w", addr, err)
		}
	}
	return errors.Join(errs...)
}

// founds reports whether this process is known to be the founder. One that listens on all addresses, or is reached by a name
// that it does not advertise, finds out by asking (errItself).
func (c Config) founds() bool { return len(c.Join) == 0 || c.Join[0] == c.Self.Addr }

// Form takes part in forming the first view and returns once the View is known: to the founder when Expect members have
// asked, to the others when the founder's View has arrived. The process then connects its links and calls Ready, or Abort.
//
// The port's control connections belong to this package from the call on: after success they are answered until the port
// closes, after an error no more. Errors wrap ErrRefused (final), ErrAlreadyFormed, ErrBadView, the context's cause together
// with the last failure of each address, or, for a founder, ErrAborted if a member failed at once, and what
// views.Place says of declarations that no members can meet.
func Form(ctx context.Context, c Config) (*Session, error) {
	if c.Port != nil && c.Self.Addr == "" {
		c.Self.Addr = c.Port.Addr()
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.silence == 0 {
		c.silence = silence
	}
	if c.founds() {
		return found(ctx, c)
	}
	s, err := joinFounder(ctx, c)
	if errors.Is(err, errItself) {
		return found(ctx, c)
	}
	return s, err
}

// Session is one process's part in an attempt, from the View to Install. Ready or Abort must be called, or its connections
// stay open.
type Session struct {
	view *views.View
	part part
	// ctx ends with the reason when the attempt is aborted, over is closed when it is decided either way.
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{}
	err    error // written before over is closed
}

// part is what founder and joiner do differently.
type part interface {
	// ready says that this process's links stand.
	ready()
	// abort says that they do not; it has no effect once the attempt is over.
	abort(error)
	// flush waits, no longer than a peer's silence is borne, until the last messages have left.
	flush()
}

func newSession(p part) *Session {
	s := &Session{part: p, over: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// finish decides the session. The caller makes sure that it is called once.
func (s *Session) finish(err error) {
	s.err = err
	if err != nil {
		s.cancel(err)
	}
	close(s.over)
}

// View is the first view. It is not installed before Ready has returned nil.
func (s *Session) View() *views.View { return s.view }

// Context ends, with the reason as its cause, when the attempt is aborted; so links can be connected under it. It does not
// end on success.
func (s *Session) Context() context.Context { return s.ctx }

// Ready says that this process's links stand, and returns nil when everybody's do. If ctx ends first the attempt is aborted.
// Errors wrap ErrAborted and name the node that failed.
func (s *Session) Ready(ctx context.Context) error {
	s.part.ready()
	select {
	case <-s.over:
	case <-ctx.Done():
		s.part.abort(fmt.Errorf("waiting for the others: %w", context.Cause(ctx)))
		<-s.over
	}
	s.part.flush()
	return s.err
}

// Abort says that this process's links failed; everybody else's Ready fails with the reason. After the attempt was decided
// it does nothing, so it can be deferred.
func (s *Session) Abort(err error) {
	if err == nil {
		err = errors.New("no reason given")
	}
	s.part.abort(err)
	<-s.over
	s.part.flush()
}
