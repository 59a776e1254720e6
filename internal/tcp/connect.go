package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

const (
	handshakeTime = 5 * time.Second
	helloBytes    = 4 << 10 // far more than a Hello takes: a stranger must not make us read a megabyte
	seats         = 128     // twice what the largest view needs
)

// Connector makes links: it dials peers of lower rank and takes the calls of peers of higher rank.
type Connector struct {
	port     *port.Port
	tls      *tls.Config
	accepted handshake.AcceptQueue
}

// NewConnector takes the port's connections for rows. It reports the connections that it turns away
// to the port.
func NewConnector(p *port.Port, tlsConfig *tls.Config) *Connector {
	return newConnector(p, tlsConfig, handshakeTime)
}

func newConnector(p *port.Port, tlsConfig *tls.Config, patience time.Duration) *Connector {
	c := &Connector{port: p, tls: tlsConfig, accepted: handshake.AcceptQueue{Timeout: patience, MaxPending: seats}}
	c.accepted.Reject = func(conn net.Conn, err error) {
		p.Reject(port.NewRejection(port.KindRows, conn.RemoteAddr().String(), err))
	}
	p.Handle(port.KindRows, c.accept)
	return c
}

// Close ends connections that belong to no table and waits for their goroutines. It leaves the port
// alone.
func (c *Connector) Close() {
	c.port.Handle(port.KindRows, nil)
	c.accepted.Close()
}

// accept seats a caller until its view is opened here.
func (c *Connector) accept(conn net.Conn) {
	c.accepted.Admit(conn, func() (handshake.Caller, error) {
		caller := handshake.Caller{Conn: conn, Challenge: handshake.Challenge{Nonce: trust.NewNonce()}}
		err := wire.WriteMessage(conn, caller.Challenge)
		if err == nil {
			caller.Hello, err = hear(conn)
		}
		return caller, err
	})
}

// hear reads a greeting.
func hear(conn net.Conn) (h handshake.Hello, err error) {
	err = wire.ReadMessage(conn, helloBytes, &h)
	return h, err
}

// Dial makes the link to a peer of lower rank. A peer that has no place now, or does not await the
// view yet, is called again until ctx ends. The link is one of the transport that both ends have,
// if they have one and it works.
func (c *Connector) Dial(ctx context.Context, spec *fabric.Spec, to order.Rank, own []byte) (fabric.Link, error) {
	l, err := handshake.DialWithRetry(ctx, func() (fabric.Link, error) { return c.dial(ctx, spec, to, own) })
	if err != nil {
		return nil, fmt.Errorf("rows of node %d at %s: %w", spec.Peers[to].ID, spec.Peers[to].Addr, err)
	}
	return l, nil
}

func (c *Connector) dial(ctx context.Context, spec *fabric.Spec, to order.Rank, own []byte) (fabric.Link, error) {
	peer := spec.Peers[to]
	conn, err := port.Dial(ctx, peer.Addr, port.KindRows, c.tls)
	switch {
	case errors.Is(err, port.ErrKindRefused):
		return nil, fmt.Errorf("%w: %w", fabric.ErrHungUp, err)
	case err != nil:
		return nil, handshake.HungUp(err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	transport, err := greet(conn, spec, to)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return c.link(ctx, conn, spec, to, own, transport)
}

// greet is the dialer's side of a greeting. It returns the transport that both ends have.
func greet(conn net.Conn, spec *fabric.Spec, to order.Rank) (transport string, err error) {
	var challenge handshake.Challenge
	if err := wire.ReadMessage(conn, helloBytes, &challenge); err != nil {
		return "", handshake.HungUp(err)
	}
	hello, err := handshake.NewHello(spec, to, challenge)
	if err != nil {
		return "", err
	}
	var w handshake.Welcome
	if err = wire.WriteMessage(conn, hello); err == nil {
		err = wire.ReadMessage(conn, helloBytes, &w)
	}
	if err != nil {
		return "", handshake.HungUp(err)
	}
	return w.Transport, handshake.Heed(spec, conn, hello, w)
}

// Await makes the links to the wanted peers of higher rank, as they call, and hands each to up,
// until ctx ends. A link of a transport is made, and handed over, on a goroutine of its own: the
// peer has a part in it, and one that is slow must not keep the others waiting.
func (c *Connector) Await(ctx context.Context, spec *fabric.Spec, wants func(order.Rank) bool, own []byte, up func(order.Rank, fabric.Link)) {
	var setups setups
	defer setups.running.Wait()
	connect := func(caller handshake.Caller, transport string) error {
		l, err := c.link(ctx, caller.Conn, spec, caller.Hello.From, own, transport)
		if err == nil {
			up(caller.Hello.From, l)
		}
		return err
	}
	serve := func(caller handshake.Caller) error {
		transport := caller.Hello.Transport
		if transport == "" || transport != spec.Transport() {
			if err := answer(caller, spec, nil); err != nil {
				return err
			}
			return connect(caller, "")
		}
		return setups.start(caller.Hello.From, func() {
			err := answer(caller, spec, nil)
			if err == nil {
				err = connect(caller, transport)
			}
			if err != nil {
				c.accepted.RejectTaken(caller.Conn, err)
			}
		})
	}
	refuse := func(caller handshake.Caller, err error) {
		_ = answer(caller, spec, err) // it is closed anyway
	}
	c.accepted.Await(ctx, spec, wants, serve, refuse)
}

// setups are the links of a transport that are being made for callers: one for each rank, so that a
// caller that calls often cannot take more than its share of the device.
type setups struct {
	ranks   sync.Map // those with a setup
	running sync.WaitGroup
}

func (s *setups) start(r order.Rank, setup func()) error {
	if _, is := s.ranks.LoadOrStore(r, nil); is {
		return fmt.Errorf("%w: an earlier connection of rank %d is still being set up", fabric.ErrCrowded, r)
	}
	s.running.Go(func() {
		defer s.ranks.Delete(r)
		setup()
	})
	return nil
}

// answer tells a caller that it is welcome, or why it is not.
func answer(caller handshake.Caller, spec *fabric.Spec, why error) error {
	w, err := handshake.Answer(spec, caller.Hello, why)
	if err == nil {
		err = caller.Conn.SetDeadline(time.Now().Add(handshakeTime))
	}
	if err == nil {
		err = wire.WriteMessage(caller.Conn, w)
	}
	return err
}

// link makes a link of a connection: one of the transport, if both ends have it.
func (c *Connector) link(ctx context.Context, conn net.Conn, spec *fabric.Spec, peer order.Rank, own []byte, transport string) (fabric.Link, error) {
	var instead error
	if transport != "" && transport == spec.Transport() {
		l, err := spec.Links.Connect(ctx, conn, peer)
		if err == nil {
			return l, nil
		}
		if !errors.Is(err, fabric.ErrRefused) {
			conn.Close()
			return nil, err
		}
		instead = err
	}
	conn.SetDeadline(time.Time{})
	l, err := NewLink(conn, Config{
		View: order.ViewID(spec.Scope.View), Own: own, Parker: spec.Parker,
		OwnShape: spec.Peers[spec.Self].Shape, PeerShape: spec.Peers[peer].Shape,
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.Why = instead
	return l, nil
}
