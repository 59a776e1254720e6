package rdmc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/shared"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

var (
	// ErrClosed says that a node, or a group, is closed.
	ErrClosed = errors.New("rdmc: closed")
	// ErrConfig is wrapped by what Open and NewNode say of a configuration that cannot work.
	ErrConfig = errors.New("rdmc: bad configuration")
)

// token is the name of a group on the wire.
type token = [relay.TokenBytes]byte

// Node has the connections that its groups share.
type Node struct {
	cfg     NodeConfig
	ownPort bool
	space   *shared.Space   // memory that others on the host may see
	views   *shared.Views   // and theirs
	ctx     context.Context // ends with Close
	end     context.CancelFunc
	running sync.WaitGroup // every goroutine of the node, its links and its groups

	// mu is taken before the lock of a group, and a group's lock before the lock of a link.
	mu     sync.Mutex
	closed bool
	groups map[token]*Group
	routes map[order.NodeID]*route
	links  []*link // all established links, and links of which one connection has arrived; the oldest first
}

// NewNode makes a node. Connections come when groups need them.
func NewNode(c NodeConfig) (*Node, error) {
	if c.Port == nil {
		return nil, fmt.Errorf("%w: a node needs a port", ErrConfig)
	}
	if c.Self.Addr == "" {
		c.Self.Addr = c.Port.Addr()
	}
	if c.FailAfter <= 0 {
		c.FailAfter = DefaultFailAfter
	}
	if c.Identity == nil {
		c.Identity = trust.NewIdentity()
	}
	c.Self.PublicKey = c.Identity.PublicKey()
	if c.Self.Certificate.IsZero() {
		host, _, _ := net.SplitHostPort(c.Self.Addr)
		c.Self.Certificate, _ = trust.OwnCertificate(c.TLS, host) // none, if the two sides show different ones: then no peer can be bound to it
	}
	n := &Node{cfg: c, groups: map[token]*Group{}, routes: map[order.NodeID]*route{}}
	n.ctx, n.end = context.WithCancel(context.Background())
	n.share()
	c.Port.Handle(port.KindBlocks, n.serve)
	return n, nil
}

// Listen makes a node with a port of its own, for programs that use no other part of the framework.
func Listen(addr string, self order.NodeID, tlsConfig *tls.Config) (*Node, error) {
	p, err := port.Listen(port.Config{Addr: addr, TLS: tlsConfig})
	if err != nil {
		return nil, err
	}
	n, err := NewNode(NodeConfig{Self: Peer{ID: self}, Port: p, TLS: tlsConfig})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	n.ownPort = true
	return n, nil
}

// Peer is this node as the others know it.
func (n *Node) Peer() Peer { return n.cfg.Self }

// Close discards the groups that are open, ends all connections, and waits until no goroutine is
// left. What was said to others, an answer to a Close among it, is sent before that.
func (n *Node) Close() error {
	n.mu.Lock()
	n.closed = true
	groups := make([]*Group, 0, len(n.groups))
	for _, g := range n.groups {
		groups = append(groups, g)
	}
	n.mu.Unlock()
	n.cfg.Port.Handle(port.KindBlocks, nil)
	for _, g := range groups {
		g.Discard()
	}
	n.end()
	n.mu.Lock()
	links := slices.Clone(n.links)
	n.mu.Unlock()
	for _, l := range links {
		l.sayGoodbye()
	}
	n.running.Wait()
	n.space.Close()
	n.views.Close()
	if n.ownPort {
		return n.cfg.Port.Close()
	}
	return nil
}

// Open makes a group. It returns at once; connections come up in the background.
func (n *Node) Open(c GroupConfig) (*Group, error) {
	g, err := newGroup(n, c)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case n.groups[g.token] != nil:
		return nil, fmt.Errorf("%w: group %q is open already", ErrConfig, c.Name)
	}
	n.groups[g.token] = g
	n.running.Add(2)
	go g.call()
	go g.send()
	for _, l := range n.links {
		l.invite(g)
	}
	for _, p := range g.peers {
		if p.ID < n.cfg.Self.ID {
			n.reach(p)
		}
	}
	return g, nil
}

// Create is Open, and waits until all members have opened the group.
func (n *Node) Create(ctx context.Context, c GroupConfig) (*Group, error) {
	g, err := n.Open(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-g.complete:
		return g, nil
	case <-g.done:
		if err = g.Err(); errors.Is(err, ErrClosed) {
			return g, nil // all were here, and the root has closed it already
		}
	case <-ctx.Done():
		err = fmt.Errorf("rdmc: group %q: %w; %s", c.Name, context.Cause(ctx), n.missing(g))
	}
	g.Discard()
	return nil, err
}

// missing says which members have not opened a group, and what is known of the reason.
func (n *Node) missing(g *Group) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := "these nodes have not opened it:"
	for place, p := range g.peers {
		if m := g.members[place]; p.ID != n.cfg.Self.ID && (m == nil || !m.attached) {
			text += fmt.Sprintf(" %d", p.ID)
			if r := n.routes[p.ID]; r != nil && r.err != nil {
				text += fmt.Sprintf(" (%v)", r.err)
			}
		}
	}
	return text
}

// leave takes a group out of the node: from now on another one may have its name. What still comes
// for it is dropped.
func (n *Node) leave(g *Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[g.token] != g {
		return
	}
	delete(n.groups, g.token)
	for _, m := range g.members {
		if m != nil {
			g.farewell(m)
			m.link.dismiss(m)
		}
	}
	for _, r := range n.routes {
		r.ring()
	}
}

// attach takes the news that the peer of a link has a group open. An offer that finds no group here
// waits for it to be opened. There are three attach frames: the dialer's, the acceptor's answer, and the
// dialer's confirmation. Only that tells the acceptor that its peer did not leave meanwhile: an
// attach that is withdrawn while it is answered must not look like a member that left. The dialer
// asks behind it, and counts the acceptor as attached when that is answered. If the link ends before,
// the acceptor may have given it up without the confirmation, and waits for another link, which only
// the dialer makes. A dialer that stood still finds the acceptor's answer and such an end together.
func (n *Node) attach(l *link, c *relay.Control) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	g := n.groups[c.Token]
	switch {
	case g == nil && (l.dialed || c.Index != 0):
		return nil // this node has left the group before the answer came, or the confirmation
	case g == nil:
		return l.wait(c)
	}
	place := slices.IndexFunc(g.peers, func(p Peer) bool { return p.is(l) })
	if place < 0 || place == g.self {
		return n.attachOther(l, c, g)
	}
	m := g.members[place]
	if m != nil && m.link != l && !l.dialed && c.Index == 0 {
		if slices.Index(n.links, l) < slices.Index(n.links, m.link) {
			return nil // the dialer has made another link since
		}
		if n.holds(m, m.link.slept) { // it has ended at the dialer's side
			return l.wait(c)
		}
		m.link.dismiss(m)
		g.lost(m, false)
		m = g.members[place]
	}
	switch {
	case m == nil && !l.dialed && c.Index == 0:
		l.meet(g, place, c)
		return nil
	case m == nil || m.link != l || m.attached || m.left || c.Index != uint64(m.mine):
		if l.dialed || c.Index != 0 {
			return nil // the answer to an attach that was withdrawn
		}
		return l.wait(c) // the peer left the group, and has opened it again
	case l.dialed:
		if m.question == 0 {
			g.confirm(m, c)
		}
		return nil
	case m.theirs != c.Channel:
		return nil
	}
	l.proven()
	g.attached(m)
	return nil
}

// confirmed attaches the peers of a link that have answered what was asked behind the confirmation.
func (n *Node) confirmed(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range l.enlisted() {
		switch {
		case m.confirming() && m.question <= l.answered.Load():
			m.group.attached(m)
		case m.offered > 0 && m.theirs == 0 && m.offered <= l.answered.Load():
			m.offered = 0
			n.running.Go(func() { n.afterAWhile(m, m.group.forsaken) })
		}
	}
}

// confirm attaches a peer that has said something else before that answer, as only a peer does that
// has the confirmation, or that has left the group with a word.
func (n *Node) confirm(m *membership) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !m.confirming() {
		return false
	}
	m.group.attached(m)
	return true
}

// attachOther handles an attach frame for a group that has the name and key of a group here of
// which the peer is no member. The peer may mean a later group of the same name. The other groups
// of the link go on.
func (n *Node) attachOther(l *link, c *relay.Control, g *Group) error {
	if l.dialed || c.Index != 0 {
		return nil // the answer to an attach that was withdrawn
	}
	n.reject(l.control, fmt.Errorf("%w: node %d has opened group %q with other members than this node", errStranger, l.peer, g.cfg.Name))
	return l.wait(c)
}

// quit takes the news that the peer of a link uses one of its channels no more.
func (n *Node) quit(l *link, channel uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := l.forget(channel); m != nil {
		m.group.left(m)
	}
}

// lost takes a link that broke, or ended, out of the node, and tells its groups.
func (n *Node) lost(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links = slices.DeleteFunc(n.links, func(o *link) bool { return o == l })
	slept := !l.wasSilent() && l.slept()
	for _, m := range l.enlisted() {
		if !n.holds(m, func() bool { return slept }) {
			m.group.lost(m, l.wasSilent())
		}
	}
	for _, o := range n.links { // the peer may have made another one before
		for _, g := range n.groups {
			o.invite(g)
		}
	}
}

// holds reports whether the end of the link to an attached peer is held back for a while, because
// this node stood still: the peer may have given it up, and the others hear that before this node
// says that the peer is gone. An offer of the peer over another link does not shorten that.
func (n *Node) holds(m *membership, slept func() bool) bool {
	if m.attached && !m.held && slept() {
		m.held = true
		n.running.Go(func() {
			n.afterAWhile(m, func(m *membership) {
				m.held = false
				m.group.lost(m, false)
			})
		})
	}
	return m.held
}

// afterAWhile tells a group of what was held back for a quarter of FailAfter.
func (n *Node) afterAWhile(m *membership, tell func(*membership)) {
	t := time.NewTimer(m.link.watch.Every())
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	tell(m)
}

// reject reports a connection of a stranger, or of a peer that broke the rules.
func (n *Node) reject(conn net.Conn, err error) {
	r := port.RejectedBlocks(conn.RemoteAddr().String(), err)
	switch {
	case errors.Is(err, relay.ErrMalformed):
		r.Reason = port.Garbage
	case errors.Is(err, errStranger):
		r.Reason = port.NotMember
	case errors.Is(err, errCrowded):
		r.Reason = port.TooMany
	}
	n.cfg.Port.Reject(r)
}

// idleTime is how long a link stands that no group needs.
const idleTime = time.Minute
