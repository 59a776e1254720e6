package handshake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
)

// Caller is a connection that said Hello.
type Caller struct {
	Conn      net.Conn
	Challenge Challenge // what it was sent before
	Hello     Hello
}

// AcceptQueue holds accepted connections for rows until the table of their view takes them. Any
// number of views can be awaited at the same time: the next view while links of the current one are
// still pending.
//
// Life of a connection: greeting (its Hello is being read) → queued (until its view is awaited
// here) → taken by Await, or rejected.
//
// Any process that reaches the port can enter, so the queue bounds what strangers cost: at most
// MaxPending connections are greeting and at most MaxPending are queued, each for no longer than
// Timeout. A new connection that finds all places taken replaces the oldest one. The rejected
// alternative, to refuse the new connection, lets a few strangers keep the members out for a whole
// Timeout. With replacement a caller of an awaited view is taken at once, whatever else is queued,
// and a member whose connection was replaced dials again (DialWithRetry).
//
// A caller of a view that is not awaited is queued, also while other views are awaited: a member
// that installs the next view a moment earlier than this one dials for it already, and is taken as
// soon as this member awaits that view too.
//
// All methods may be called from any goroutine. The fields are set before the first call.
type AcceptQueue struct {
	Timeout    time.Duration
	MaxPending int
	// Reject is called once for each rejected connection, before it is closed; not for the
	// connections that Close ends.
	Reject func(net.Conn, error)

	inside sync.WaitGroup // calls of Admit

	mu       sync.Mutex
	closed   bool
	greeting []*pendingConn // oldest first
	queued   []*pendingConn // oldest first
	awaits   []*await
}

// pendingConn is a connection in the queue. The queue's mu guards its fields.
type pendingConn struct {
	conn net.Conn // as it came
	Caller
	over bool          // taken, or rejected
	why  error         // why it was rejected
	left chan struct{} // closed when over
}

// await is one call of Await.
type await struct {
	tag  string
	bell wait.Bell // rung when a caller of the view is queued
}

// Admit owns a connection from its first byte until the connection is taken, or rejected and
// closed. hear reads its greeting; it returns the Caller's connection whatever the error, and the
// deadline of the connection that it was given interrupts it.
func (q *AcceptQueue) Admit(conn net.Conn, hear func() (Caller, error)) {
	p := &pendingConn{conn: conn, left: make(chan struct{})}
	if !q.enter(p) {
		conn.Close()
		return
	}
	defer q.inside.Done()
	c, err := hear()
	if err = q.wait(p, c, err); err == nil {
		return
	}
	q.reject(c.Conn, err)
	c.Conn.Close()
}

// reject reports a connection that is about to be closed, unless Close is the reason.
func (q *AcceptQueue) reject(conn net.Conn, err error) {
	if q.Reject != nil && !errors.Is(err, net.ErrClosed) {
		q.Reject(conn, err)
	}
}

// enter adds a connection to the greeting ones. It reports false if the queue is closed.
func (q *AcceptQueue) enter(p *pendingConn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.inside.Add(1)
	p.conn.SetDeadline(time.Now().Add(q.Timeout)) // if it fails, so does reading
	q.greeting = q.place(q.greeting, p)
	return true
}

// place appends a connection to a list, and rejects the oldest one if the list is full.
func (q *AcceptQueue) place(list []*pendingConn, p *pendingConn) []*pendingConn {
	if len(list) >= q.MaxPending {
		list[0].reject(fabric.ErrCrowded)
		list = slices.Delete(list, 0, 1)
	}
	return append(list, p)
}

// reject marks the connection as rejected. Its own goroutine closes it: closing may wait, and the
// queue is locked here.
func (p *pendingConn) reject(why error) {
	p.over, p.why = true, why
	close(p.left)
	p.conn.SetDeadline(time.Unix(1, 0)) // long ago: the reader of its greeting stops
}

// wait queues a connection whose greeting was read, or could not be, and returns nil when it was
// taken.
func (q *AcceptQueue) wait(p *pendingConn, c Caller, err error) error {
	if err := q.enqueue(p, c, err); err != nil {
		return err
	}
	t := time.NewTimer(q.Timeout)
	defer t.Stop()
	select {
	case <-p.left:
	case <-t.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !p.over {
		q.queued = slices.DeleteFunc(q.queued, func(o *pendingConn) bool { return o == p })
		p.why = fmt.Errorf("%w: %v", fabric.ErrNotAwaited, c.Hello)
	}
	return p.why
}

// enqueue moves a connection from the greeting ones to the queued ones, and wakes the calls of
// Await for its view.
func (q *AcceptQueue) enqueue(p *pendingConn, c Caller, err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.over {
		return p.why
	}
	q.greeting = slices.DeleteFunc(q.greeting, func(o *pendingConn) bool { return o == p })
	p.Caller = c
	if err != nil {
		return err
	}
	q.queued = q.place(q.queued, p)
	for _, a := range q.awaits {
		if a.tag == c.Hello.Tag {
			a.bell.Ring()
		}
	}
	return nil
}

// Close rejects all connections, including later ones. When it returns, no goroutine is left in
// Admit.
func (q *AcceptQueue) Close() {
	q.mu.Lock()
	q.closed = true
	for _, p := range slices.Concat(q.greeting, q.queued) {
		p.reject(net.ErrClosed)
	}
	q.greeting, q.queued = nil, nil
	q.mu.Unlock()
	q.inside.Wait()
}

// take returns a queued caller of a view, or false.
func (q *AcceptQueue) take(tag string) (Caller, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.queued, func(p *pendingConn) bool { return p.Hello.Tag == tag })
	if i < 0 {
		return Caller{}, false
	}
	p := q.queued[i]
	q.queued = slices.Delete(q.queued, i, i+1)
	p.over = true
	close(p.left)
	return p.Caller, true
}

// startAwaiting registers a call of Await for a view.
func (q *AcceptQueue) startAwaiting(tag string) *await {
	a := &await{tag, wait.NewBell()}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaits = append(q.awaits, a)
	return a
}

func (q *AcceptQueue) stopAwaiting(a *await) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaits = slices.DeleteFunc(q.awaits, func(o *await) bool { return o == a })
}

// Await takes callers of a view until ctx ends. wants says whether a link to a rank is still to be
// made. serve answers a caller that passed Check and is wanted; refuse tells a caller that
// proved its identity why it did not pass, or is not wanted. A caller that does not prove its
// identity is closed without an answer. A caller that cannot be served, or is refused, is rejected
// and closed, and others may still come.
//
// Await goes on when all members have come: a member whose row was frozen here is then told that
// there will be no link, instead of waiting for one.
func (q *AcceptQueue) Await(ctx context.Context, spec *fabric.Spec, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) {
	tag := spec.Scope.Tag()
	a := q.startAwaiting(tag)
	defer q.stopAwaiting(a)
	for {
		c, ok := q.take(tag)
		if !ok {
			select {
			case <-a.bell:
				continue
			case <-ctx.Done():
				return
			}
		}
		if err := receive(spec, c, wants, serve, refuse); err != nil {
			q.RejectTaken(c.Conn, err)
		}
	}
}

// RejectTaken reports and closes a connection that was taken and cannot become a link.
func (q *AcceptQueue) RejectTaken(conn net.Conn, err error) {
	q.reject(conn, err)
	conn.Close()
}

// receive serves a caller, or refuses it with the reason.
func receive(s *fabric.Spec, c Caller, wants func(order.Rank) bool, serve func(Caller) error, refuse func(Caller, error)) error {
	err := Check(s, c.Conn, c.Challenge, c.Hello)
	if err == nil && !wants(c.Hello.From) {
		err = fmt.Errorf("%w: %w: rank %d is connected already, or its row was frozen", fabric.ErrRefused, fabric.ErrGivenUp, c.Hello.From)
	}
	if errors.Is(err, fabric.ErrRefused) {
		refuse(c, err)
	}
	if err != nil {
		return err
	}
	return serve(c)
}
