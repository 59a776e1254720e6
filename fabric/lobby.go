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

// ErrRefused says that a peer did not accept a connection for rows.
var ErrRefused = errors.New("refused")

// Hello is the greeting of this member to a peer.
func (s *Spec) Hello(to order.Rank) Hello {
	return Hello{s.Cluster, s.View, s.Key, s.Self, to, s.Peers[s.Self].Shape}
}

// Check compares a greeting with what the view says its sender must say.
func (s *Spec) Check(h Hello) error {
	switch {
	case h.Cluster != s.Cluster:
		return fmt.Errorf("%w: cluster %q, this is %q", ErrRefused, h.Cluster, s.Cluster)
	case h.View != s.View || h.Key != s.Key:
		return fmt.Errorf("%w: not a member of view %d", ErrRefused, s.View)
	case h.To != s.Self || h.From <= s.Self || int(h.From) >= len(s.Peers):
		return fmt.Errorf("%w: from rank %d to rank %d, this is rank %d of %d", ErrRefused, h.From, h.To, s.Self, len(s.Peers))
	case h.Shape != s.Peers[h.From].Shape:
		return fmt.Errorf("%w: rows of rank %d are %v there and %v here", ErrRefused, h.From, h.Shape, s.Peers[h.From].Shape)
	}
	return nil
}

// Caller is a connection that said Hello.
type Caller struct {
	Conn  net.Conn
	Hello Hello
}

// Lobby keeps connections whose view this node has not opened yet. Callers wait at most Patience and are at most
// Seats; the others are turned away. All methods may be called from any goroutine.
type Lobby struct {
	Patience time.Duration
	Seats    int

	mu     sync.Mutex
	closed bool
	seats  []seat
	bells  map[chan struct{}]bool // one per Await, rung when somebody sits down
}

type seat struct {
	Caller
	taken chan struct{}
	shut  chan struct{}
}

// Arrive seats a caller until somebody who awaits its view takes the connection, and reports whether that happened. If
// not, the connection is still the caller's to close.
func (l *Lobby) Arrive(c Caller) bool {
	s := seat{c, make(chan struct{}), make(chan struct{})}
	l.mu.Lock()
	if len(l.seats) >= l.Seats || l.closed {
		l.mu.Unlock()
		return false
	}
	l.seats = append(l.seats, s)
	for bell := range l.bells {
		select {
		case bell <- struct{}{}:
		default: // rung already
		}
	}
	l.mu.Unlock()
	t := time.NewTimer(l.Patience)
	defer t.Stop()
	select {
	case <-s.taken:
		return true
	case <-s.shut:
		return !l.leave(s)
	case <-t.C:
		return !l.leave(s)
	}
}

// Close sends everybody away, and who comes later.
func (l *Lobby) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	for _, s := range l.seats {
		close(s.shut)
	}
}

// leave gives a seat up, and reports false if the caller was taken meanwhile.
func (l *Lobby) leave(s seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.seats, func(o seat) bool { return o.taken == s.taken })
	if i >= 0 {
		l.seats = slices.Delete(l.seats, i, i+1)
	}
	return i >= 0
}

// take returns a seated caller of a view, or false.
func (l *Lobby) take(key string) (Caller, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.seats, func(o seat) bool { return o.Hello.Key == key })
	if i < 0 {
		return Caller{}, false
	}
	s := l.seats[i]
	l.seats = slices.Delete(l.seats, i, i+1)
	close(s.taken)
	return s.Caller, true
}

// Await takes callers of a view until every wanted rank has come, or ctx ends. serve answers a caller that passed
// Spec.Check; refuse tells one why it did not. Who fails to be served, or is refused, is closed, and others may still come.
func (l *Lobby) Await(ctx context.Context, spec *Spec, want map[order.Rank]bool, serve func(Caller) error, refuse func(Caller, error)) error {
	bell := make(chan struct{}, 1)
	l.mu.Lock()
	if l.bells == nil {
		l.bells = map[chan struct{}]bool{}
	}
	l.bells[bell] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.bells, bell)
	}()
	for len(want) > 0 {
		c, ok := l.take(spec.Key)
		if !ok {
			select {
			case <-bell:
				continue
			case <-ctx.Done():
				return fmt.Errorf("waiting for the rows of %v: %w", spec.names(want), context.Cause(ctx))
			}
		}
		err := spec.Check(c.Hello)
		if err == nil && !want[c.Hello.From] {
			err = fmt.Errorf("%w: rank %d is connected already", ErrRefused, c.Hello.From)
		}
		if err != nil {
			refuse(c, err)
			c.Conn.Close()
			continue
		}
		if err := serve(c); err != nil {
			c.Conn.Close()
			continue
		}
		delete(want, c.Hello.From)
	}
	return nil
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
