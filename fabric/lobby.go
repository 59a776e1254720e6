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

// Hello opens a connection for the rows of one pair; the member of higher rank says it, the other one answers Welcome.
type Hello struct {
	Cluster string       `json:"cluster"`
	View    order.ViewID `json:"view"`
	Key     string       `json:"key"`
	From    order.Rank   `json:"from"`
	To      order.Rank   `json:"to"`
	Shape   RowShape     `json:"shape"` // of the sender's row
}

// Welcome answers a Hello; a reason means that it was refused.
type Welcome struct {
	Refused string   `json:"refused,omitempty"`
	Shape   RowShape `json:"shape"`
}

// Errors of connections for rows. All but ErrRefused end the connection without an answer, which its dialer takes for a reason
// to come again (Insist).
var (
	// ErrRefused says that a peer did not accept a connection for rows.
	ErrRefused = errors.New("refused")
	// ErrNotAwaited says that a view is not being opened here: it is somebody else's, or over, or was not opened in time.
	ErrNotAwaited = errors.New("nobody here awaits its view")
	// ErrCrowded says that a connection had to make room for a later one.
	ErrCrowded = errors.New("too many callers")
)

// Hello is the greeting of this member to a peer.
func (s *Spec) Hello(to order.Rank) Hello {
	return Hello{s.Cluster, s.View, s.Key, s.Self, to, s.Peers[s.Self].Shape}
}

// Check compares a greeting with what the view says its sender must say.
func (s *Spec) Check(h Hello) error {
	switch {
	case h.Cluster != s.Cluster:
		return fmt.Errorf("%w: cluster %.64q, this is %q", ErrRefused, h.Cluster, s.Cluster)
	case h.View != s.View || h.Key != s.Key:
		return fmt.Errorf("%w: not a member of view %d", ErrRefused, s.View)
	case h.To != s.Self || h.From <= s.Self || int(h.From) >= len(s.Peers):
		return fmt.Errorf("%w: from rank %d to rank %d, this is rank %d of %d", ErrRefused, h.From, h.To, s.Self, len(s.Peers))
	case h.Shape != s.Peers[h.From].Shape:
		return fmt.Errorf("%w: rows of rank %d are %v there and %v here", ErrRefused, h.From, h.Shape, s.Peers[h.From].Shape)
	}
	return nil
}

// String tells what the caller said it is, without the key, and cut to a bounded length: strangers choose these words.
func (h Hello) String() string {
	return fmt.Sprintf("rank %d calls rank %d of view %d in cluster %.64q", h.From, h.To, h.View, h.Cluster)
}

// Caller is a connection that said Hello.
type Caller struct {
	Conn  net.Conn
	Hello Hello
}

// Lobby has the connections for rows that belong to no table yet.
//
// Life of a connection: greeting (its Hello is being read) → seated (until its view is awaited here) → taken by Await, or
// turned away.
//
// Whoever reaches the port can come in here, so what strangers may cost is bounded: at most Seats connections are greeting, at most
// Seats are seated, each for no longer than Patience. A newcomer that finds all places taken gets that of the oldest. The
// rejected alternative, to turn the newcomer away, lets a handful of strangers keep the members out for as long as they are
// borne. This way nobody can: while a view is awaited, those who do not know its key are turned away at once and its members
// are taken at once; a member that came before, and had to make room, comes again (Insist).
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
	key  string
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
	switch {
	case err != nil:
		return err
	case l.strange(g):
		return fmt.Errorf("%w: %v", ErrNotAwaited, c.Hello)
	}
	l.seated = l.place(l.seated, g)
	for _, a := range l.awaits {
		if a.key == c.Hello.Key {
			a.ring()
		}
	}
	return nil
}

// strange reports that views are awaited, and that the guest's is none of them.
func (l *Lobby) strange(g *guest) bool {
	return len(l.awaits) > 0 && !slices.ContainsFunc(l.awaits, func(a *await) bool { return a.key == g.Hello.Key })
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
func (l *Lobby) take(key string) (Caller, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.seated, func(g *guest) bool { return g.Hello.Key == key })
	if i < 0 {
		return Caller{}, false
	}
	g := l.seated[i]
	l.seated = slices.Delete(l.seated, i, i+1)
	g.over = true
	close(g.left)
	return g.Caller, true
}

// expect begins to await a view. Strangers that are seated must go.
func (l *Lobby) expect(key string) *await {
	a := &await{key, make(chan struct{}, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = append(l.awaits, a)
	l.seated = slices.DeleteFunc(l.seated, func(g *guest) bool {
		if !l.strange(g) {
			return false
		}
		g.turnAway(fmt.Errorf("%w: %v", ErrNotAwaited, g.Hello))
		return true
	})
	return a
}

func (l *Lobby) unexpect(a *await) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaits = slices.DeleteFunc(l.awaits, func(o *await) bool { return o == a })
}

// Await takes callers of a view until every wanted rank has come, or ctx ends. serve answers a caller that passed
// Spec.Check; refuse tells one why it did not. Who fails to be served, or is refused, is rejected and closed, and others may
// still come.
func (l *Lobby) Await(ctx context.Context, spec *Spec, want map[order.Rank]bool, serve func(Caller) error, refuse func(Caller, error)) error {
	if len(want) == 0 {
		return nil
	}
	a := l.expect(spec.Key)
	defer l.unexpect(a)
	for len(want) > 0 {
		c, ok := l.take(spec.Key)
		if !ok {
			select {
			case <-a.bell:
				continue
			case <-ctx.Done():
				return fmt.Errorf("waiting for the rows of %v: %w", spec.names(want), context.Cause(ctx))
			}
		}
		if err := spec.receive(c, want, serve, refuse); err != nil {
			l.reject(c.Conn, err)
			c.Conn.Close()
			continue
		}
		delete(want, c.Hello.From)
	}
	return nil
}

// receive serves a caller, or refuses it and says why.
func (s *Spec) receive(c Caller, want map[order.Rank]bool, serve func(Caller) error, refuse func(Caller, error)) error {
	err := s.Check(c.Hello)
	if err == nil && !want[c.Hello.From] {
		err = fmt.Errorf("%w: rank %d is connected already", ErrRefused, c.Hello.From)
	}
	if err != nil {
		refuse(c, err)
		return err
	}
	return serve(c)
}

// names lists the nodes at some ranks, by rank.
func (s *Spec) names(ranks map[order.Rank]bool) (ids []order.NodeID) {
	for r, p := range s.Peers {
		if ranks[order.Rank(r)] {
			ids = append(ids, p.ID)
		}
	}
	return ids
}
