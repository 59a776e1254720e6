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
	"github.com/squall-go/squall/internal/attach"
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
	mu      sync.Mutex
	closed  bool
	groups  map[token]*Group
	routes  map[order.NodeID]*route
	links   []*link     // all established links, and links of which one connection has arrived; the oldest first
	count   attach.Link // links that there were
	attach  attach.Node
	effects attach.Effects // of attach
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
	n.met(func(a *attach.Node, out *attach.Effects) { a.Open(g.described(), out) })
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
