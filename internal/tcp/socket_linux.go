package tcp

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/descriptors"
	"golang.org/x/sys/unix"
)

// lateBytes is what is read after the time for it: more than a socket's buffer takes, and not for
// ever.
const lateBytes = 16 << 20

// newSocket takes a connection out of Go's poller if the loop can poll it itself.
func newSocket(conn net.Conn, parker *fabric.Parker) (socket, error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok || parker == nil {
		return newStream(conn, parker), nil
	}
	fd, err := descriptors.Detach(tcp)
	if err != nil {
		return nil, fmt.Errorf("connection to %v: %w", conn.RemoteAddr(), err)
	}
	tcp.Close()
	s := &polled{fd: fd, parker: parker}
	if s.ready, err = parker.Watch(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return s, nil
}

// polled is a non-blocking socket that the loop reads and writes itself.
type polled struct {
	fd      int
	parker  *fabric.Parker
	ready   *fabric.Readiness
	full    bool // the last write found no room; the parker watches for it
	vectors []unix.Iovec
	ended   time.Time // when it hung up
}

func (s *polled) readiness() *fabric.Readiness { return s.ready }

func (s *polled) read(into [][]byte) (int, error) {
	if !s.ready.In && (!s.parker.FewSockets() || s.parker.LeavesSockets()) {
		return 0, nil
	}
	n, errno := s.vectored(unix.SYS_READV, into)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		s.ready.In = false
		return 0, nil
	case errno != 0:
		return 0, os.NewSyscallError("readv", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (s *polled) write(from [][]byte) (int, error) {
	if s.full && !s.ready.Out && !s.parker.FewSockets() {
		return 0, nil
	}
	n, errno := s.vectored(unix.SYS_WRITEV, from)
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		return 0, os.NewSyscallError("writev", errno)
	}
	total := 0
	for _, b := range from {
		total += len(b)
	}
	if full := n < total; full || s.full {
		s.ready.Out = false
		if full != s.full {
			s.full = full
			if err := s.parker.WatchOut(s.fd, full); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// vectored is readv or writev without the allocations of the general wrappers.
func (s *polled) vectored(call uintptr, bufs [][]byte) (int, unix.Errno) {
	s.vectors = s.vectors[:0]
	for _, b := range bufs {
		if len(b) > 0 {
			v := unix.Iovec{Base: &b[0]}
			v.SetLen(len(b))
			s.vectors = append(s.vectors, v)
		}
	}
	// Raw: the call never waits, so the scheduler need not know of it.
	n, _, errno := unix.RawSyscall(call, uintptr(s.fd), uintptr(unsafe.Pointer(&s.vectors[0])), uintptr(len(s.vectors)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func (s *polled) hangUp() {
	if !s.ended.IsZero() {
		return
	}
	s.ended = time.Now()
	s.parker.Unwatch(s.fd)
	unix.Shutdown(s.fd, unix.SHUT_WR)
}

func (s *polled) close() error {
	if s.fd < 0 {
		return nil
	}
	s.hangUp()
	s.linger()
	fd := s.fd
	s.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}

// linger lets the peer read to the end: closing a socket with unread input resets the connection,
// and what was written last is lost. The peer answers the end with its own; it is waited for
// briefly, and what is here already is read in any case.
func (s *polled) linger() {
	sink := make([]byte, 64<<10)
	for late := 0; late < lateBytes; {
		n, err := unix.Read(s.fd, sink)
		left := time.Until(s.ended.Add(lingerTime))
		switch {
		case n == 0 || err != nil && err != unix.EAGAIN && err != unix.EINTR:
			return
		case n > 0 && left <= 0:
			late += n
		case n > 0 || err == unix.EINTR:
		case left <= 0:
			return
		default:
			unix.Poll([]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
		}
	}
}
