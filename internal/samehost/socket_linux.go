package samehost

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/descriptors"
	"golang.org/x/sys/unix"
)

// Host is equal for processes that reach each other's sockets and memory: same boot, same network
// namespace, same user. It is empty if that cannot be found out.
func Host() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(boot) < 36 {
		return ""
	}
	ns, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%s/%d", boot[:36], ns, os.Getuid())
}

// nameBytes is the length of the random part of a socket's name, in text.
const nameBytes = 32

// Listen makes a socket with a random name behind a prefix.
func Listen(prefix string) (l *net.UnixListener, name string, err error) {
	var id [nameBytes / 2]byte
	rand.Read(id[:])
	name = prefix + hex.EncodeToString(id[:])
	if l, err = net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@" + name, Net: "unixpacket"}); err != nil {
		return nil, "", fmt.Errorf("abstract unix socket @%s: %w", name, err)
	}
	return l, name, nil
}

// Accept hands every caller to take, until the listener is closed.
func Accept(l *net.UnixListener, take func(*net.UnixConn)) {
	for {
		conn, err := l.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case descriptors.IsLack(err) && descriptors.Give():
		case err != nil:
			time.Sleep(10 * time.Millisecond)
		default:
			take(conn)
		}
	}
}

// Dial connects to the socket of a name.
func Dial(ctx context.Context, name string) (*net.UnixConn, error) {
	c, err := descriptors.Retry(func() (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unixpacket", "@"+name)
	})
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// Peer describes the process at the other end of a connection, and reports whether it runs as a
// user, as the kernel knows it.
func Peer(conn syscall.Conn, user int) (process string, is bool) {
	id, of, err := Credentials(conn)
	if err != nil {
		return "an unknown process of this host", false
	}
	return fmt.Sprintf("process %d (user %d)", id, of), of == user
}

// Credentials returns the number of the process at the other end of a connection, and that of its
// user, as the kernel knew them when the process connected, or listened. A process in a space of
// numbers that is not seen from here has 0.
func Credentials(conn syscall.Conn) (process, user int, err error) {
	raw, err := conn.SyscallConn()
	var cred *unix.Ucred
	if err == nil {
		failed := raw.Control(func(fd uintptr) {
			cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		})
		err = errors.Join(failed, err)
	}
	if err != nil {
		return 0, -1, err
	}
	return int(cred.Pid), int(cred.Uid), nil
}

// Receive reads one packet into b, with the descriptors that came with it, which are the caller's
// to close whatever the error. It reports whether the packet was cut: more bytes than b has, or
// more descriptors than most.
//
// The kernel drops descriptors for which the process has no room, without an error. So the packet
// stays in its queue until its descriptors were received, and is looked at again for each few
// descriptors that the reserve gives back: another goroutine may take these.
func Receive(conn *net.UnixConn, b []byte, most int) (n int, fds []int, cut bool, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nil, false, err
	}
	return take(func(b, oob []byte, flags int) (n, m, got int, err error) { return receive(raw, b, oob, flags) }, b, most)
}

// take takes a packet by calls of recvmsg. The end is believed at the second look only: the kernel
// may find the queue empty, and then look whether the peer has closed, while the peer sends its
// last packet and closes.
func take(recvmsg func(b, oob []byte, flags int) (n, m, got int, err error), b []byte, most int) (n int, fds []int, cut bool, err error) {
	oob := make([]byte, unix.CmsgSpace(4*most))
	for looks := 1; ; looks++ {
		var m, flags int
		if n, m, flags, err = recvmsg(b, oob, unix.MSG_PEEK); err != nil {
			return 0, nil, false, err
		}
		if n == 0 && m == 0 && looks == 1 {
			continue
		}
		if fds, err = rights(oob[:m]); err != nil {
			break
		}
		dropped := flags&unix.MSG_CTRUNC != 0
		if cut = dropped || flags&unix.MSG_TRUNC != 0; !dropped || len(fds) >= most || !descriptors.Give() {
			break
		}
		Close(fds)
	}
	_, _, _, gone := recvmsg(nil, nil, 0)
	return n, fds, cut, errors.Join(err, gone)
}

// receive waits for a packet and reads it.
func receive(raw syscall.RawConn, b, oob []byte, flags int) (n, m, got int, err error) {
	failed := raw.Read(func(fd uintptr) bool {
		for {
			n, m, got, _, err = unix.Recvmsg(int(fd), b, oob, flags|unix.MSG_CMSG_CLOEXEC)
			if err != unix.EINTR {
				return err != unix.EAGAIN
			}
		}
	})
	return n, m, got, cmp.Or(failed, os.NewSyscallError("recvmsg", err))
}

// rights returns the descriptors in control messages.
func rights(oob []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for _, msg := range messages {
		if got, err := unix.ParseUnixRights(&msg); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds, err
}

// Close closes descriptors.
func Close(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
