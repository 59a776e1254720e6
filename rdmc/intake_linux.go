package rdmc

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/internal/crc"
)

// How much has to come before a reader of a block is woken, unless less is missing. At 400 Mbit/s
// packets would wake it for every 21 KB, and a wake-up costs more than the bytes. With 8 nodes they
// took 1.8 to 2.2 s of processor time for each gigabyte, with promptBytes 1.3 to 1.5 s, with
// pieceBytes 1.0 to 1.1 s: a block of usual size wakes it for its header and for its end. In a
// chain that costs no time. In a pipeline, where a node waits for several others by turns, it does:
// 8 nodes took 1.08 of the ideal time instead of 1.065, and the last one was 12 blocks later than
// the first instead of 4.
const (
	pieceBytes  = 256 << 10
	promptBytes = 64 << 10
)

// patient is the intake of plain TCP. Before it waits it tells the socket from how many bytes on it
// is worth to be woken (SO_RCVLOWAT), and that is never more than is missing: the last byte of a
// block wakes the reader even if nothing comes after it. Pieces are summed when they come, while
// the caches still have them: what is left to do after the last byte is one piece.
//
// The poller tells of changes only, so the reader waits only when the socket said that nothing is
// left (EAGAIN), neither bytes nor an end: an end may have come with the last bytes. What comes
// between that and the wait is a change, and so is a limit that is reached when it is set.
type patient struct {
	raw   syscall.RawConn
	fill  func(fd uintptr) bool // more, made once
	limit int                   // as the socket has it; 0: never set
	piece int

	// Of one read.
	rest []byte
	got  bool // some of it
	sum  uint32
	err  error
}

// newIntake makes the only reader of a connection, or of a stream.
func newIntake(conn io.Reader) intake {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return eager{conn}
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return eager{conn}
	}
	p := &patient{raw: raw, piece: pieceBytes}
	p.fill = p.more
	return p
}

func (p *patient) prompt(on bool) {
	if p.piece = pieceBytes; on {
		p.piece = promptBytes
	}
}

func (p *patient) read(into []byte) (sum uint32, err error) {
	p.rest, p.got, p.sum, p.err = into, false, 0, nil
	err = p.raw.Read(p.fill)
	p.rest = nil // whose memory it is may let go of it
	if err != nil {
		return 0, err
	}
	return p.sum, p.err
}

// more reads what is there. It returns false to be called again when there is more.
func (p *patient) more(fd uintptr) (done bool) {
	for len(p.rest) > 0 {
		n, err := unix.Read(int(fd), p.rest)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			p.err = p.expect(fd)
			return p.err != nil
		case err != nil:
			p.err = os.NewSyscallError("read", err)
			return true
		case n == 0:
			p.err = io.EOF
			if p.got {
				p.err = io.ErrUnexpectedEOF
			}
			return true
		default:
			p.sum, p.got = crc.Add(p.sum, p.rest[:n]), true
			p.rest = p.rest[n:]
		}
	}
	return true
}

// expect sets the limit for what is missing. If that fails the read must not go on: with a limit
// that is too high it would wait for ever.
func (p *patient) expect(fd uintptr) error {
	limit := min(len(p.rest), p.piece)
	if limit == p.limit {
		return nil
	}
	p.limit = limit
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, limit))
}
