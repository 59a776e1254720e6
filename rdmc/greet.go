package rdmc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// challenge is what the acceptor of a connection says first.
type challenge struct {
	Key   trust.PublicKey `json:"key"` // of its process
	Nonce trust.Nonce     `json:"nonce"`
}

// greeting is what the dialer says, once on each of the two connections of a link.
type greeting struct {
	From    order.NodeID `json:"from"`
	To      order.NodeID `json:"to"`
	Session string       `json:"session"` // a random text: what belongs together shows the same one
	Blocks  bool         `json:"blocks,omitempty"`
	view
	Key   trust.PublicKey `json:"key"` // of its process
	Nonce trust.Nonce     `json:"nonce"`
	MAC   trust.MAC       `json:"mac"` // of the challenge and all that
}

// welcome answers a greeting.
type welcome struct {
	Refused string `json:"refused,omitempty"`
	view
	MAC trust.MAC `json:"mac"` // of the greeting and all that
}

// common is the key that this node's process shares with another one.
func (n *Node) common(id order.NodeID, public trust.PublicKey) (trust.Key, error) {
	self := trust.Party{Node: uint64(n.cfg.Self.ID), PublicKey: n.cfg.Self.PublicKey}
	return n.cfg.Identity.Key(trust.Blocks, trust.Scope{}, self, trust.Party{Node: uint64(id), PublicKey: public})
}

// view is what each of two nodes says of shared memory: on the connection for control frames where
// it has some, on the one for blocks whether it sees the other one's. There the dialer also says
// the name of the streams that it would use instead, and the acceptor the same if it has them, too.
type view struct {
	Host    string `json:"host,omitempty"`
	SHM     string `json:"shm,omitempty"`
	Sees    bool   `json:"sees,omitempty"`
	Streams string `json:"streams,omitempty"`
}

// Bounds of greeting.
const (
	probeTime        = time.Second
	greetTime        = 5 * time.Second
	maxGreetingBytes = 4 << 10
	maxSessionBytes  = 64
	maxStrangers     = 256 // links of which no group was attached yet
	maxStreams       = 64  // of them with a stream, which takes memory and a device's resources
)

var (
	errRefused  = errors.New("refused")
	errReplaced = errors.New("another process has taken the place of the peer")
)

// within bounds what is said and heard on a connection before it is a link's; the node's end ends
// it at once.
func (n *Node) within(conn net.Conn, do func() error) error {
	stop := context.AfterFunc(n.ctx, func() { hangUp(conn) })
	defer stop()
	err := conn.SetDeadline(time.Now().Add(greetTime))
	if err == nil {
		err = do()
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err == nil && n.ctx.Err() != nil {
		err = ErrClosed
	}
	return err
}

// dial makes both connections of a link.
func (n *Node) dial(p Peer) (*link, error) {
	l := newLink(n, p.ID, true, rand.Text())
	var err error
	var theirs view
	if theirs, err = n.greet(p, l, greeting{Session: l.session, view: n.view()}); err != nil {
		return nil, err
	}
	if l.sight.owner, err = n.probe(theirs.Host, theirs.SHM); err == nil {
		theirs, err = n.greet(p, l, greeting{Session: l.session, Blocks: true, view: n.wishes(l)})
	}
	if err == nil && theirs.Streams != "" {
		err = n.stream(l)
	}
	if err != nil {
		hangUp(l.control)
		hangUp(l.blocks)
		return nil, err
	}
	l.sight.seen = theirs.Sees
	l.setup.whole, l.known = true, true
	return l, nil
}

// wishes is what this node says on the connection for blocks.
func (n *Node) wishes(l *link) view {
	v := view{Sees: l.sight.owner != ""}
	if n.cfg.Streams != nil && !v.Sees {
		v.Streams = n.cfg.Streams.Name()
	}
	return v
}

// stream has a stream carry the blocks of a link whose ends agreed on that, unless it is refused.
func (n *Node) stream(l *link) error {
	conn := l.blocks.(net.Conn)
	stream, err := n.cfg.Streams.Stream(n.ctx, conn)
	switch {
	case errors.Is(err, fabric.ErrRefused):
		if n.cfg.OnFallback != nil {
			n.cfg.OnFallback(fmt.Errorf("blocks between this node and node %d: %w", l.peer, err))
		}
		return nil
	case err != nil:
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.blocks = stream; l.err != nil { // it failed meanwhile
		n.running.Go(func() { stream.Close() })
	}
	return l.err
}

// introduce proves who this node is, and has the peer prove that it is the peer.
func (n *Node) introduce(conn net.Conn, p Peer, l *link, g greeting) (w welcome, err error) {
	var c challenge
	if err := wire.ReadMessage(conn, maxGreetingBytes, &c); err != nil {
		return w, err
	}
	if !l.showed(conn, c.Key) || !p.is(l) {
		return w, fmt.Errorf("%w: at %s is not node %d, but another process", trust.ErrUnproven, p.Addr, p.ID)
	}
	k, err := n.common(p.ID, c.Key)
	if err != nil {
		return w, err
	}
	g.From, g.To, g.Key, g.Nonce = n.cfg.Self.ID, p.ID, n.cfg.Self.PublicKey, trust.NewNonce()
	g.MAC = k.MAC(trust.Dialer, c, g)
	if err := wire.WriteMessage(conn, g); err != nil {
		return w, err
	}
	if err := wire.ReadMessage(conn, maxGreetingBytes, &w); err != nil {
		return w, err
	}
	said := w
	said.MAC = trust.MAC{}
	if err := k.Check(w.MAC, trust.Listener, g, said); err != nil {
		return w, fmt.Errorf("node %d at %s: %w", p.ID, p.Addr, err)
	}
	if w.Refused != "" {
		return w, fmt.Errorf("%w by node %d at %s: %.200q", errRefused, p.ID, p.Addr, w.Refused)
	}
	return w, nil
}

// greet makes one of them. Both lead to the same process, and that is the peer, as far as its
// description tells.
func (n *Node) greet(p Peer, l *link, g greeting) (view, error) {
	var w welcome
	ctx, cancel := context.WithTimeout(n.ctx, greetTime)
	defer cancel()
	conn, err := port.Dial(ctx, p.Addr, port.KindBlocks, n.cfg.TLS)
	if err != nil {
		return view{}, err
	}
	err = n.within(conn, func() (err error) {
		w, err = n.introduce(conn, p, l, g)
		return err
	})
	if err != nil {
		hangUp(conn)
		return view{}, err
	}
	if g.Blocks {
		l.blocks = conn
	} else {
		l.control = conn
	}
	return w.view, nil
}

// serve is the port's handler. Its goroutine becomes the reader of control frames.
func (n *Node) serve(conn net.Conn) {
	if !n.enter() {
		hangUp(conn)
		return
	}
	defer n.running.Done()
	var g greeting
	var l *link
	var w view
	err := n.within(conn, func() error {
		k, err := n.hear(conn, &g)
		if err != nil {
			return err
		}
		l, err = n.admit(conn, &g)
		if w = n.view(); err == nil {
			w, err = n.recognise(l, &g)
		}
		return errors.Join(err, answer(conn, k, &g, w, err))
	})
	if err == nil && g.Blocks && w.Streams != "" {
		err = n.stream(l)
	}
	switch {
	case err != nil && n.ctx.Err() == nil:
		n.reject(conn, err)
		fallthrough
	case err != nil:
		hangUp(conn)
		n.drop(l)
	case g.Blocks:
		close(l.setup.paired)
	default:
		n.await(l)
	}
}

// hear reads a greeting. Its dialer has the private key for the public one in it.
func (n *Node) hear(conn net.Conn, g *greeting) (k trust.Key, err error) {
	c := challenge{n.cfg.Self.PublicKey, trust.NewNonce()}
	if err := wire.WriteMessage(conn, c); err != nil {
		return k, err
	}
	if err := wire.ReadMessage(conn, maxGreetingBytes, g); err != nil {
		return k, err
	}
	if k, err = n.common(g.From, g.Key); err == nil {
		said := *g
		said.MAC = trust.MAC{}
		err = k.Check(g.MAC, trust.Dialer, c, said)
	}
	if err != nil {
		return k, fmt.Errorf("%w: %w: node %d calls node %d", errStranger, err, g.From, g.To)
	}
	return k, nil
}

func (n *Node) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.running.Add(1)
	}
	return !n.closed
}

// recognise finds out what the dialer of a link and this node see of each other.
func (n *Node) recognise(l *link, g *greeting) (w view, err error) {
	var owner string
	if !g.Blocks {
		owner, err = n.probe(g.Host, g.SHM)
	}
	tooMany := n.strangersWithStreams() >= maxStreams
	l.mu.Lock()
	defer l.mu.Unlock()
	if !g.Blocks {
		l.sight.owner = owner
		return n.view(), err
	}
	l.sight.seen = g.Sees
	if w = n.wishes(l); w.Streams != g.Streams || tooMany {
		w.Streams = ""
	}
	l.setup.streams = w.Streams != ""
	return w, nil
}

// strangersWithStreams counts links of which no group was attached yet.
func (n *Node) strangersWithStreams() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.mu.Lock()
		if l.setup.streams && !l.known {
			count++
		}
		l.mu.Unlock()
	}
	return count
}

func answer(conn net.Conn, k trust.Key, g *greeting, v view, refusal error) error {
	w := welcome{view: v}
	if refusal != nil {
		w.Refused = refusal.Error()
	}
	w.MAC = k.MAC(trust.Listener, *g, w)
	return wire.WriteMessage(conn, w)
}

// admit makes a link of a connection for control, and completes it with one for blocks.
func (n *Node) admit(conn net.Conn, g *greeting) (*link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.closed:
		return nil, ErrClosed
	case g.To != n.cfg.Self.ID || g.From <= g.To || len(g.Session) == 0 || len(g.Session) > maxSessionBytes:
		return nil, fmt.Errorf("%w: node %d calls node %d; this is node %d", errStranger, g.From, g.To, n.cfg.Self.ID)
	}
	i := slices.IndexFunc(n.links, func(l *link) bool {
		return !l.dialed && l.peer == g.From && l.shown.key == g.Key && l.session == g.Session
	})
	switch {
	case !g.Blocks && i < 0:
		n.makePlace()
		l := newLink(n, g.From, false, g.Session)
		l.showed(conn, g.Key)
		l.control = conn
		n.add(l)
		return l, nil
	case g.Blocks && i >= 0 && n.links[i].blocks == nil && n.links[i].showed(conn, g.Key):
		n.links[i].blocks = conn
		return n.links[i], nil
	}
	return nil, fmt.Errorf("%w: node %d has no such session", errStranger, g.From)
}

// makePlace cuts off the oldest stranger if there are too many. A member attaches within moments.
func (n *Node) makePlace() {
	var strangers []*link
	for _, l := range n.links {
		if !l.isKnown() {
			strangers = append(strangers, l)
		}
	}
	if len(strangers) >= maxStrangers {
		strangers[0].fail(errCrowded)
	}
}

// await waits for the other connection of a link, and runs it.
func (n *Node) await(l *link) {
	t := time.NewTimer(greetTime)
	defer t.Stop()
	select {
	case <-l.setup.paired:
		n.adopt(l)
		l.run()
		return
	case <-t.C:
	case <-n.ctx.Done():
	}
	n.drop(l)
}

// drop ends a link of which one connection has come only.
func (n *Node) drop(l *link) {
	if l == nil {
		return
	}
	n.mu.Lock()
	n.links = slices.DeleteFunc(n.links, func(o *link) bool { return o == l })
	n.mu.Unlock()
	l.fail(ErrClosed)
}

// adopt makes a link that is whole one of the node's, and introduces the groups.
func (n *Node) adopt(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l.mu.Lock()
	l.setup.whole = true
	l.mu.Unlock()
	if n.closed {
		l.fail(ErrClosed)
	}
	if l.number == 0 {
		n.add(l)
	}
	n.met(func(a *attach.Node, out *attach.Effects) { a.Up(l.number, l.proof(), l.dialed, uptime(), out) })
}

// add gives a link its number. The node's lock is held.
func (n *Node) add(l *link) {
	n.count++
	l.number = n.count
	n.links = append(n.links, l)
}

// route is the way to a peer that this node dials.
type route struct {
	peer Peer // guarded by the node's lock, as are all fields
	err  error
	bell wait.Bell
}

// Pauses between two attempts to reach a peer.
const (
	pauseMin = 5 * time.Millisecond
	pauseMax = 200 * time.Millisecond
)

// reach dials a peer for as long as a group waits for it. The node's lock is held.
func (n *Node) reach(p Peer) {
	for _, l := range n.links {
		if l.dialed && l.peer == p.ID && !p.is(l) {
			l.fail(errReplaced)
		}
	}
	if r := n.routes[p.ID]; r != nil {
		r.peer = p
		r.bell.Ring()
		return
	}
	r := &route{peer: p, bell: wait.NewBell()}
	n.routes[p.ID] = r
	n.running.Go(func() { n.keep(r) })
}

// keep has a link to a peer as long as one is needed.
func (n *Node) keep(r *route) {
	pause := wait.Backoff{First: pauseMin, Longest: pauseMax}
	for {
		p, needed := n.needed(r)
		if !needed {
			return
		}
		l, err := n.dial(p)
		n.note(r, err)
		if err == nil {
			n.adopt(l)
			start := time.Now()
			l.run()
			if time.Since(start) > pauseMax { // a peer that hangs up at once is no better than one that does not answer
				pause.Reset()
			}
		}
		select {
		case <-time.After(pause.Next()):
		case <-r.bell:
		case <-n.ctx.Done():
		}
	}
}

// needed reports whether a group waits for the peer of a route. If none does, the route ends.
func (n *Node) needed(r *route) (Peer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed && n.attach.Misses(r.peer.ID) {
		return r.peer, true
	}
	delete(n.routes, r.peer.ID)
	return Peer{}, false
}

func (n *Node) note(r *route, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.err = err
}
