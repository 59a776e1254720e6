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
	GivenUp bool     `json:"given_up,omitempty"` // because the peer froze the caller's row before they were connected
	Shape   RowShape `json:"shape"`
}

// Errors of connections for rows. All but ErrRefused end the connection without an answer, which its dialer takes for a reason
// to come again (Insist).
var (
	// ErrRefused says that a peer did not accept a connection for rows.
	ErrRefused = errors.New("refused")
	// ErrGivenUp says that a peer froze the row of this member before they were connected.
	ErrGivenUp = errors.New("the peer gave this member up")
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

// Refusal is the answer to a caller that is refused.
func Refusal(why error) Welcome {
	return Welcome{Refused: why.Error(), GivenUp: errors.Is(why, ErrGivenUp)}
}

// Refusal is why this member was refused, or nil if it was not.
func (w Welcome) Refusal() error {
	switch {
	case w.Refused == "":
		return nil
	case w.GivenUp:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrGivenUp, w.Refused)
	}
	return fmt.Errorf("%w: %s", ErrRefused, w.Refused)
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
	if err != nil {
		return err
	}
	l.seated = l.place(l.seated, g)
	for _, a := range l.awaits {
		if a.key == c.Hello.Key {
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

// expect begins to await a view.
func (l *Lobby) expect(key string) *await {
	a := &await{key, make(chan struct{}, 1)}
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
// passed Spec.Check and is wanted; refuse tells one why it did not, or is not. Who fails to be served, or is refused, is
// rejected and closed, and others may still come.
//
// It goes on when all have come: a member whose row was frozen here hears that there will be no link, instead of waiting for one.
func (l *Lobby) Await(ctx context.Context, spec *Spec, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) {
	a := l.expect(spec.Key)
	defer l.unexpect(a)
	for {
		c, ok := l.take(spec.Key)
		if !ok {
			select {
			case <-a.bell:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := spec.receive(c, wants, serve, refuse); err != nil {
			l.reject(c.Conn, err)
			c.Conn.Close()
		}
	}
}

// receive serves a caller, or refuses it and says why.
func (s *Spec) receive(c Caller, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) error {
	err := s.Check(c.Hello)
	if err == nil && !wants(c.Hello.From) {
		err = fmt.Errorf("%w: %w: rank %d is connected already, or its row was frozen", ErrRefused, ErrGivenUp, c.Hello.From)
	}
	if err != nil {
		refuse(c, err)
		return err
	}
	return serve(c)
}
