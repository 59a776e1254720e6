package tcp

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

const (
	headBytes  = 16
	rangeBytes = 8
	lineBytes  = 8 + fabric.LineBytes
	maxRanges  = 500 // with header and lines below IOV_MAX
)

// What a closing connection waits for, counted from when it hung up.
const (
	lingerTime = 50 * time.Millisecond  // the peer's end
	lastWords  = 250 * time.Millisecond // a goroutine's last write: a peer that reads takes it at once
)

// socket is a byte stream that never waits: 0 bytes and no error mean "not now".
type socket interface {
	read(into [][]byte) (n int, err error)
	write(from [][]byte) (n int, err error)
	// hangUp says that nothing more will be written or read, without waiting. What was written
	// still reaches a peer that reads, ahead of the end.
	hangUp()
	// close hangs up if that was not done, waits for the peer's end until a short time after
	// hanging up, and releases the connection.
	close() error
}

// Config says whose rows a link carries.
type Config struct {
	View      order.ViewID
	Own       []byte // the own row
	OwnShape  fabric.RowShape
	PeerShape fabric.RowShape
	Parker    *fabric.Parker
}

// Link implements fabric.Link over one connection.
type Link struct {
	cfg     Config
	sock    socket
	replica []byte
	free    func() error
	pending fabric.Pending
	tx      sender
	rx      receiver
	hungUp  bool

	// Why says why this is no link of the transport that this process has; nil: it has none. It is
	// set before the link is a table's.
	Why error
}

// NewLink takes over a connection on which the handshake is done.
func NewLink(conn net.Conn, cfg Config) (*Link, error) {
	mem, free, err := fabric.NewMemory(cfg.PeerShape.RowBytes)
	if err != nil {
		return nil, err
	}
	sock, err := newSocket(conn, cfg.Parker)
	if err != nil {
		free()
		return nil, err
	}
	l := &Link{cfg: cfg, sock: sock, replica: mem, free: free, pending: fabric.NewPending(cfg.OwnShape.ControlBytes)}
	l.rx.init(mem, cfg)
	return l, nil
}

// Flushed reports whether all that was pushed is the socket's.
func (l *Link) Flushed() bool { return !l.tx.busy() && l.pending.Empty() }

// Readiness is what the parker knows of the link's socket, or nil if goroutines serve it.
func (l *Link) Readiness() *fabric.Readiness {
	if s, ok := l.sock.(interface{ readiness() *fabric.Readiness }); ok {
		return s.readiness()
	}
	return nil
}

// Fallback is for Table.Fallback of package fabric.
func (l *Link) Fallback() error { return l.Why }

// Name implements fabric.Link.
func (l *Link) Name() string { return "tcp" }

// Direct implements fabric.Link.
func (l *Link) Direct() bool { return false }

// Replica implements fabric.Link.
func (l *Link) Replica() []byte { return l.replica }

// Push implements fabric.Link.
func (l *Link) Push(off, n int) { l.pending.Push(off, n) }

// Guard has the link call check for every range that the peer is about to write, before Poll stores
// a byte of it. An error of check ends the link.
func (l *Link) Guard(check func(fabric.Range) error) { l.rx.guard = check }

// PushLine implements fabric.Link.
func (l *Link) PushLine(off int) { l.pending.PushLine(off) }

// HangUp ends the connection without waiting. Of what was flushed the peer still gets what the
// socket has, or takes now: it may be why this node goes. What was only pushed stays here: in the
// middle of a step its lines may be ahead of their bytes.
func (l *Link) HangUp() {
	if l.hungUp {
		return
	}
	l.hungUp = true
	if l.tx.busy() {
		l.sock.write(l.tx.iov) // an error changes nothing now
	}
	l.sock.hangUp()
}

// Freeze implements fabric.Link. Only Poll writes the replica, and it does nothing any more. The
// connection is released by Close: to close it while the peer still writes would reset it, and
// destroy what the peer has not read.
func (l *Link) Freeze() []byte {
	l.HangUp()
	return l.replica
}

// Close implements fabric.Link.
func (l *Link) Close() error {
	l.HangUp()
	l.sock.close()
	l.replica, l.rx.replica = nil, nil
	return l.free()
}

// Flush implements fabric.Link.
func (l *Link) Flush() (work bool, err error) {
	if l.hungUp {
		return false, nil
	}
	for {
		if !l.tx.busy() {
			if l.pending.Empty() {
				return work, nil
			}
			l.tx.frame(&l.pending, l.cfg)
		}
		n, err := l.sock.write(l.tx.iov)
		if err != nil {
			return work, fmt.Errorf("%w: %w", fabric.ErrPeerGone, err)
		}
		work = work || n > 0
		l.tx.written(n)
		if l.tx.busy() {
			return work, nil // the socket is full
		}
	}
}

// sender is the frame that is being written.
type sender struct {
	iov   [][]byte // what is left of it
	store [][]byte // iov's memory
	head  []byte
	tail  []byte
}

func (s *sender) busy() bool { return len(s.iov) > 0 }

// frame takes what is pending and lays out the next frame: bytes first, then the lines as they are
// now.
func (s *sender) frame(p *fabric.Pending, cfg Config) {
	ranges, lines := p.Ranges, p.Lines
	if len(ranges) > maxRanges {
		ranges, lines = ranges[:maxRanges], nil // the lines go with the last of the ranges
	}
	s.head, s.tail, s.store = s.head[:0], s.tail[:0], append(s.store[:0], nil)
	bytes := 0
	le := binary.LittleEndian
	s.head = append(s.head, make([]byte, headBytes)...)
	for _, r := range ranges {
		s.head = le.AppendUint32(le.AppendUint32(s.head, uint32(r.Off)), uint32(r.N))
		s.store = append(s.store, cfg.Own[r.Off:r.Off+r.N])
		bytes += r.N
	}
	le.PutUint16(s.head[0:], uint16(len(ranges)))
	le.PutUint16(s.head[2:], uint16(len(lines)))
	le.PutUint32(s.head[4:], uint32(bytes))
	le.PutUint64(s.head[8:], uint64(cfg.View))
	for _, off := range lines {
		s.tail = le.AppendUint64(s.tail, uint64(off))
		for w := 0; w < fabric.LineBytes; w += 8 {
			s.tail = le.AppendUint64(s.tail, atomic.LoadUint64(fabric.Word(cfg.Own, off+w)))
		}
	}
	s.store[0] = s.head
	if len(s.tail) > 0 {
		s.store = append(s.store, s.tail)
	}
	s.iov = s.store
	p.Taken(len(ranges))
}

// written takes n bytes off the front of the frame.
func (s *sender) written(n int) {
	for len(s.iov) > 0 && n >= len(s.iov[0]) {
		n -= len(s.iov[0])
		s.iov = s.iov[1:]
	}
	if len(s.iov) > 0 {
		s.iov[0] = s.iov[0][n:]
	}
}
