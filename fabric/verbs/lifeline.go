//go:build linux

package verbs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/descriptors"
	"golang.org/x/sys/unix"
)

// errNoSocket says that a connection is none of TCP itself.
var errNoSocket = errors.New("an RDMA link needs a plain TCP connection")

// connection is the lifeline of a link: a TCP connection on which nothing more is said.
type connection struct {
	fd     int // -1: closed
	parker *fabric.Parker
	ready  *fabric.Readiness
	gone   bool
	hungUp bool
}

// newLifeline takes a connection out of Go's poller. It owns the connection if it succeeds.
func newLifeline(conn net.Conn, parker *fabric.Parker) (lifeline, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return noLifeline{}, errNoSocket
	}
	fd, err := descriptors.Detach(tcp)
	if err != nil {
		return noLifeline{}, fmt.Errorf("connection to %v: %w", conn.RemoteAddr(), err)
	}
	c := &connection{fd: fd, parker: parker}
	if c.ready, err = parker.Watch(fd, false); err != nil {
		return noLifeline{}, errors.Join(fmt.Errorf("connection to %v: %w", conn.RemoteAddr(), err), unix.Close(fd))
	}
	tcp.Close()
	return c, nil
}

// ended implements lifeline: anything that a peer says here ends the link.
func (c *connection) ended() bool {
	if !c.gone && !c.hungUp && c.ready.In {
		c.ready.In = false
		c.look()
	}
	return c.gone
}

// look implements lifeline. It leaves ready alone: a link may be closed on another goroutine than
// the loop, which then still watches the connection.
func (c *connection) look() bool {
	if c.gone || c.hungUp {
		return c.gone
	}
	var b [1]byte
	// Raw: the call never waits, so the scheduler need not know of it.
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(c.fd), uintptr(unsafe.Pointer(&b)), 1, unix.MSG_DONTWAIT, 0, 0)
	c.gone = errno != unix.EAGAIN && errno != unix.EINTR
	return c.gone
}

func (c *connection) hangUp() {
	if !c.hungUp {
		c.hungUp = true
		c.parker.Unwatch(c.fd)
		unix.Shutdown(c.fd, unix.SHUT_WR)
	}
}

func (c *connection) close() error {
	c.hangUp()
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// noLifeline is that of a link that was not connected.
type noLifeline struct{}

func (noLifeline) ended() bool  { return false }
func (noLifeline) look() bool   { return false }
func (noLifeline) hangUp()      {}
func (noLifeline) close() error { return nil }
