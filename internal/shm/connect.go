//go:build linux

package shm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/handshake"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"golang.org/x/sys/unix"
)

const (
	handshakeTime = 5 * time.Second
	messageBytes  = 4 << 10
	// maxDescriptors is the largest number of descriptors that a packet may carry.
	maxDescriptors = 4
	ownDescriptors = 2   // of a process: of its row and its robust word
	seats          = 128 // twice what the largest view needs
)

// Host is equal for processes that reach each other's sockets and memory: same boot, same network
// namespace, same user. It is empty if that cannot be found out.
func Host() string { return samehost.Host() }

// Connector makes links: it dials peers of lower rank and takes the calls of peers of higher rank.
type Connector struct {
	name     string
	user     int
	listener *net.UnixListener
	accepted handshake.AcceptQueue
	done     sync.WaitGroup
	robust   *robust // of this process
}

// NewConnector listens on an abstract unix socket of a random name. reject is told of each
// connection that is turned away; it is called from several goroutines and must not block.
func NewConnector(reject func(port.Rejection)) (*Connector, error) {
	return newConnector(reject, os.Getuid(), handshakeTime)
}

// newConnector serves the processes of one user.
func newConnector(reject func(port.Rejection), user int, patience time.Duration) (*Connector, error) {
	r, err := newRobust()
	if err != nil {
		return nil, err
	}
	l, name, err := samehost.Listen("squall-")
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	c := &Connector{name: name, user: user, listener: l, robust: r, accepted: handshake.AcceptQueue{Timeout: patience, MaxPending: seats}}
	c.accepted.Reject = func(conn net.Conn, err error) {
		process, _ := samehost.Peer(conn.(syscall.Conn), user)
		reject(port.NewRejection(port.KindRows, process, err))
	}
	c.done.Go(func() { c.listen(reject) })
	return c, nil
}

// Name is what peers dial.
func (c *Connector) Name() string { return c.name }

// Absent has peers that peek at this process's rows find it gone from now on (H5). Links can still
// be made, and work.
func (c *Connector) Absent() { c.robust.mark() }

// Close stops listening, ends connections that belong to no table and waits for their goroutines.
// All tables were closed before: their attempts to connect send descriptors that Close closes.
func (c *Connector) Close() error {
	err := c.listener.Close()
	c.accepted.Close()
	c.done.Wait()
	return errors.Join(err, c.robust.close())
}

func (c *Connector) listen(reject func(port.Rejection)) {
	samehost.Accept(c.listener, func(conn *net.UnixConn) {
		process, ours := samehost.Peer(conn, c.user)
		if ours {
			c.done.Go(func() { c.accept(conn) })
			return
		}
		r := port.Rejection{Remote: process, Kind: port.KindRows, Reason: port.OtherUser}
		r.Err = fmt.Errorf("%w: shared memory is for user %d only", fabric.ErrRefused, c.user)
		reject(r)
		conn.Close()
	})
}

// accept seats a caller until its view is opened here.
func (c *Connector) accept(conn *net.UnixConn) {
	c.accepted.Admit(conn, func() (handshake.Caller, error) {
		caller := handshake.Caller{Conn: conn, Challenge: handshake.Challenge{Nonce: trust.NewNonce()}}
		err := Send(conn, caller.Challenge)
		if err == nil {
			err = Hear(conn, &caller.Hello)
		}
		return caller, err
	})
}

// Dial makes the link to a peer of lower rank. row is the descriptor of the own row. A peer that
// has no place now, or does not await the view yet, is called again until ctx ends.
func (c *Connector) Dial(ctx context.Context, spec *fabric.Spec, to order.Rank, row int) (*Link, error) {
	l, err := handshake.DialWithRetry(ctx, func() (*Link, error) { return c.dial(ctx, spec, to, row) })
	if err != nil {
		return nil, fmt.Errorf("shared row of node %d at @%s: %w", spec.Peers[to].ID, spec.Peers[to].SHM, err)
	}
	return l, nil
}

func (c *Connector) dial(ctx context.Context, spec *fabric.Spec, to order.Rank, row int) (*Link, error) {
	u, err := samehost.Dial(ctx, spec.Peers[to].SHM)
	if err != nil {
		return nil, handshake.HungUp(err)
	}
	if _, ours := samehost.Peer(u, c.user); !ours {
		u.Close()
		return nil, fmt.Errorf("%w: it runs as another user", fabric.ErrRefused)
	}
	stop := context.AfterFunc(ctx, func() { u.SetDeadline(time.Unix(1, 0)) })
	fds, err := greet(u, spec, to, row, c.robust.fd)
	if !stop() {
		err = context.Cause(ctx)
	}
	var l *Link
	if err == nil {
		l, err = link(u, fds, spec, to)
	}
	if err != nil {
		samehost.Close(fds)
		u.Close()
	}
	return l, err
}

// greet is the dialer's side of a greeting. Its descriptors, of its row and its robust word, follow
// only when the peer has proved its identity. The caller closes the descriptors that greet returns,
// whatever the error.
func greet(conn *net.UnixConn, spec *fabric.Spec, to order.Rank, own ...int) (fds []int, err error) {
	var challenge handshake.Challenge
	if err := Hear(conn, &challenge); err != nil {
		return nil, handshake.HungUp(err)
	}
	hello, err := handshake.NewHello(spec, to, challenge)
	if err != nil {
		return nil, err
	}
	var w handshake.Welcome
	if err = Send(conn, hello); err == nil {
		fds, err = Receive(conn, &w)
	}
	if err != nil {
		return fds, handshake.HungUp(err)
	}
	if err := handshake.Heed(spec, conn, hello, w); err != nil {
		return fds, err
	}
	if len(fds) != ownDescriptors {
		return fds, fmt.Errorf("%w: %d descriptors in its answer, not %d", fabric.ErrViolation, len(fds), ownDescriptors)
	}
	if err := Send(conn, handover{}, own...); err != nil {
		return fds, handshake.HungUp(err)
	}
	return fds, nil
}

// handover brings the dialer's descriptors.
type handover struct{}

// Await makes the links to the wanted peers of higher rank, as they call, and hands each to up,
// until ctx ends.
func (c *Connector) Await(ctx context.Context, spec *fabric.Spec, wants func(order.Rank) bool, row int, up func(order.Rank, fabric.Link)) {
	var finishing sync.WaitGroup
	defer finishing.Wait()
	busy := make([]atomic.Bool, len(spec.Peers)) // by rank: a caller is finishing
	serve := func(caller handshake.Caller) error {
		from := caller.Hello.From
		if !busy[from].CompareAndSwap(false, true) {
			return fmt.Errorf("%w: of rank %d", fabric.ErrCrowded, from)
		}
		if err := c.answer(caller, spec, nil, row, c.robust.fd); err != nil {
			busy[from].Store(false)
			return err
		}
		finishing.Go(func() { // next to this: a member that does not go on must not hold up the others
			conn := caller.Conn.(*net.UnixConn)
			stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
			l, err := finish(conn, spec, from)
			goesOn := stop()
			if err == nil && goesOn {
				up(from, l)
			}
			busy[from].Store(false) // before a caller that is rejected learns of it, and calls again
			switch {
			case err != nil:
				c.accepted.RejectTaken(conn, err)
			case !goesOn:
				l.Close()
			}
		})
		return nil
	}
	refuse := func(caller handshake.Caller, err error) {
		_ = c.answer(caller, spec, err) // it is closed anyway
	}
	c.accepted.Await(ctx, spec, wants, serve, refuse)
}

// answer tells a caller that it is welcome, or why it is not.
func (c *Connector) answer(caller handshake.Caller, spec *fabric.Spec, why error, fds ...int) error {
	w, err := handshake.Answer(spec, caller.Hello, why)
	if err == nil {
		err = caller.Conn.SetDeadline(time.Now().Add(c.accepted.Timeout))
	}
	if err == nil {
		err = Send(caller.Conn.(*net.UnixConn), w, fds...)
	}
	return err
}

// finish takes the descriptors of a dialer that was welcomed.
func finish(conn *net.UnixConn, spec *fabric.Spec, from order.Rank) (*Link, error) {
	fds, err := Receive(conn, &handover{})
	if err == nil && len(fds) != ownDescriptors {
		err = fmt.Errorf("%w: rank %d sends %d descriptors, not %d", fabric.ErrViolation, from, len(fds), ownDescriptors)
	}
	var l *Link
	if err == nil {
		l, err = link(conn, fds, spec, from)
	}
	if err != nil {
		samehost.Close(fds)
	}
	return l, err
}

// link maps the row and the robust word that came with a greeting. If it succeeds it owns
// connection and descriptors.
func link(conn *net.UnixConn, fds []int, spec *fabric.Spec, peer order.Rank) (*Link, error) {
	conn.SetDeadline(time.Time{})
	word, err := mapRobust(fds[1])
	if err != nil {
		return nil, err
	}
	l, err := NewLink(conn, fds[0], spec.Peers[peer].Shape.RowBytes, spec.Parker)
	if err != nil {
		unix.Munmap(word)
		return nil, err
	}
	l.robust = word
	unix.Close(fds[1]) // the mapping stays
	return l, nil
}

// Send writes one packet of a greeting on one host: a JSON message and descriptors.
func Send(conn *net.UnixConn, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(b, rights, nil)
	return err
}

// Receive reads such a packet. The descriptors are the caller's to close, whatever the error.
func Receive(conn *net.UnixConn, v any) (fds []int, err error) {
	b := make([]byte, messageBytes)
	n, fds, cut, err := samehost.Receive(conn, b, maxDescriptors)
	if err != nil {
		return fds, err
	}
	if cut {
		return fds, fmt.Errorf("%w: message of more than %d bytes", fabric.ErrViolation, messageBytes)
	}
	if n == 0 {
		return fds, io.EOF
	}
	if err := json.Unmarshal(b[:n], v); err != nil {
		return fds, fmt.Errorf("%w: %d bytes: %w", wire.ErrMalformed, n, err)
	}
	return fds, nil
}

// Hear reads such a packet that brings no descriptors.
func Hear(conn *net.UnixConn, v any) error {
	fds, err := Receive(conn, v)
	if err == nil && len(fds) > 0 {
		err = fmt.Errorf("%w: %d descriptors in its greeting", fabric.ErrViolation, len(fds))
	}
	samehost.Close(fds)
	return err
}
