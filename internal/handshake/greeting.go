// Package handshake connects the rows of two members: the member of higher rank dials and says
// Hello, the other one keeps callers in a bounded queue until it awaits their view, and answers
// Welcome. Each proves with its key pair that it is the member that it says it is.
package handshake

import (
	"errors"
	"fmt"
	"net"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Challenge opens a connection for rows: the listener says it at once, before it knows the caller.
// The dialer's Hello authenticates the nonce, so a Hello that was recorded elsewhere is of no use
// (T2).
type Challenge struct {
	Nonce trust.Nonce `json:"nonce"`
}

// Hello is what the member of higher rank, which dials, says of itself.
type Hello struct {
	View  order.ViewID    `json:"view"`
	Tag   string          `json:"tag"` // names the view to its members
	From  order.Rank      `json:"from"`
	To    order.Rank      `json:"to"`
	Shape fabric.RowShape `json:"shape"` // of the sender's row
	Nonce trust.Nonce     `json:"nonce"` // the answer authenticates it
	MAC   trust.MAC       `json:"mac"`   // of all that, and of the challenge

	Transport string `json:"transport,omitempty"` // that the sender has, besides TCP
}

// Welcome answers a Hello; a reason means that it was refused.
type Welcome struct {
	Refused string          `json:"refused,omitempty"`
	GivenUp bool            `json:"given_up,omitempty"` // because the peer froze the caller's row before they were connected
	Shape   fabric.RowShape `json:"shape"`
	MAC     trust.MAC       `json:"mac"` // of all that, and of the Hello

	Transport string `json:"transport,omitempty"` // the one that both have
}

// key authenticates the connection for the rows of this member and a peer.
func key(s *fabric.Spec, peer order.Rank) (trust.Key, error) {
	return s.Identity.Key(trust.Rows, s.Scope, party(&s.Peers[s.Self]), party(&s.Peers[peer]))
}

func party(p *fabric.Peer) trust.Party {
	return trust.Party{Node: uint64(p.ID), Incarnation: p.Incarnation, PublicKey: p.PublicKey}
}

// NewHello is the greeting of this member to a peer that sent a challenge.
func NewHello(s *fabric.Spec, to order.Rank, c Challenge) (Hello, error) {
	k, err := key(s, to)
	if err != nil {
		return Hello{}, err
	}
	h := Hello{
		View: order.ViewID(s.Scope.View), Tag: s.Scope.Tag(), From: s.Self, To: to, Shape: s.Peers[s.Self].Shape, Nonce: trust.NewNonce(),
		Transport: s.Transport(),
	}
	h.MAC = k.MAC(trust.Dialer, c, h)
	return h, nil
}

// Check compares a greeting with what the view says its sender must say. ErrUnproven says that it
// is not the sender's: nothing in it is believed, and it gets no answer.
func Check(s *fabric.Spec, conn net.Conn, c Challenge, h Hello) error {
	if h.To != s.Self || h.From <= s.Self || int(h.From) >= len(s.Peers) {
		return fmt.Errorf("%w: from rank %d to rank %d, this is rank %d of %d", fabric.ErrUnproven, h.From, h.To, s.Self, len(s.Peers))
	}
	k, err := key(s, h.From)
	if err == nil {
		said := h
		said.MAC = trust.MAC{}
		err = k.Check(h.MAC, trust.Dialer, c, said)
	}
	if err == nil {
		err = trust.CheckCertificate(conn, s.Peers[h.From].Certificate)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", err, h)
	}
	if h.Shape != s.Peers[h.From].Shape {
		return fmt.Errorf("%w: rows of rank %d are %v there and %v here", fabric.ErrRefused, h.From, h.Shape, s.Peers[h.From].Shape)
	}
	return nil
}

// Answer is what this member answers to a Hello that passed Check, or failed it with ErrRefused:
// why is the reason, or nil.
func Answer(s *fabric.Spec, h Hello, why error) (w Welcome, err error) {
	k, err := key(s, h.From)
	if err != nil {
		return w, err
	}
	w.Shape = s.Peers[s.Self].Shape
	if why == nil && h.Transport == s.Transport() {
		w.Transport = h.Transport
	}
	if why != nil {
		w.Refused, w.GivenUp = why.Error(), errors.Is(why, fabric.ErrGivenUp)
	}
	w.MAC = k.MAC(trust.Listener, h, w)
	return w, nil
}

// Heed is what this member makes of the answer to its Hello: nil if it is welcome. An answer that
// the peer did not authenticate is none: it may be that of a process that listens where the peer
// did.
func Heed(s *fabric.Spec, conn net.Conn, h Hello, w Welcome) error {
	peer := s.Peers[h.To]
	k, err := key(s, h.To)
	if err == nil {
		said := w
		said.MAC = trust.MAC{}
		err = k.Check(w.MAC, trust.Listener, h, said)
	}
	if err == nil {
		err = trust.CheckCertificate(conn, peer.Certificate)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", fabric.ErrHungUp, err)
	case w.GivenUp:
		return fmt.Errorf("%w: %w: %s", fabric.ErrRefused, fabric.ErrGivenUp, w.Refused)
	case w.Refused != "":
		return fmt.Errorf("%w: %s", fabric.ErrRefused, w.Refused)
	case w.Shape != peer.Shape:
		return fmt.Errorf("%w: its rows are %v there and %v here", fabric.ErrRefused, w.Shape, peer.Shape)
	}
	return nil
}

// String tells what the caller said it is, without tag and MAC.
func (h Hello) String() string {
	return fmt.Sprintf("rank %d calls rank %d of view %d", h.From, h.To, h.View)
}
