package simnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// ErrClosed says that this end of a channel was closed.
var ErrClosed = errors.New("the channel is closed")

// Conn is one end of a channel: an ordered, reliable, non-blocking stream of messages
// between two nodes. A message is handed over without a copy, and must not be changed afterwards.
type Conn struct {
	net        *Net
	self, peer *node
	out, in    *lane
	up         bool
	closed     error // this end was closed, or refused
}

// lane is one direction of a channel.
type lane struct {
	path   *path // nil: within a host
	delay  *path
	random *rand.Rand
	flight []letter
	last   time.Duration
	ended  bool
	endAt  time.Duration
}

// letter is a message in flight.
type letter struct {
	at  time.Duration
	msg any
}

// Listen sets the function that is called with the channels that others dial to a node, from now
// on. accept is called when the network executes due events (Advance, Heal), so outside of the
// node's own steps. A restarted node listens again by itself only.
func (n *Net) Listen(id order.NodeID, accept func(*Conn)) { n.node(id).accept = accept }

// Dial opens a channel from one node to another. It comes up after a delay, or is refused if the
// other one's process has ended, or does not listen.
func (n *Net) Dial(from, to order.NodeID) *Conn {
	self := n.node(from)
	n.burn(self)
	c := &Conn{net: n, self: self, peer: n.node(to), out: n.lane(from, to), in: n.lane(to, from)}
	if self.crashed {
		c.closed = ErrClosed
		return c
	}
	self.conns = append(self.conns, c)
	n.schedule(event{at: n.reach(c.out), to: to, path: c.out.path, occur: c.knock})
	return c
}

func (n *Net) lane(from, to order.NodeID) *lane {
	l := &lane{delay: n.path(from, to), random: n.random()}
	if n.kind(from, to) == Framed {
		l.path = l.delay
	}
	return l
}

// reach draws when what is sent now is there: not before what was sent earlier.
func (n *Net) reach(l *lane) time.Duration {
	l.last = max(l.last, n.arrival(l.delay, l.random))
	return l.last
}

// knock is the moment at which a dialed channel reaches the other node.
func (c *Conn) knock() {
	n := c.net
	c.peer = n.node(c.peer.id) // the process that is there now
	answer := event{to: c.self.id, path: c.in.path, occur: func() { c.up = true }}
	switch {
	case c.self.crashed || c.closed != nil:
		return
	case c.peer.crashed && c.peer.silent && c.in.path != nil:
		return
	case c.peer.crashed || c.peer.accept == nil:
		answer.occur = c.refused
	}
	answer.at = n.reach(c.in)
	n.schedule(answer)
	if c.peer.crashed || c.peer.accept == nil {
		return
	}
	other := &Conn{net: n, self: c.peer, peer: c.self, out: c.in, in: c.out, up: true}
	c.peer.conns = append(c.peer.conns, other)
	c.peer.accept(other)
}

func (c *Conn) refused() {
	if c.closed == nil {
		c.closed = fmt.Errorf("%w: no process listens at node %d", fabric.ErrRefused, c.peer.id)
	}
}

// Peer is the node at the other end.
func (c *Conn) Peer() order.NodeID { return c.peer.id }

// Up reports whether the channel came up; it stays so when it ends.
func (c *Conn) Up() bool { return c.up }

// Send queues a message for the peer. It reports false if the channel is not up yet, or closed.
func (c *Conn) Send(msg any) bool {
	n := c.net
	n.burn(c.self)
	if !c.up || c.closed != nil || c.self.crashed || c.gone() {
		return false
	}
	at := n.reach(c.out)
	c.out.flight = append(c.out.flight, letter{at, msg})
	n.due(c.peer.id, at)
	return true
}

// Recv takes the next message that has arrived by now.
func (c *Conn) Recv() (msg any, ok bool) {
	if c.arrives() > c.net.now || len(c.in.flight) == 0 {
		return nil, false
	}
	msg = c.in.flight[0].msg
	c.in.flight = slices.Delete(c.in.flight, 0, 1)
	return msg, true
}

// arrives is when the next message is here, or the end; never if nothing is under way, or the way
// is cut.
func (c *Conn) arrives() time.Duration {
	switch {
	case !c.up || c.closed != nil || c.in.path != nil && c.in.path.cut:
		return never
	case len(c.in.flight) > 0:
		return c.in.flight[0].at
	case c.in.ended:
		return c.in.endAt
	}
	return never
}

// gone reports that the end of the other side arrived, behind everything that it sent.
func (c *Conn) gone() bool { return c.in.ended && len(c.in.flight) == 0 && c.arrives() <= c.net.now }

// Closed is nil while the channel lives or comes up. A channel that ended at the other side is
// closed when everything that arrived before was received.
func (c *Conn) Closed() error {
	switch {
	case c.closed != nil:
	case c.gone():
		c.closed = fmt.Errorf("%w: node %d closed the channel", fabric.ErrPeerGone, c.peer.id)
	default:
		return nil
	}
	c.leave()
	return c.closed
}

// Close ends the channel. The other side hears of it behind what it was sent.
func (c *Conn) Close() {
	if c.closed != nil {
		c.leave()
		return
	}
	c.net.burn(c.self)
	c.closed = ErrClosed
	c.end()
}

// Reset breaks the channels between a node and a peer: what is in flight on them is lost, and the
// node finds them closed. So does the peer, unless they are half open from then on: it hears
// nothing of it. It returns how many there were.
func (n *Net) Reset(id, peer order.NodeID, halfOpen bool) (broken int) {
	for _, c := range slices.Clone(n.node(id).conns) {
		if c.peer.id != peer || c.closed != nil {
			continue
		}
		n.Stats.LostInFlight += len(c.in.flight) + len(c.out.flight)
		c.in.flight, c.out.flight = nil, nil
		c.closed = fmt.Errorf("%w: the channel to node %d was reset", fabric.ErrPeerGone, peer)
		c.leave()
		if !halfOpen {
			c.out.ended, c.out.endAt = true, n.now+n.notice(c.out.random)
			n.due(peer, c.out.endAt)
		}
		broken++
	}
	n.due(id, n.now)
	return broken
}

// end is heard at the other side.
func (c *Conn) end() {
	c.leave()
	c.out.ended = true
	c.out.endAt = max(c.out.last, c.net.now) + c.net.notice(c.out.random)
	c.net.due(c.peer.id, c.out.endAt)
}

// leave takes the channel from its node's.
func (c *Conn) leave() {
	c.self.conns = slices.DeleteFunc(c.self.conns, func(o *Conn) bool { return o == c })
}

// die ends a channel with its process.
func (c *Conn) die() {
	if c.closed != nil {
		return
	}
	c.closed = ErrClosed
	if c.self.silent && c.out.path != nil {
		c.leave()
		c.net.loseLetters(c.out)
		return
	}
	c.end()
}

// loseLetters drops what is in flight from some message on.
func (n *Net) loseLetters(l *lane) {
	if len(l.flight) > 0 {
		keep := l.random.IntN(len(l.flight) + 1)
		n.Stats.LostInFlight += len(l.flight) - keep
		l.flight = l.flight[:keep]
	}
}

// due is when the owner should look at the channel.
func (c *Conn) due() time.Duration {
	if c.closed != nil {
		return c.net.now
	}
	return c.arrives()
}
