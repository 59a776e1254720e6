package rdmc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

var (
	// ErrClosed says that a node, or a group, is closed.
	ErrClosed = errors.New("rdmc: closed")
	// ErrConfig is wrapped by what Open, Node.Open and Node.Start say of a configuration that cannot
	// work.
	ErrConfig = errors.New("rdmc: bad configuration")
	// ErrNoMemory says that a message does not fit into the memory that this machine has free.
	ErrNoMemory = samehost.ErrNoMemory
)

// token is the name of a group on the wire.
type token = [relay.TokenBytes]byte

// Node has the connections that its groups share.
type Node struct {
	cfg     Config
	ownPort bool
	space   *samehost.Space // memory that others on the host may see
	views   *samehost.Views // and theirs
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

// Open makes a node. Connections to other nodes come when groups need them. The node lasts until
// Close, whatever becomes of ctx.
func Open(ctx context.Context, cfg Config) (*Node, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	n := &Node{cfg: cfg, ownPort: cfg.Port == nil, groups: map[token]*Group{}, routes: map[order.NodeID]*route{}}
	c := &n.cfg
	if c.TLS != nil && c.Streams != nil {
		return nil, fmt.Errorf("%w: TLS and Streams are both set: streams encrypt nothing", ErrConfig)
	}
	if err := n.listen(ctx); err != nil {
		return nil, err
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
	n.attach.FailAfter = c.FailAfter
	n.ctx, n.end = context.WithCancel(context.Background())
	n.share()
	c.Port.Handle(port.KindBlocks, n.serve)
	return n, nil
}

// listen opens a port, unless the configuration has one, and completes the node's address.
func (n *Node) listen(ctx context.Context) (err error) {
	c := &n.cfg
	if n.ownPort {
		if c.Self.Addr == "" {
			return fmt.Errorf("%w: a node needs an address to listen on, or a port", ErrConfig)
		}
		if c.Port, err = port.Open(ctx, port.Config{Addr: c.Self.Addr, TLS: c.TLS}); err != nil {
			return err
		}
	}
	if n.ownPort || c.Self.Addr == "" {
		c.Self.Addr = c.Port.Addr()
	}
	return nil
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

// Open opens a group, and waits until all members have opened it.
func (n *Node) Open(ctx context.Context, cfg GroupConfig) (*Group, error) {
	g, err := n.Start(cfg)
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
		err = fmt.Errorf("rdmc: group %q: %w; %s", cfg.Name, context.Cause(ctx), n.missing(g))
	}
	g.Discard()
	return nil, err
}

// Start opens a group and returns at once; connections come up in the background.
func (n *Node) Start(cfg GroupConfig) (*Group, error) {
	g, err := newGroup(n, cfg)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case n.groups[g.token] != nil:
		return nil, fmt.Errorf("%w: group %q is open already", ErrConfig, cfg.Name)
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

// missing says which members have not opened a group, and what is known of the reason.
func (n *Node) missing(g *Group) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	text := "these nodes have not opened it:"
	for place, p := range g.peers {
		if !g.isAttached(place) {
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
	r := port.NewRejection(port.KindBlocks, conn.RemoteAddr().String(), err)
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
