package samehost

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/squall-go/squall/internal/wire"
	"golang.org/x/sys/unix"
)

// Bounds of conversations.
const (
	conversationTime = 5 * time.Second
	maxCallers       = 64 // beyond, the oldest one is sent away: an honest one is served within microseconds
	namePrefix       = "squall-large-"
	attempts         = 3
)

// errNoSuch is an answer, too: a process of the same user is running.
var errNoSuch = fmt.Errorf("%w: it has no such segment", ErrRefused)

// version begins every question and every answer.
const version = 1

// A question has 17 bytes, and its answer 2:
//
//	0         1                        17
//	┌─────────┬────────────────────────┐      ┌─────────┬──────┐
//	│ version │ name of a segment      │  →   │ version │ here │   with a descriptor if here is 1
//	└─────────┴────────────────────────┘      └─────────┴──────┘
const (
	questionBytes = 1 + len(ID{})
	answerBytes   = 2
)

// listener is the socket at which others ask for segments.
type listener struct {
	space    *Space
	socket   string
	user     int
	patience time.Duration
	reject   func(remote string, err error)
	listener *net.UnixListener
	callers  *wire.Callers
	done     sync.WaitGroup
}

// newListener serves the processes of one user.
func newListener(s *Space, user int, reject func(remote string, err error)) (*listener, error) {
	l, name, err := Listen(namePrefix)
	if err != nil {
		return nil, err
	}
	d := &listener{space: s, socket: name, user: user, patience: conversationTime, reject: reject, listener: l}
	d.callers = wire.NewCallers(maxCallers, 2*maxCallers, 0) // none proves itself: the oldest makes room
	d.done.Go(func() { Accept(l, d.take) })
	return d, nil
}

func (d *listener) name() string { return d.socket }

// close ends all conversations, and waits for their goroutines.
func (d *listener) close() {
	d.listener.Close()
	d.callers.HangUp()
	d.done.Wait()
}

// take serves a caller. If there are too many the oldest one is sent away (E4).
func (d *listener) take(conn *net.UnixConn) {
	if _, ok := d.callers.Enter(conn); !ok {
		conn.Close()
		return
	}
	d.done.Go(func() {
		defer d.callers.Leave(conn)
		defer conn.Close()
		d.serve(conn)
	})
}

// serve answers one question.
func (d *listener) serve(conn *net.UnixConn) {
	remote, err := d.identify(conn)
	if err == nil {
		err = d.answer(conn)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) { // that is this side's doing
		d.reject(remote, err)
	}
}

// identify names the process at the other end, and judges its user (E3).
func (d *listener) identify(conn *net.UnixConn) (remote string, err error) {
	remote, ours := Peer(conn, d.user)
	if !ours {
		return remote, fmt.Errorf("%w: shared memory is for user %d only", ErrRefused, d.user)
	}
	return remote, nil
}

func (d *listener) answer(conn *net.UnixConn) error {
	err := conn.SetDeadline(time.Now().Add(d.patience))
	if err != nil {
		return err
	}
	var b [questionBytes + 1]byte
	n, err := conn.Read(b[:])
	if err != nil {
		return err
	}
	if n != questionBytes || b[0] != version {
		return fmt.Errorf("%w: a question of %d bytes in version %d; this is version %d", ErrMalformed, n, b[0], version)
	}
	id := ID(b[1:])
	here := d.space.lend(id, func(fd int) {
		_, _, err = conn.WriteMsgUnix([]byte{version, 1}, unix.UnixRights(fd), nil) // the first packet of a new connection never waits
	})
	if here {
		return err
	}
	_, err = conn.Write([]byte{version, 0})
	if id != (ID{}) { // that question only asks whether there is an answer
		err = fmt.Errorf("%w: there is no such segment", ErrRefused)
	}
	return err
}

// ask maps a segment of another process. A caller that is sent away because there were too many
// asks again.
func ask(ctx context.Context, owner string, id ID) (mem []byte, err error) {
	for range attempts {
		var fd int
		if fd, err = askOnce(ctx, owner, id); err == nil {
			mem, err = mapSegment(fd)
			unix.Close(fd) // the mapping stays
			return mem, err
		}
		if errors.Is(err, ErrRefused) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrGone, err)
	}
	return nil, err
}

// askOnce gets the descriptor of a segment.
func askOnce(ctx context.Context, owner string, id ID) (fd int, err error) {
	if rest, ok := strings.CutPrefix(owner, namePrefix); !ok || len(rest) != nameBytes {
		return -1, fmt.Errorf("%w: %.80q is no name of a socket for segments", ErrRefused, owner)
	}
	conn, err := Dial(ctx, owner)
	if err != nil {
		return -1, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if process, ours := Peer(conn, os.Getuid()); !ours {
		return -1, fmt.Errorf("%w: %s runs as another user", ErrRefused, process)
	}
	if _, err := conn.Write(append([]byte{version}, id[:]...)); err != nil {
		return -1, err
	}
	return descriptorOf(conn)
}

// descriptorOf reads an answer, and returns the descriptor in it.
func descriptorOf(conn *net.UnixConn) (fd int, err error) {
	b := make([]byte, answerBytes+1)
	n, fds, cut, err := Receive(conn, b, 1)
	switch {
	case err != nil:
	case n == answerBytes && b[0] == version && b[1] == 1 && len(fds) == 1 && !cut:
		return fds[0], nil
	case n == answerBytes && b[0] == version && b[1] == 0 && len(fds) == 0:
		err = errNoSuch
	case n == 0:
		err = io.EOF
	default:
		err = fmt.Errorf("%w: %w: an answer of %d bytes with %d descriptors", ErrRefused, ErrMalformed, n, len(fds))
	}
	Close(fds)
	return -1, err
}

// Reach reports whether a socket answers: nil if it does, and it is one of the same user.
func Reach(ctx context.Context, owner string) error {
	fd, err := askOnce(ctx, owner, ID{})
	if err == nil {
		unix.Close(fd)
		return fmt.Errorf("%w: it gives a segment that no process has", ErrRefused)
	}
	if errors.Is(err, errNoSuch) {
		return nil
	}
	return err
}
