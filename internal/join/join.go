// Package join brings processes into a group: it forms the first view, and admits processes that
// come later.
//
// # The first view
//
// Processes that know an address or two agree on the members, and start together. The first member
// alone decides on the members of the first view; there is no vote, because there is no view yet
// that could be split.
//
// Life of the first view: asked (a process wants in) → held (the first member keeps its place) →
// proposed (all Expect processes have asked, and all get the View) → ready (a member's links stand)
// → installed (all are ready).
//
//	joiner                       first member
//	request        ───────▶      refuse | later | redirect (from one that is not the first member): the end
//	               ◀───────      wait          its place is held
//	               ◀───────      view          all Expect asked
//	ready | abort  ───────▶
//	               ◀───────      install | abort: the end
//
// # Joining a running group
//
// The request is the same, and its sender need not know which of the two it will be. The leader
// takes it; the joiner greets all members before it is proposed, and each of them, and the leader,
// tries to reach it at its address. So a joiner that cannot reach the members, cannot be reached,
// or dies early, costs the group no view change. A member that was greeted gives the joiner its
// word for the leader, which only members can make; the leader proposes no joiner without the
// members' words.
//
// Life of a joiner: applied → held (a process still has its id) → meeting (greeting the members of
// the view) → ready (a candidate for the next view) → admitted (a member has installed a view with
// it).
//
//	joiner                       leader                                    every other member
//	request        ───────▶      refuse | later | redirect: the end
//	               ◀───────      wait          its id is held
//	               ◀───────      meet          these are the members
//	greet          ──────────────────────────────────────────────────────▶
//	               ◀──────────────────────────────────────────────────────  greeted, with its word
//	ready, words   ───────▶      a candidate; meet again, if another view comes first
//	               ◀───────      view          installed: the end          view (the first one to say it is believed)
//
// Every conversation lasts until the joiner is a member, and both sides say still while they have
// nothing else to say. So each knows that the other lives: a joiner that goes away is no candidate
// any more, and one whose conversation with a member has ended when that installs the view is
// reported as failed at once. The leader may die at any point: if the joiner is in a view, the
// others say so; if not, it asks the next leader.
//
// Invariants:
//
//	J1  the first member has rank 0, the others are ranked in the order in which they asked
//	J2  a place is lost with its connection until the View is proposed, and never changes hands
//	    afterwards
//	J3  install is said only after every member said ready; abort is never said after install
//	J4  a failure between proposal and install ends the attempt for all processes, and names the node
//	    that failed
//	J5  a View is used only if it is valid, has this process in it and its subgroups as declared here
//	J6  a candidate has a conversation with the leader, in which it said ready for the view that is
//	    installed there
//	J7  a joiner says ready for a view once every member of it that it was named has greeted it in
//	    that view, and not before
//	J8  no candidate has the id or the address of a member, or of a joiner that asked before it
//	J9  a conversation in which nothing is heard for Silence ends, and there are never more of them
//	    than a bound
//	J10  a candidate has shown the words of all other members that they were greeted in the view and
//	     reached it, and was reached by the leader
//	J11  a request is the process's whose record it has, and a joiner is greeted by the process that
//	     it was named
//	J12  a joiner at whose address processes became members and never showed a heartbeat gets no word
//	     and is no candidate for a time that doubles
//	J13  a joiner is refused without waiting because a member has its id or address only if that
//	     member was reached after the joiner had asked
//	J14  a process that does not prove the secret of the members, if they have one, gets no word, no
//	     place and no view
//	J15  a member gives no word to a process that lacks operations which this member uses, and does
//	     not propose that process
//
// What cannot be had: a process of a first view whose connection breaks after it said ready does
// not know whether the view was installed. It gets an error, and the others, if they did install,
// find a member that does not move.
//
// bootstrap (bootstrap.go), Acceptor (acceptor.go) and Joiner (joiner.go) decide and are pure;
// first_member.go, server.go and dialer.go perform it in conversations of package wire.
package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

var (
	// ErrRefused says that the group will not have this process, whenever it asks. The text names
	// the reason.
	ErrRefused = errors.New("refused")
	// ErrAborted says that the view was proposed and then given up. The text names the node that
	// failed and why.
	ErrAborted = errors.New("the first view was aborted")
	// ErrTooManyRedirects says that processes sent us to each other instead of to the first member
	// or the leader.
	ErrTooManyRedirects = errors.New("too many redirects")
)

// Bounds on what other processes can cost.
const (
	// DefaultSilence is how long a peer may say nothing: before its request, before its first
	// answer, and ever after. A write may take as long.
	DefaultSilence = 5 * time.Second
	// beats is how often within that time a process that has nothing else to send sends still.
	beats = 4
	// requestsPerMember times Expect is the number of conversations a process has at a time while
	// the first view forms.
	requestsPerMember = 4
	// maxRedirects is how many redirects in a row are followed.
	maxRedirects = 8
	// maxTextBytes bounds a reason that is sent, so that no peer can make the next one's message
	// too long.
	maxTextBytes = 2048
)

// MaxClusterBytes bounds the name of a cluster.
const MaxClusterBytes = views.MaxTextBytes

// Config is what a process knows before there is a view.
type Config struct {
	// Cluster keeps groups apart that share machines.
	Cluster string
	// Self is this process. An empty Addr becomes the port's, an Incarnation of 0 a new one.
	Self views.Member
	// Identity is the key pair of this process, whose public key its record has. Nil: a new one.
	Identity *trust.Identity
	// Join are the addresses to ask, the first member's first. Empty, or this process first: this
	// process is the first member, even if it learns only by asking that the first address leads to
	// itself; but if one of the others is a member of a group already, this process was started
	// again, and joins that.
	Join []string
	// Expect is the number of members of the first view, this one included. It means nothing to a
	// group that has formed.
	Expect int
	// Declarations are the subgroups. They must be the same everywhere.
	Declarations []views.Declaration
	// Layouts are the application's own functions, by Declaration.LayoutName. The first member
	// places the first view with them.
	Layouts map[string]views.Layout
	// FailAfter is how long the group takes to notice a member that died.
	FailAfter time.Duration
	// Group and Secret are the identity of the group that this process was a member of, as its
	// directory says. The process does not join or found any other group (ErrOtherHistory). Empty:
	// it was a member of none.
	Group  string
	Secret views.Secret
	// Shared is a secret of all processes that may be members; empty: there is none.
	Shared []byte
	// Room returns why this process, once it is a member, has no room for one more, or nil; nil
	// itself: it has.
	Room func() error
	// Admit returns why a process with these declarations can be no member, or nil; nil itself: it
	// can. It is called with a lock held, and must not block.
	Admit func([]views.Declaration) error
	// Port takes the control connections of this process from now on.
	Port *port.Port
	// TLS is used to dial; nil is plain.
	TLS *tls.Config
	// Reach tries whether a process can be reached at its address. nil: addresses of joiners are
	// not tried.
	Reach func(context.Context, views.Member) error
	// OnEvent is told what happens, one event at a time. It must neither block nor call the
	// Session.
	OnEvent func(Event)

	silence time.Duration // tests shorten it
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	faults := errs.Faults{Prefix: "join: "}
	faults.If(c.Expect < 1 || c.Expect > views.MaxMembers, "expect %d members (1 to %d)", c.Expect, views.MaxMembers)
	if c.Port == nil {
		faults.Add("no port")
	} else if c.Self.Addr != "" && c.Self.Addr != c.Port.Addr() {
		faults.Add("this process is %s, but its port advertises %s", c.Self.Addr, c.Port.Addr())
	}
	faults.If(len(c.Cluster) > MaxClusterBytes,
		"cluster name of %d bytes (at most %d)", len(c.Cluster), MaxClusterBytes)
	for _, d := range c.Declarations {
		if err := views.CheckSizes(d.RingBytes, d.Window); err != nil {
			faults.Add("subgroup %q: %w", d.Name, err)
		}
	}
	for _, addr := range c.Join {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			faults.Add("join %q: %w", addr, err)
		}
	}
	return faults.Err()
}

// isFirst reports whether this process is known to be the first member. One that listens on all
// addresses, or is reached by a name that it does not advertise, finds out by asking (errItself).
func (c Config) isFirst() bool { return len(c.Join) == 0 || c.Join[0] == c.Self.Addr }

func (c Config) applicant(nonce string) JoinerConfig {
	return JoinerConfig{
		Cluster: c.Cluster, Self: c.Self, Declarations: c.Declarations, Join: c.Join, Expect: c.Expect, Nonce: nonce, Group: c.Group, Secret: c.Secret,
		Silence: c.silence, Linger: 2*c.FailAfter + c.silence,
	}
}

// Outcome is what came of asking: a place in a first view that is about to be installed, or in one
// of a running group.
type Outcome struct {
	// View is the view that this process is a member of.
	View *views.View
	// Unmet are the shards that are not provisioned in a first view that this process made, and
	// why.
	Unmet []views.Unmet
	// Session is the attempt to install a first view: the process connects its links and calls
	// Ready, or Abort. It is nil if View is installed at some of the others.
	Session *Session
	// Bootstrapped says that this process bootstrapped the group.
	Bootstrapped bool

	config Config
	joiner *dialer // nil for the first member
}

// Serve takes the requests of later joiners. It is called once: after Session.Ready has
// returned nil, if there is a Session, else at once. A process that joined keeps showing the others
// that it lives until they have installed its view, so the Server must stay open for as long as it
// wants to be a member.
//
// Changed, which may be nil, is told that Candidates is another list now. It is called from the
// Server's goroutines and, within Installed, Lead and Halted, from the caller's; it may call the
// Server.
func (o *Outcome) Serve(changed func()) *Server {
	return openServer(o.config, o.View, o.joiner, changed)
}

// Abort gives up what Join achieved, in place of Serve. If there is a Session, Ready fails at all
// other processes with the reason.
func (o *Outcome) Abort(reason error) {
	if o.Session != nil {
		o.Session.Abort(reason)
	}
	o.config.Port.Handle(port.KindControl, nil)
	if o.joiner != nil {
		o.joiner.stop()
	}
}

// Join makes this process a member: of the first view, if the group is being formed, or of a later
// one. In the first case it returns once the View is known: to the first member when Expect members
// have asked, to the others when the first member's View has arrived. In the second, it returns the
// first view with this process that a member has installed.
//
// The port's control connections belong to this package from the call on: after success they are
// answered until the Server is closed, after an error no more. Errors wrap ErrRefused (final),
// ErrBadView, the context's cause together with the last failure of each address, or, for a
// first member, ErrAborted if a member failed at once, and what views.Place has to say if the
// members that came cannot form the declared view.
func Join(ctx context.Context, c Config) (*Outcome, error) {
	if c.Port != nil && c.Self.Addr == "" {
		c.Self.Addr = c.Port.Addr()
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.silence == 0 {
		c.silence = DefaultSilence
	}
	if c.Self.Incarnation == 0 {
		c.Self.Incarnation = NewIncarnation()
	}
	if err := c.prove(); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	if c.Group == "" && c.isFirst() {
		return bootstrapOrJoin(ctx, c)
	}
	o, err := apply(ctx, c)
	if errors.Is(err, errItself) {
		return bootstrapOrJoin(ctx, c)
	}
	return o, err
}

// bootstrapOrJoin is the part of the first member, which may have been that of a group that goes on
// without it.
func bootstrapOrJoin(ctx context.Context, c Config) (*Outcome, error) {
	if addr, ok := formed(ctx, c); ok {
		c.Join = append([]string{addr}, slices.DeleteFunc(slices.Clone(c.Join), func(other string) bool { return other == addr })...)
		return apply(ctx, c)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go lookAround(waiting, c, cancel)
	s, err := found(waiting, c)
	var works *groupWorks
	if errors.As(err, &works) {
		c.Join = append([]string{works.addr}, slices.DeleteFunc(slices.Clone(c.Join), func(other string) bool { return other == works.addr })...)
		return apply(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return &Outcome{View: s.view, Unmet: s.unmet, Session: s, Bootstrapped: true, config: c}, nil
}

// groupWorks ends the founding of a group: its members came together without waiting for this
// process.
type groupWorks struct{ addr string }

func (e *groupWorks) Error() string { return "a group works already: " + e.addr + " is a member" }

// lookAround asks every now and then whether the others are a group meanwhile: members that have
// come back from their disks do not ask a first member whose own disk is another one now.
func lookAround(ctx context.Context, c Config, found context.CancelCauseFunc) {
	if len(c.Join) == 0 {
		return
	}
	tick := time.NewTicker(inquiry)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if addr, ok := formed(ctx, c); ok {
			found(&groupWorks{addr})
			return
		}
	}
}

// Formed is what came of finding a view in another way: this process is a member of it, and others
// know that already.
func Formed(c Config, v *views.View) *Outcome {
	c.silence = DefaultSilence
	return &Outcome{View: v, config: c}
}

// Session is one process's part in an attempt, from the View to Install. Ready or Abort must be
// called, or its connections stay open.
type Session struct {
	view  *views.View
	unmet []views.Unmet
	part  part
	// ctx ends with the reason when the attempt is aborted, over is closed when it is decided
	// either way.
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{}
	err    error // written before over is closed
}

// part is what the first member and a joiner do differently.
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

// Context ends, with the reason as its cause, when the attempt is aborted; so links can be
// connected under it. It does not end on success.
func (s *Session) Context() context.Context { return s.ctx }

// Ready says that this process's links stand, and returns nil when the links of all processes do.
// If ctx ends first the attempt is aborted. Errors wrap ErrAborted and name the node that failed.
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

// Abort says that this process's links failed; Ready fails at all other processes with the reason.
// After the attempt was decided it does nothing, so it can be deferred.
func (s *Session) Abort(err error) {
	if err == nil {
		err = errors.New("no reason given")
	}
	s.part.abort(err)
	<-s.over
	s.part.flush()
}
