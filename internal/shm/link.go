//go:build linux

package shm

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/samehost"
	"golang.org/x/sys/unix"
)

// Link implements fabric.Link over a peer's mapped row.
type Link struct {
	peer   []byte // the mapping; nil: closed
	frozen []byte // its copy, after Freeze
	fd     int    // the unix socket: bells, and the peer's end
	parker *fabric.Parker
	ready  *fabric.Readiness
	pushed bool
	rung   uint64 // the parked word that was answered with a bell

	robust []byte // the mapping of the peer's robust word; nil: there is none
}

func newLink(conn *net.UnixConn, mapped []byte, parker *fabric.Parker) (*Link, error) {
	fd, err := descriptors.Detach(conn)
	conn.Close()
	if err != nil {
		return nil, err
	}
	l := &Link{peer: mapped, fd: fd, parker: parker}
	if l.ready, err = parker.Watch(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return l, nil
}

// NewLink makes a link of a connection on which both sides proved their identity, and of the
// descriptor of the peer's row, which it maps. If it fails, its caller closes both; otherwise the
// link owns the connection, and the descriptor is closed.
func NewLink(conn *net.UnixConn, row, rowBytes int, parker *fabric.Parker) (*Link, error) {
	mapped, err := mapRow(row, rowBytes)
	if err != nil {
		return nil, err
	}
	l, err := newLink(conn, mapped, parker)
	if err != nil {
		unix.Munmap(mapped)
		return nil, err
	}
	unix.Close(row) // the mapping stays
	return l, nil
}

// Readiness is what the parker knows of the link's socket.
func (l *Link) Readiness() *fabric.Readiness { return l.ready }

// Name implements fabric.Link.
func (l *Link) Name() string { return "shm" }

// Direct implements fabric.Link.
func (l *Link) Direct() bool { return true }

// Replica implements fabric.Link.
func (l *Link) Replica() []byte { return l.peer }

// Push implements fabric.Link.
func (l *Link) Push(int, int) { l.pushed = true }

// PushLine implements fabric.Link.
func (l *Link) PushLine(int) { l.pushed = true }

// Poll implements fabric.Link: what the peer wrote is here already; the socket brings its bells,
// and its end. A bell is work: it may be for something that this step examined before the bell was
// taken, and the loop must not sleep before it has looked again.
func (l *Link) Poll() (bool, error) {
	if !l.ready.In {
		return false, nil
	}
	var b [8]byte
	// Raw: the call never waits, so the scheduler need not know of it.
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(l.fd), uintptr(unsafe.Pointer(&b)), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		l.ready.In = false
		return false, nil
	case errno != 0:
		return true, fmt.Errorf("%w: %w", fabric.ErrPeerGone, errno)
	case n == 0:
		return true, fmt.Errorf("%w: the process ended", fabric.ErrPeerGone)
	case n == bellBytes:
		l.ready.In = false // if there is more, the next look at the sockets says so
		return true, nil
	default:
		return true, fmt.Errorf("%w: a bell of %d bytes", fabric.ErrViolation, n)
	}
}

// Flush implements fabric.Link: it rings the peer if it sleeps (H2).
func (l *Link) Flush() (bool, error) {
	if !l.pushed {
		return false, nil
	}
	l.pushed = false
	if parked := fabric.Parked(l.peer); parked&1 == 1 && parked != l.rung {
		l.rung = parked
		l.ring()
	}
	return true, nil
}

const bellBytes = 1 // of a packet that is a bell

// ring sends a bell, without waiting (H4). Where the socket takes no more, the peer has bells that
// it did not read, and does not sleep; that it is gone is for Poll to find. An eventfd of the
// peer's would be a little cheaper, and give the peer a hold on this loop: a write to it waits when
// the counter is full and the peer made the descriptor a blocking one, which it can at any time
// because both ends of an eventfd are one open file. Here whether to wait is said with each call.
func (l *Link) ring() {
	var bell [bellBytes]byte
	// Raw: the call never waits, so the scheduler need not know of it.
	unix.RawSyscall6(unix.SYS_SENDTO, uintptr(l.fd), uintptr(unsafe.Pointer(&bell)), bellBytes, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

// Freeze implements fabric.Link: it copies the row aside, word by word from the start, so that
// control words are read whole, in the order that readers need (D4), and before the bytes that they
// cover (H3). The peer may go on
// writing its own memory meanwhile, but not what this node has not delivered. A megabyte takes a
// fraction of a millisecond.
func (l *Link) Freeze() []byte {
	l.disconnect()
	if l.frozen == nil {
		l.frozen = make([]byte, len(l.peer))
		for off := 0; off < len(l.peer); off += 8 {
			*fabric.Word(l.frozen, off) = atomic.LoadUint64(fabric.Word(l.peer, off))
		}
	}
	return l.frozen
}

func (l *Link) disconnect() {
	if l.fd < 0 {
		return
	}
	l.parker.Unwatch(l.fd)
	unix.Close(l.fd)
	l.fd = -1
}

// Close implements fabric.Link.
func (l *Link) Close() error {
	l.disconnect()
	if l.peer == nil {
		return nil
	}
	mapped := l.peer
	l.peer = nil
	return errors.Join(unix.Munmap(mapped), l.unmapRobust())
}

// NewRow makes the own row as a sealed segment: its memory, its descriptor, and the function that
// releases both.
func NewRow(n int) (mem []byte, fd int, release func() error, err error) {
	mem, fd, err = samehost.NewSegment("squall-row", n, func(_ []byte, fd int) error { return unix.Fallocate(fd, 0, 0, int64(n)) })
	if err != nil {
		return nil, -1, nil, fabric.MemoryError(n, "shared memory", err)
	}
	return mem, fd, func() error { return samehost.Release(mem, fd) }, nil
}

// mapRow maps a peer's row read-only after checking its seals, its size and its memory (H1).
func mapRow(fd, n int) ([]byte, error) {
	size, err := samehost.SegmentBytes(fd)
	if err != nil {
		return nil, fmt.Errorf("%w: H1: the peer's row: %w", fabric.ErrViolation, err)
	}
	if size != int64(n) {
		return nil, fmt.Errorf("%w: H1: the peer's row has %d bytes, its shape says %d", fabric.ErrViolation, size, n)
	}
	return unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
}
