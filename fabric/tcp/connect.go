package tcp

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
)

const handshakeTime = 5 * time.Second

// Connector makes links: it dials peers of lower rank and takes the calls of those of higher rank.
type Connector struct {
	port  *port.Port
	tls   *tls.Config
	lobby fabric.Lobby

	mu       sync.Mutex
	closed   bool
	greeting map[net.Conn]struct{} // connections whose greeting has not arrived yet
}

// NewConnector takes the port's connections for rows.
func NewConnector(p *port.Port, tlsConfig *tls.Config) *Connector {
	c := &Connector{port: p, tls: tlsConfig, greeting: map[net.Conn]struct{}{}, lobby: fabric.Lobby{Patience: 10 * time.Second, Seats: 128}}
	p.Handle(port.KindRows, c.accept)
	return c
}

// Close ends connections that belong to no table. It leaves the port alone.
func (c *Connector) Close() {
	c.port.Handle(port.KindRows, nil)
	c.lobby.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.greeting {
		conn.Close()
	}
}

// accept reads a caller's greeting and seats it until its view is opened here.
func (c *Connector) accept(conn net.Conn) {
	h, err := c.hear(conn)
	if err != nil || !c.lobby.Arrive(fabric.Caller{Conn: conn, Hello: h}) {
		conn.Close()
	}
}

func (c *Connector) hear(conn net.Conn) (h fabric.Hello, err error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return h, net.ErrClosed
	}
	c.greeting[conn] = struct{}{}
	c.mu.Unlock()
	conn.SetDeadline(time.Now().Add(handshakeTime))
	err = port.ReadMessage(conn, &h)
	c.mu.Lock()
	delete(c.greeting, conn)
	c.mu.Unlock()
	return h, err
}

// Dial makes the link to a peer of lower rank.
func (c *Connector) Dial(ctx context.Context, spec *fabric.Spec, to order.Rank, own []byte) (*Link, error) {
	peer := spec.Peers[to]
	conn, err := port.Dial(ctx, peer.Addr, port.KindRows, c.tls)
	if err != nil {
		return nil, fmt.Errorf("rows of node %d at %s: %w", peer.ID, peer.Addr, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	var w fabric.Welcome
	if err = port.WriteMessage(conn, spec.Hello(to)); err == nil {
		err = port.ReadMessage(conn, &w)
	}
	switch {
	case !stop():
		err = context.Cause(ctx)
	case err == nil && w.Refused != "":
		err = fmt.Errorf("%w: %s", fabric.ErrRefused, w.Refused)
	case err == nil && w.Shape != peer.Shape:
		err = fmt.Errorf("%w: its rows are %v there and %v here", fabric.ErrRefused, w.Shape, peer.Shape)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("rows of node %d at %s: %w", peer.ID, peer.Addr, err)
	}
	return c.link(conn, spec, to, own)
}

// Await makes the links to the wanted peers of higher rank, as they call.
func (c *Connector) Await(ctx context.Context, spec *fabric.Spec, want map[order.Rank]bool, own []byte, links []fabric.Link) error {
	serve := func(caller fabric.Caller) error {
		caller.Conn.SetDeadline(time.Now().Add(handshakeTime))
		if err := port.WriteMessage(caller.Conn, fabric.Welcome{Shape: spec.Peers[spec.Self].Shape}); err != nil {
			return err
		}
		l, err := c.link(caller.Conn, spec, caller.Hello.From, own)
		if err == nil {
			links[caller.Hello.From] = l
		}
		return err
	}
	refuse := func(caller fabric.Caller, err error) {
		caller.Conn.SetDeadline(time.Now().Add(handshakeTime))
		port.WriteMessage(caller.Conn, fabric.Welcome{Refused: err.Error()}) // it is closed anyway
	}
	return c.lobby.Await(ctx, spec, want, serve, refuse)
}

func (c *Connector) link(conn net.Conn, spec *fabric.Spec, peer order.Rank, own []byte) (*Link, error) {
	conn.SetDeadline(time.Time{})
	return NewLink(conn, Config{
		View: spec.View, Own: own, Parker: spec.Parker,
		OwnShape: spec.Peers[spec.Self].Shape, PeerShape: spec.Peers[peer].Shape,
	})
}
