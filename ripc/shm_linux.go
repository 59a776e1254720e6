package ripc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/internal/shm"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/trust"
	"golang.org/x/sys/unix"
)

// localPort is where processes of this host connect: an abstract socket, on which two processes
// exchange the descriptors of their rows.
type localPort struct {
	e        *Endpoint
	host     string
	name     string
	listener *net.UnixListener
	done     sync.WaitGroup
	greeting *gate

	mu      sync.Mutex
	callers map[net.Conn]bool
	closed  bool
}

const maxGreeting = 64 // connections that are greeted at a time; half of that number may be of one process

// neighbour is what the kernel tells of the process at the other end of a connection within the
// host, which has to be one of this user.
func neighbour(conn *net.UnixConn) (Peer, error) {
	process, user, err := samehost.Credentials(conn)
	who := Peer{Process: process, User: user}
	if err == nil && user != os.Getuid() {
		err = fmt.Errorf("%w: it is a process of user %d", ErrRefused, user)
	}
	return who, err
}

func listenLocal(e *Endpoint) (*localPort, error) {
	host := shm.Host()
	if host == "" {
		return nil, fmt.Errorf("shared memory: this host has no identity of its own: %w", errors.ErrUnsupported)
	}
	l, name, err := samehost.Listen("squall-ripc-")
	if err != nil {
		return nil, err
	}
	p := &localPort{e: e, host: host, name: name, listener: l, greeting: newGate(maxGreeting), callers: map[net.Conn]bool{}}
	p.done.Go(func() { samehost.Accept(l, p.admit) })
	return p, nil
}

func (p *localPort) close() error {
	p.mu.Lock()
	p.closed = true
	for conn := range p.callers {
		conn.SetDeadline(time.Unix(1, 0))
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.done.Wait()
	return err
}

// admit greets a caller on a goroutine of its own, if there is a place.
func (p *localPort) admit(conn *net.UnixConn) {
	who, err := neighbour(conn)
	account := who.account()
	if err == nil {
		err = p.greeting.enter(account)
	}
	if err != nil {
		p.e.cfg.OnReject(fmt.Errorf("ripc: %v: %w", who, err))
		conn.Close()
		return
	}
	p.done.Go(func() {
		defer p.greeting.leave(account)
		if err := p.greet(conn, who); err != nil {
			conn.Close()
			p.e.cfg.OnReject(fmt.Errorf("ripc: %v: %w", who, err))
		}
	})
}

// track notes a connection that close has to interrupt.
func (p *localPort) track(conn net.Conn) (untrack func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	p.callers[conn] = true
	return func() {
		p.mu.Lock()
		delete(p.callers, conn)
		p.mu.Unlock()
	}, conn.SetDeadline(time.Now().Add(handshakeTime))
}

// greet is the side of the process that is called.
func (p *localPort) greet(conn *net.UnixConn, who Peer) error {
	untrack, err := p.track(conn)
	if err != nil {
		return err
	}
	defer untrack()
	c := challenge{Nonce: trust.NewNonce()}
	var h hello
	if err := shm.Send(conn, c); err != nil {
		return err
	}
	if err := shm.Hear(conn, &h); err != nil {
		return err
	}
	w, err := p.e.judge(c, h, who)
	if w.Refused != "" {
		return errors.Join(err, shm.Send(conn, w))
	}
	if err != nil {
		return err
	}
	own, fd, release, err := newRow(p.e.cfg.RingBytes)
	if err != nil {
		return err
	}
	err = shm.Send(conn, w, fd)
	unix.Close(fd)
	var fds []int
	if err == nil {
		fds, err = shm.Receive(conn, &struct{}{})
	}
	if err == nil {
		_, err = p.link(conn, who, true, fds, h.RingBytes, own, release)
		if err == nil {
			return nil
		}
	}
	samehost.Close(fds)
	return errors.Join(err, release())
}

// dial is the side of the process that calls.
func (p *localPort) dial(ctx context.Context, place Place) (*peer, error) {
	conn, err := samehost.Dial(ctx, place.Socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoService, err)
	}
	fail := func(err error) (*peer, error) {
		conn.Close()
		return nil, fmt.Errorf("@%s: %w", place.Socket, err)
	}
	who, err := neighbour(conn)
	if err != nil {
		return fail(err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var challenge challenge
	var w welcome
	if err := shm.Hear(conn, &challenge); err != nil {
		return fail(err)
	}
	h := p.e.hello(challenge, "", "")
	if err := shm.Send(conn, h); err != nil {
		return fail(err)
	}
	fds, err := shm.Receive(conn, &w)
	if err == nil {
		err = p.e.heed(h, w, place.Incarnation)
	}
	if err != nil {
		samehost.Close(fds)
		return fail(err)
	}
	own, fd, release, err := newRow(p.e.cfg.RingBytes)
	if err != nil {
		samehost.Close(fds)
		return fail(err)
	}
	err = shm.Send(conn, struct{}{}, fd)
	unix.Close(fd)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	var linked *peer
	if err == nil {
		linked, err = p.link(conn, who, false, fds, w.RingBytes, own, release)
	}
	if err != nil {
		samehost.Close(fds)
		release()
		return fail(err)
	}
	return linked, nil
}

// newRow makes an own row. The caller closes the descriptor; the memory stays until it is released.
func newRow(ringBytes int) (own []byte, fd int, release func() error, err error) {
	own, held, closeBoth, err := shm.NewRow(pair.Shape(ringBytes).RowBytes)
	if err != nil {
		return nil, -1, nil, err
	}
	fd, err = descriptors.Retry(func() (int, error) { return unix.FcntlInt(uintptr(held), unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, -1, nil, errors.Join(err, closeBoth())
	}
	return own, fd, closeBoth, nil
}

// link makes a peer of a connection and the descriptor of the peer's row. If it fails, the caller
// closes all.
func (p *localPort) link(conn *net.UnixConn, who Peer, called bool, fds []int, ring int, own []byte, release func() error) (*peer, error) {
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors, not 1", fabric.ErrViolation, len(fds))
	}
	conn.SetDeadline(time.Time{})
	link, err := shm.NewLink(conn, fds[0], pair.Shape(ring).RowBytes, p.e.parker)
	if err != nil {
		return nil, err
	}
	linked, err := p.e.add(link, who, called, own, release, longs{})
	if err != nil {
		link.Close()
		fds[0] = -1
	}
	return linked, err
}
