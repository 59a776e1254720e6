package ripc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/tcp"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/trust"
)

// version is that of what two endpoints say to each other.
const version = 2

const (
	handshakeTime = 5 * time.Second
	greetingBytes = 4 << 10
)

// pause is a moment in which others get on.
func pause() { time.Sleep(50 * time.Microsecond) }

// challenge is what the process that is called says first.
type challenge struct {
	Nonce trust.Nonce `json:"nonce"`
}

// hello is what the process that calls says of itself.
type hello struct {
	Version     int         `json:"version"`
	Incarnation string      `json:"incarnation"`
	RingBytes   int         `json:"ring_bytes"`
	Long        string      `json:"long,omitempty"`   // the connection is for the long messages of the pair with this token
	Stream      string      `json:"stream,omitempty"` // they may go through a stream of the transport with this name
	Nonce       trust.Nonce `json:"nonce"`
	MAC         trust.MAC   `json:"mac"` // of all that, and of the challenge
}

// welcome is the answer.
type welcome struct {
	Refused     string    `json:"refused,omitempty"`
	Incarnation string    `json:"incarnation"`
	RingBytes   int       `json:"ring_bytes"`
	Stream      string    `json:"stream,omitempty"` // they go through one
	MAC         trust.MAC `json:"mac"`              // of all that, and of the hello
}

func (e *Endpoint) hello(c challenge, token, stream string) hello {
	h := hello{Version: version, Incarnation: e.incarnation, RingBytes: e.cfg.RingBytes, Long: token, Stream: stream, Nonce: trust.NewNonce()}
	h.MAC = e.key.MAC(trust.Dialer, c, h)
	return h
}

// judge checks a hello, and returns the answer. There is none if it does not refuse the hello, and
// the error is not nil.
func (e *Endpoint) judge(c challenge, h hello, who Peer) (w welcome, err error) {
	said := h
	said.MAC = trust.MAC{}
	if err := e.key.Check(h.MAC, trust.Dialer, c, said); err != nil {
		w.Refused = trust.ErrSecret.Error() // without a MAC: this process proves nothing either
		return w, fmt.Errorf("%w: %w", err, trust.ErrSecret)
	}
	w.Incarnation, w.RingBytes = e.incarnation, e.cfg.RingBytes
	switch err = checkRing(h.RingBytes); {
	case h.Version != version:
		err = fmt.Errorf("%w: version %d, this is %d", ErrRefused, h.Version, version)
	case err != nil:
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	case e.isClosing(): // no answer either: the service may be elsewhere soon
		return w, ErrClosed
	case h.Long == "":
		own, row := pair.Shape(e.cfg.RingBytes).RowBytes, pair.Shape(h.RingBytes).RowBytes
		if full := e.full(who.account(), pairBytes(own, row, who.Addr == "")); full != nil {
			err = fmt.Errorf("%w: %w", ErrRefused, full)
		}
	}
	if err != nil {
		w.Refused = err.Error()
	}
	return e.signed(h, w), err
}

// signed is an answer with its MAC.
func (e *Endpoint) signed(h hello, w welcome) welcome {
	w.MAC = trust.MAC{}
	w.MAC = e.key.MAC(trust.Listener, h, w)
	return w
}

// heed checks the answer to a hello.
func (e *Endpoint) heed(h hello, w welcome, want string) error {
	said := w
	said.MAC = trust.MAC{}
	if err := e.key.Check(w.MAC, trust.Listener, h, said); err != nil {
		return fmt.Errorf("%w: %w", err, trust.ErrSecret)
	}
	switch {
	case w.Refused != "":
		return fmt.Errorf("%w: %.300s", ErrRefused, w.Refused)
	case w.Stream != "" && w.Stream != h.Stream:
		return fmt.Errorf("%w: it names a stream that was not asked for", ErrRefused)
	case want != "" && w.Incarnation != want:
		return fmt.Errorf("%w: another process is there", ErrNoService)
	}
	return checkRing(w.RingBytes)
}

func checkRing(n int) error {
	if n > MaxRingBytes {
		return fmt.Errorf("a ring of %d bytes, the limit is %d", n, MaxRingBytes)
	}
	return pair.CheckRing(n)
}

// full returns why no further peer of an account is taken, or nil. The peer called, and takes so
// many bytes.
func (e *Endpoint) full(account string, bytes int64) error {
	e.lock()
	defer e.unlock()
	return e.accounts.Admits(account, bytes, true)
}

func (e *Endpoint) isClosing() bool {
	e.lock()
	defer e.unlock()
	return e.closing
}

// dialer has what an endpoint knows of places. The endpoint's mu guards it.
type dialer struct {
	dialing map[Place]*dial
	seen    map[ID]Place // where services were found last
}

// maxSeen is of how many services an endpoint knows where they were.
const maxSeen = 4096

// find returns the connection to a place. If there is none, it has to be made.
func (t *dialer) find(place Place) (d *dial, begin bool) {
	d = t.dialing[place]
	if d != nil && (!isClosed(d.done) || d.err == nil && !d.peer.ended()) {
		return d, false
	}
	d = &dial{done: make(chan struct{})}
	t.dialing[place] = d
	return d, true
}

// forget forgets a peer that ended.
func (t *dialer) forget(p *peer) {
	for place, d := range t.dialing {
		if d.peer == p {
			delete(t.dialing, place)
		}
	}
}

// saw notes where a service was found, and reports whether it was at another place before.
func (t *dialer) saw(id ID, at Place) (before Place, moved bool) {
	before, known := t.seen[id]
	if !known && len(t.seen) >= maxSeen {
		for other := range t.seen { // any
			delete(t.seen, other)
			break
		}
	}
	t.seen[id] = at
	return before, known && before != at
}

// dial is a connection that is made, or was.
type dial struct {
	done chan struct{}
	peer *peer
	err  error
}

// peerAt returns the connection to a place, and makes it if there is none.
func (e *Endpoint) peerAt(ctx context.Context, place Place) (*peer, error) {
	e.lock()
	d, begin := e.dialer.find(place)
	if begin {
		e.background.Go(func() { e.dial(place, d) })
	}
	e.unlock()
	select {
	case <-d.done:
		return d.peer, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dial connects to a place, for all that wait for it.
func (e *Endpoint) dial(place Place, d *dial) {
	ctx, cancel := context.WithTimeout(e.ctx, handshakeTime)
	defer cancel()
	p, err := e.call(ctx, place)
	if err != nil && !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNoService) && !errors.Is(err, trust.ErrUnproven) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	e.lock()
	d.peer, d.err = p, err
	if err != nil {
		delete(e.dialer.dialing, place)
	}
	close(d.done)
	e.unlock()
}

// call connects by the fastest transport that is allowed.
func (e *Endpoint) call(ctx context.Context, place Place) (*peer, error) {
	if e.ports.isHere(place) {
		return e.ports.local.dial(ctx, place)
	}
	if place.Addr == "" || e.cfg.Transport == TransportSHM {
		return nil, fmt.Errorf("no transport leads to %+v", place)
	}
	return e.dialTCP(ctx, place)
}

func (e *Endpoint) dialTCP(ctx context.Context, place Place) (*peer, error) {
	conn, g, err := e.greetTCP(ctx, place, "", "")
	if err != nil {
		return nil, err
	}
	return e.linkTCP(conn, g, &place)
}

// maxGreetingTCP is how many processes are greeted at a time, and half of that number may be of one
// account: each has a goroutine and a connection for a while, before it proved that it knows the
// secret.
const maxGreetingTCP = 256

// acceptTCP answers a process that called the port.
func (e *Endpoint) acceptTCP(conn net.Conn) {
	who := callerOf(conn)
	account := who.account()
	if err := e.ports.greeting.enter(account); err != nil {
		conn.Close()
		e.cfg.OnReject(fmt.Errorf("ripc: %v: %w", who, err))
		return
	}
	defer e.ports.greeting.leave(account)
	conn.SetDeadline(time.Now().Add(handshakeTime))
	c := challenge{Nonce: trust.NewNonce()}
	var h hello
	err := wire.WriteMessage(conn, c)
	if err == nil {
		err = wire.ReadMessage(conn, greetingBytes, &h)
	}
	if err == nil {
		var w welcome
		w, err = e.judge(c, h, who)
		switch {
		case err == nil && h.Long != "":
			err = e.acceptBulk(conn, who, h, w)
		case err == nil || w.Refused != "":
			err = errors.Join(err, wire.WriteMessage(conn, w))
		}
	}
	if err == nil && h.Long == "" {
		_, err = e.linkTCP(conn, greeted{ring: h.RingBytes, token: e.tokenOf(c, h)}, nil)
	} else if err != nil {
		conn.Close()
	}
	if err != nil {
		e.cfg.OnReject(fmt.Errorf("ripc: %v: %w", who, err))
	}
}

// linkTCP makes a peer of a connection on which the handshake is done. The side that called says
// where.
func (e *Endpoint) linkTCP(conn net.Conn, g greeted, called *Place) (*peer, error) {
	conn.SetDeadline(time.Time{})
	who := callerOf(conn)
	shape := pair.Shape(e.cfg.RingBytes)
	own, release, err := fabric.NewMemory(shape.RowBytes)
	if err != nil {
		conn.Close()
		return nil, err
	}
	link, err := tcp.NewLink(conn, tcp.Config{Own: own, OwnShape: shape, PeerShape: pair.Shape(g.ring), Parker: e.parker})
	if err != nil {
		conn.Close()
		return nil, errors.Join(err, release())
	}
	long := longs{token: g.token}
	if called != nil {
		long.dialer, long.place = true, *called
	}
	p, err := e.add(link, who, called == nil, own, release, long)
	if err != nil {
		return nil, errors.Join(err, link.Close(), release())
	}
	return p, nil
}
