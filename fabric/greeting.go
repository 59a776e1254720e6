package fabric

import (
	"errors"
	"fmt"
	"net"

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
	View  order.ViewID `json:"view"`
	Tag   string       `json:"tag"` // names the view to its members
	From  order.Rank   `json:"from"`
	To    order.Rank   `json:"to"`
	Shape RowShape     `json:"shape"` // of the sender's row
	Nonce trust.Nonce  `json:"nonce"` // the answer authenticates it
	MAC   trust.MAC    `json:"mac"`   // of all that, and of the challenge
}

// Welcome answers a Hello; a reason means that it was refused.
type Welcome struct {
	Refused string    `json:"refused,omitempty"`
	GivenUp bool      `json:"given_up,omitempty"` // because the peer froze the caller's row before they were connected
	Shape   RowShape  `json:"shape"`
	MAC     trust.MAC `json:"mac"` // of all that, and of the Hello
}

// Errors of connections for rows. All but ErrRefused end the connection without an answer, which
// its dialer takes for a reason to come again (DialWithRetry).
var (
	// ErrRefused says that a peer did not accept a connection for rows.
	ErrRefused = errors.New("refused")
	// ErrGivenUp says that a peer froze the row of this member before they were connected.
	ErrGivenUp = errors.New("the peer gave this member up")
	// ErrNotAwaited says that a view is not being opened here: it belongs to other processes, or is
	// over, or was not opened in time.
	ErrNotAwaited = errors.New("no member here awaits its view")
	// ErrCrowded says that a connection had to make room for a later one.
	ErrCrowded = errors.New("too many callers")
	// ErrUnproven says that a caller, or a listener, did not prove that it is the member that it
	// says it is.
	ErrUnproven = trust.ErrUnproven
)

// Hello is the greeting of this member to a peer that sent a challenge.
func (s *Spec) Hello(to order.Rank, c Challenge) (Hello, error) {
	key, err := s.key(to)
	if err != nil {
		return Hello{}, err
	}
	h := Hello{
		View: order.ViewID(s.Scope.View), Tag: s.Scope.Tag(), From: s.Self, To: to, Shape: s.Peers[s.Self].Shape, Nonce: trust.NewNonce(),
	}
	h.MAC = key.MAC(trust.Dialer, c, h)
	return h, nil
}

// Check compares a greeting with what the view says its sender must say. ErrUnproven says that it
// is not the sender's: nothing in it is believed, and it gets no answer.
func (s *Spec) Check(conn net.Conn, c Challenge, h Hello) error {
	if h.To != s.Self || h.From <= s.Self || int(h.From) >= len(s.Peers) {
		return fmt.Errorf("%w: from rank %d to rank %d, this is rank %d of %d", ErrUnproven, h.From, h.To, s.Self, len(s.Peers))
	}
	key, err := s.key(h.From)
	if err == nil {
		said := h
		said.MAC = trust.MAC{}
		err = key.Check(h.MAC, trust.Dialer, c, said)
	}
	if err == nil {
		err = trust.CheckCertificate(conn, s.Peers[h.From].Certificate)
	}
	if err != nil {
		return fmt.Errorf("%w: %v", err, h)
	}
	if h.Shape != s.Peers[h.From].Shape {
		return fmt.Errorf("%w: rows of rank %d are %v there and %v here", ErrRefused, h.From, h.Shape, s.Peers[h.From].Shape)
	}
	return nil
}

// Answer is what this member answers to a Hello that passed Check, or failed it with ErrRefused:
// why is the reason, or nil.
func (s *Spec) Answer(h Hello, why error) (w Welcome, err error) {
	key, err := s.key(h.From)
	if err != nil {
		return w, err
	}
	w.Shape = s.Peers[s.Self].Shape
	if why != nil {
		w.Refused, w.GivenUp = why.Error(), errors.Is(why, ErrGivenUp)
	}
	w.MAC = key.MAC(trust.Listener, h, w)
	return w, nil
}

// Heed is what this member makes of the answer to its Hello: nil if it is welcome. An answer that
// the peer did not authenticate is none: it may be that of a process that listens where the peer
// did.
func (s *Spec) Heed(conn net.Conn, h Hello, w Welcome) error {
	peer := s.Peers[h.To]
	key, err := s.key(h.To)
	if err == nil {
		said := w
		said.MAC = trust.MAC{}
		err = key.Check(w.MAC, trust.Listener, h, said)
	}
	if err == nil {
		err = trust.CheckCertificate(conn, peer.Certificate)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	case w.GivenUp:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrGivenUp, w.Refused)
	case w.Refused != "":
		return fmt.Errorf("%w: %s", ErrRefused, w.Refused)
	case w.Shape != peer.Shape:
		return fmt.Errorf("%w: its rows are %v there and %v here", ErrRefused, w.Shape, peer.Shape)
	}
	return nil
}

// String tells what the caller said it is, without tag and MAC.
func (h Hello) String() string {
	return fmt.Sprintf("rank %d calls rank %d of view %d", h.From, h.To, h.View)
}
