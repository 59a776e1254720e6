package fabric

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/order"
)

// Caller is a connection that said Hello.
type Caller struct {
	Conn      net.Conn
	Challenge Challenge // what it was sent before
	Hello     Hello
}

// Lobby has the connections for rows that belong to no table yet. Any number of views are awaited at the same time: the next one
// while links of this one are still coming.
//
// Life of a connection: greeting (its Hello is being read) → seated (until its view is awaited here) → taken by Await, or
// turned away.
//
// Whoever reaches the port can come in here, so what strangers may cost is bounded: at most Seats connections are greeting, at most
// Seats are seated, each for no longer than Patience. A newcomer that finds all places taken gets that of the oldest. The
// rejected alternative, to turn the newcomer away, lets a handful of strangers keep the members out for as long as they are
// borne. This way nobody can: a caller of an awaited view is taken at once, whoever sits there; a member that came before, and had
// to make room, comes again (Insist).
//
// Who calls for a view that is not awaited is seated, also while others are: a member that installed the next view a moment earlier
// than this one calls for it already, and is taken the moment that this one opens it too.
//
// All methods may be called from any goroutine. The fields are set before the first call.
type Lobby struct {
	Patience time.Duration
	Seats    int
	// Reject is told of each connection that was turned away, once, before it is closed; not of those that Close sends away.
	Reject func(net.Conn, error)

	inside sync.WaitGroup // calls of Admit

	mu       sync.Mutex
	closed   bool
	greeting []*guest // oldest first
	seated   []*guest // oldest first
	awaits   []*await
}

// guest is a connection in the lobby. Its fields are guarded by the lobby's mu.
type guest struct {
	conn net.Conn // as it came
	Caller
	over bool          // taken, or turned away
	why  error         // why it was turned away
	left chan struct{} // closed when over
}

// await is one call of Await.
type await struct {
	tag  string
	bell chan struct{} // rung when a caller of the view sits down
}

// Admit has a connection from its first byte until it is taken or turned away, and then closed. hear reads its greeting; it
// returns the Caller's connection whatever the error, and is interrupted by the deadline of the connection that it was given.
func (l *Lobby) Admit(conn net.Conn, hear func() (Caller, error)) {
	g := &guest{conn: conn, left: make(chan struct{})}
	if !l.enter(g) {
		conn.Close()
		return
	}
	defer l.inside.Done()
	c, err := hear()
	if err = l.wait(g, c, err); err == nil {
		return
	}
	l.reject(c.Conn, err)
	c.Conn.Close()
}

// reject reports a connection that is about to be closed, unless Close is the reason.
func (l *Lobby) reject(conn net.Conn, err error) {
	if l.Reject != nil && !errors.Is(err, net.ErrClosed) {
		l.Reject(conn, err)
	}
}

// enter gives a connection its place among those that greet, or reports false if the lobby is closed.
func (l *Lobby) enter(g *guest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.inside.Add(1)
	g.conn.SetDeadline(time.Now().Add(l.Patience)) // if it fails, so does reading
	l.greeting = l.place(l.greeting, g)
	return true
}

// place appends a guest to a list, in place of its oldest if it is full.
func (l *Lobby) place(list []*guest, g *guest) []*guest {
	if len(list) >= l.Seats {
		list[0].turnAway(ErrCrowded)
		list = slices.Delete(list, 0, 1)
	}
	return append(list, g)
}

// turnAway ends a guest's stay. Its own goroutine closes it: closing may wait, and the lobby is locked here.
func (g *guest) turnAway(why error) {
	g.over, g.why = true, why
	close(g.left)
	g.conn.SetDeadline(time.Unix(1, 0)) // long ago: whoever reads its greeting stops
}

// wait seats a guest that greeted, or failed to, and returns nil when it was taken.
func (l *Lobby) wait(g *guest, c Caller, err error) error {
	if err := l.sit(g, c, err); err != nil {
		return err
	}
	t := time.NewTimer(l.Patience)
	defer t.Stop()
	select {
	case <-g.left:
	case <-t.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !g.over {
		l.seated = slices.DeleteFunc(l.seated, func(o *guest) bool { return o == g })
		g.why = fmt.Errorf("%w: %v", ErrNotAwaited, c.Hello)
	}
	return g.why
}

// sit takes a guest from those who greet to those who wait, and rings for those who await its view.
func (l *Lobby) sit(g *guest, c Caller, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.over {
		return g.why
	}
	l.greeting = slices.DeleteFunc(l.greeting, func(o *guest) bool { return o == g })
	g.Caller = c
	if err != nil {
		return err
	}
	l.seated = l.place(l.seated, g)
	for _, a := range l.awaits {
		if a.tag == c.Hello.Tag {
			a.ring()
		}
	}
	return nil
}

func (a *await) ring() {
	select {
	case a.bell <- struct{}{}:
	default: // rung already
	}
}

// Close sends everybody away, at once, and who comes later. When it returns, no goroutine is left in Admit.
func (l *Lobby) Close() {
	l.mu.Lock()
	l.closed = true
	for _, g := range slices.Concat(l.greeting, l.seated) {
		g.turnAway(net.ErrClosed)
	}
	l.greeting, l.seated = nil, nil
	l.mu.Unlock()
	l.inside.Wait()
}

// take returns a seated caller of a view, or false.
func (l *Lobby) take(tag string) (Caller, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.seated, func(g *guest) bool { return g.Hello.Tag == tag })
	if i < 0 {
		return Caller{}, false
	}
	g := l.seated[i]
	l.seated = slices.Delete(l.seated, i, i+1)
	g.over = true
	close(g.left)
	return g.Caller, true
}

// expect begins to await a view.
func (l *Lobby) expect(tag string) *await {
	a := &await{tag, make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = append(l.awaits, a)
	return a
}

func (l *Lobby) unexpect(a *await) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = slices.DeleteFunc(l.awaits, func(o *await) bool { return o == a })
}

// Await takes callers of a view until ctx ends. wants says whether a link to a rank is still to be made. serve answers a caller that
// passed Spec.Check and is wanted; refuse tells one that proved who it is why it did not, or is not. A caller that proves nothing is
// closed without a word. A caller that cannot be served, or is refused, is rejected and closed, and others may still come.
//
// It goes on when all have come: a member whose row was frozen here hears that there will be no link, instead of waiting for one.
func (l *Lobby) Await(ctx context.Context, spec *Spec, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) {
	tag := spec.Scope.Tag()
	a := l.expect(tag)
	defer l.unexpect(a)
	for {
		c, ok := l.take(tag)
		if !ok {
			select {
			case <-a.bell:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := spec.receive(c, wants, serve, refuse); err != nil {
			l.TurnAway(c.Conn, err)
		}
	}
}

// TurnAway reports a connection that was taken and cannot become a link, and closes it.
func (l *Lobby) TurnAway(conn net.Conn, err error) {
	l.reject(conn, err)
	conn.Close()
}

// receive serves a caller, or refuses it and says why.
func (s *Spec) receive(c Caller, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) error {
	err := s.Check(c.Conn, c.Challenge, c.Hello)
	if err == nil && !wants(c.Hello.From) {
		err = fmt.Errorf("%w: %w: rank %d is connected already, or its row was frozen", ErrRefused, ErrGivenUp, c.Hello.From)
	}
	if errors.Is(err, ErrRefused) {
		refuse(c, err)
	}
	if err != nil {
		return err
	}
	return serve(c)
}
