package copy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// version is that of the conversation; both ends have the same.
const version = 6

// hello is the first that a pusher says, in the clear.
type hello struct {
	Version int `json:"version"`
}

// greeting is the answer to it, in the clear.
type greeting struct {
	Version int    `json:"version"`
	Sealed  bool   `json:"sealed,omitempty"` // a token is needed, and all that follows is encrypted under it
	Rack    string `json:"rack,omitempty"`
}

// request is what the pusher says. One field is set.
type request struct {
	Offer   *offer  `json:"offer,omitempty"`
	Entries []entry `json:"entries,omitempty"` // as many of these as it takes
	Start   *start  `json:"start,omitempty"`   // all receivers accepted
	Verify  []byte  `json:"verify,omitempty"`  // all is sent: the digest of the archive
	Place   bool    `json:"place,omitempty"`   // all receivers have all: put the files in their places
	Keep    bool    `json:"keep,omitempty"`    // all receivers did
	Quit    string  `json:"quit,omitempty"`    // why nothing comes of it
}

// offer is how much is to be pushed.
type offer struct {
	ID      uint64 `json:"id"` // the receiver's, in this push
	Entries int    `json:"entries"`
	Force   bool   `json:"force,omitempty"`
}

// start describes the group in which the archive travels.
type start struct {
	Key       string   `json:"key"`
	Members   []member `json:"members"` // the pusher first
	Algorithm uint8    `json:"algorithm,omitempty"`
	Block     int      `json:"block,omitempty"`
}

type member struct {
	ID   uint64 `json:"id"`
	Addr string `json:"addr"`
	Rack string `json:"rack,omitempty"`
}

// peers are the members as the group knows them.
func (s *start) peers() (all []rdmc.Peer) {
	for _, m := range s.Members {
		all = append(all, rdmc.Peer{ID: order.NodeID(m.ID), Addr: m.Addr, Rack: m.Rack})
	}
	return all
}

// reply is what a receiver says when it has done what it was asked for; or why it has not, also
// unasked.
type reply struct {
	Refused  []string `json:"refused,omitempty"` // why it does not take the push
	Failed   string   `json:"failed,omitempty"`
	Indirect bool     `json:"indirect,omitempty"` // with Failed: another process failed
}

// Times of a conversation.
const (
	greetTime = 10 * time.Second // for both greetings
	silence   = 15 * time.Second // after which the other side is taken to be gone
	// hangUpTime bounds how long a side that has sent its last value waits for the other to hang up.
	hangUpTime = 3 * time.Second
)

var times = wire.Times{Dial: greetTime, Silence: silence, Stall: silence}

// maxGreeting bounds the two greetings.
const maxGreeting = 4 << 10

var (
	errFrame   = errors.New("the other end says something that is no part of the conversation")
	errVersion = errors.New("the versions differ")
	errToken   = errors.New("the other end has another token")
	errGone    = errors.New("it is gone")
	errSilent  = fmt.Errorf("%w: nothing was heard of it for %v", errGone, silence)
	errEnded   = fmt.Errorf("%w: its connection ended", errGone)
)

// conn is one side of a conversation, over TLS if there is a token.
type conn struct {
	*wire.Conn
	stop func() // ends the pulses, once they have begun
}

// newConn begins a conversation with a greeting.
func newConn(c net.Conn) *conn {
	t := &conn{Conn: wire.New(c, times, maxGreeting)}
	t.Greet()
	return t
}

// secure encrypts the rest of the conversation under a token. A process with another token can
// neither read it nor send anything that is accepted.
func (t *conn) secure(token []byte, side func(net.Conn, *tls.Config) *tls.Conn) error {
	config, err := secret(token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), greetTime)
	defer cancel()
	c := side(t.Conn.Conn, config)
	if err := c.HandshakeContext(ctx); err != nil {
		if left := connError(err); errors.Is(left, errSilent) || errors.Is(left, errEnded) {
			return left
		}
		return errToken
	}
	t.Conn = wire.New(c, times, maxGreeting)
	return nil
}

// introduce is the pusher's side of the greetings.
func introduce(c net.Conn, token []byte) (*conn, greeting, error) {
	t := newConn(c)
	var g greeting
	if err := t.send(hello{version}); err != nil {
		return nil, g, err
	}
	if err := t.receive(&g); err != nil {
		return nil, g, err
	}
	switch {
	case g.Version != version:
		return nil, g, fmt.Errorf("%w: it speaks version %d of a push, this command version %d", errVersion, g.Version, version)
	case g.Sealed && token == nil:
		return nil, g, errors.New("it wants a token: give --token-file")
	case !g.Sealed && token != nil:
		return nil, g, errors.New("it has no token, so its identity is unknown: start it with --token-file")
	}
	if token != nil {
		if err := t.secure(token, tls.Client); err != nil {
			return nil, g, err
		}
	}
	t.greeted()
	return t, g, nil
}

// welcome is the receiver's side of the greetings.
func welcome(c net.Conn, token []byte, rack string) (*conn, error) {
	t := newConn(c)
	var h hello
	if err := t.receive(&h); err != nil {
		return nil, err
	}
	if err := t.send(greeting{version, token != nil, rack}); err != nil {
		return nil, err
	}
	if h.Version != version {
		return nil, fmt.Errorf("%w: the pusher speaks version %d, this command version %d", errVersion, h.Version, version)
	}
	if token != nil {
		if err := t.secure(token, tls.Server); err != nil {
			return nil, err
		}
	}
	t.greeted()
	return t, nil
}

// send sends a value. It may be called from any goroutine.
func (t *conn) send(v any) error { return connError(t.Say(v)) }

// receive reads the next value.
func (t *conn) receive(v any) error { return connError(t.Hear(v)) }

// connError is what an error of a connection means.
func connError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, wire.ErrCorrupt):
		return fmt.Errorf("%w: %w", errFrame, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return errEnded
	}
	return fmt.Errorf("%w: %w", errGone, err)
}

// greeted ends the greeting. From now on the other side is shown that this one is there.
func (t *conn) greeted() {
	t.Greeted()
	t.Take(wire.MaxMessageBytes)
	t.stop = t.Pulses()
}

// close ends the conversation. What was said before reaches the other side.
func (t *conn) close() {
	t.Conn.Close() // first: a pulse may wait for a reader that takes nothing
	t.stop()
}
