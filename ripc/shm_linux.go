package ripc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/shm"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/trust"
	"golang.org/x/sys/unix"
)

// localPort is where processes of this host connect: an abstract socket, on which two processes exchange the descriptors of their
// rows.
type localPort struct {
	e        *Endpoint
	host     string
	name     string
	listener *net.UnixListener
	done     sync.WaitGroup
	greeting chan struct{} // one place for each process that is greeted

	mu      sync.Mutex
	callers map[net.Conn]bool
	closed  bool
}

const maxGreeting = 64 // processes that are greeted at a time

func listenLocal(e *Endpoint) (*localPort, error) {
	host := shm.Host()
	if host == "" {
		return nil, fmt.Errorf("shared memory: this host cannot be told from others: %w", errors.ErrUnsupported)
	}
	var id [16]byte
	rand.Read(id[:])
	name := "squall-ripc-" + hex.EncodeToString(id[:])
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + name, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("abstract unix socket @%s: %w", name, err)
	}
	p := &localPort{e: e, host: host, name: name, listener: l, greeting: make(chan struct{}, maxGreeting), callers: map[net.Conn]bool{}}
	p.done.Go(p.accept)
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

func (p *localPort) accept() {
	for {
		conn, err := p.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case descriptors.IsLack(err) && descriptors.Give():
		case err != nil:
			time.Sleep(10 * time.Millisecond)
		case !sameUser(conn):
			p.e.cfg.OnReject(fmt.Errorf("ripc: %w: another user's process", ErrRefused))
			conn.Close()
		default:
			p.admit(conn)
		}
	}
}

// admit greets a caller on a goroutine of its own, if there is a place.
func (p *localPort) admit(conn *net.UnixConn) {
	select {
	case p.greeting <- struct{}{}:
	default:
		p.e.cfg.OnReject(fmt.Errorf("ripc: %w: %d processes are greeted", ErrLimit, maxGreeting))
		conn.Close()
		return
	}
	p.done.Go(func() {
		defer func() { <-p.greeting }()
		if err := p.greet(conn); err != nil {
			conn.Close()
			p.e.cfg.OnReject(fmt.Errorf("ripc: a process of this host: %w", err))
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
func (p *localPort) greet(conn *net.UnixConn) error {
	untrack, err := p.track(conn)
	if err != nil {
		return err
	}
	defer untrack()
	c := challenge{Nonce: trust.NewNonce()}
	var h hello
	if err := send(conn, c); err != nil {
		return err
	}
	if err := hear(conn, &h); err != nil {
		return err
	}
	w, err := p.e.judge(c, h)
	if errors.Is(err, ErrRefused) {
		return errors.Join(err, send(conn, w))
	}
	if err != nil {
		return err
	}
	own, fd, release, err := newRow(p.e.cfg.RingBytes)
	if err != nil {
		return err
	}
	err = send(conn, w, fd)
	unix.Close(fd)
	var fds []int
	if err == nil {
		fds, err = receive(conn, &struct{}{})
	}
	if err == nil {
		_, err = p.link(conn, fds, h.RingBytes, own, release)
		if err == nil {
			return nil
		}
	}
	closeAll(fds)
	return errors.Join(err, release())
}

// dial is the side of the process that calls.
func (p *localPort) dial(ctx context.Context, place Place) (*peer, error) {
	c, err := descriptors.Retry(func() (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unixpacket", "@"+place.Socket)
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoService, err)
	}
	conn := c.(*net.UnixConn)
	fail := func(err error) (*peer, error) {
		conn.Close()
		return nil, fmt.Errorf("@%s: %w", place.Socket, err)
	}
	if !sameUser(conn) {
		return fail(fmt.Errorf("%w: another user's process", ErrRefused))
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var challenge challenge
	var w welcome
	if err := hear(conn, &challenge); err != nil {
		return fail(err)
	}
	h := p.e.hello(challenge)
	if err := send(conn, h); err != nil {
		return fail(err)
	}
	fds, err := receive(conn, &w)
	if err == nil {
		err = p.e.heed(h, w, place.Incarnation)
	}
	if err != nil {
		closeAll(fds)
		return fail(err)
	}
	own, fd, release, err := newRow(p.e.cfg.RingBytes)
	if err != nil {
		closeAll(fds)
		return fail(err)
	}
	err = send(conn, struct{}{}, fd)
	unix.Close(fd)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	var linked *peer
	if err == nil {
		linked, err = p.link(conn, fds, w.RingBytes, own, release)
	}
	if err != nil {
		closeAll(fds)
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

// link makes a peer of a connection and the descriptor of the peer's row. If it fails, the caller closes all.
func (p *localPort) link(conn *net.UnixConn, fds []int, ring int, own []byte, release func() error) (*peer, error) {
	if len(fds) != 1 {
		return nil, fmt.Errorf("%w: %d descriptors, not 1", fabric.ErrViolation, len(fds))
	}
	conn.SetDeadline(time.Time{})
	link, err := shm.NewLink(conn, fds[0], pair.Shape(ring).RowBytes, p.e.parker)
	if err != nil {
		return nil, err
	}
	linked, err := p.e.add(link, "a process of this host", own, release)
	if err != nil {
		link.Close()
		fds[0] = -1
	}
	return linked, err
}

func sameUser(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		same = err == nil && int(cred.Uid) == os.Getuid()
	})
	return same
}

// send writes one packet: a JSON message and descriptors.
func send(conn *net.UnixConn, v any, fds ...int) error {
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

// receive reads one packet. The descriptors are the caller's to close, whatever the error.
func receive(conn *net.UnixConn, v any) (fds []int, err error) {
	descriptors.Spare(2)
	b, oob := make([]byte, greetingBytes), make([]byte, unix.CmsgSpace(4*2))
	n, m, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil {
		return nil, err
	}
	for _, msg := range messages {
		if got, err := unix.ParseUnixRights(&msg); err == nil {
			fds = append(fds, got...)
		}
	}
	for _, fd := range fds {
		unix.CloseOnExec(fd)
	}
	switch {
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		return fds, fmt.Errorf("%w: a greeting of more than %d bytes", fabric.ErrViolation, greetingBytes)
	case n == 0:
		return fds, io.EOF
	}
	return fds, json.Unmarshal(b[:n], v)
}

// hear reads a message that brings no descriptors.
func hear(conn *net.UnixConn, v any) error {
	fds, err := receive(conn, v)
	if err == nil && len(fds) > 0 {
		err = fmt.Errorf("%w: %d descriptors in its greeting", fabric.ErrViolation, len(fds))
	}
	closeAll(fds)
	return err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
