//go:build unix

package descriptors

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrTooFew says that the limit of the process leaves too few file descriptors.
var ErrTooFew = errors.New("too few file descriptors")

// reserve is the one of this process.
var reserve = pool{}

// pool is a number of descriptors that stand for nothing.
type pool struct {
	mu      sync.Mutex
	want    int
	held    []int
	filling bool
}

// Share is a part of the reserve of this process. The zero Share has no descriptors. Its methods
// must not run at the same time.
type Share struct{ n int }

// Resize makes the share n descriptors large. A share that grows fails with ErrTooFew, and stays as
// it is, if the limit of the process does not leave so many, and more that are not reserved but
// will be needed as well; what says for what. A share that shrinks does not fail, and only the
// difference is given up: other operations of the process would take the rest.
func (s *Share) Resize(n, more int, what string) error {
	if n > s.n {
		raise()
		if err := Check(n-s.n+more, what); err != nil {
			return err
		}
	}
	reserve.add(n - s.n)
	s.n = n
	return nil
}

// Check fails with ErrTooFew if fewer descriptors are free than needed. The reserve does not count
// as free; what says what they are needed for.
func Check(needed int, what string) error {
	limit, used, err := usage()
	if err != nil {
		return nil // it cannot be known here, and the operations that lack a descriptor say so
	}
	if free := limit - used; free < needed {
		return fmt.Errorf("%w: %s needs %d, of the limit of %d only %d are free; raise it (ulimit -n, LimitNOFILE=)",
			ErrTooFew, what, needed, limit, max(free, 0))
	}
	return nil
}

// raise sets the soft limit of the process to the hard one.
func raise() {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil && l.Cur < l.Max {
		l.Cur = l.Max
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &l) // without it there are fewer: that is checked
	}
}

// usage returns the limit of this process and how many descriptors it has.
func usage() (limit, used int, err error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0, err
	}
	const most = 1 << 30 // unlimited, in effect
	limit = int(min(uint64(l.Cur), most))
	open, err := os.ReadDir("/dev/fd")
	if IsLack(err) {
		return limit, limit, nil
	}
	return limit, len(open), err
}

// Retry calls do, and once more for each reserved descriptor that it gives back, as long as do
// fails for the lack of one (FD1).
func Retry[T any](do func() (T, error)) (T, error) {
	for {
		v, err := do()
		if !IsLack(err) || !reserve.give() {
			return v, err
		}
	}
}

// Detach duplicates the descriptor of a connection for a loop that polls it by itself. The caller
// closes the connection and owns the duplicate, of which the poller of Go's runtime does not know:
// it would wake a thread for each packet that the loop reads, and for each that its peer has read.
func Detach(conn syscall.Conn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd = -1
	failed := raw.Control(func(held uintptr) {
		fd, err = Retry(func() (int, error) { return unix.FcntlInt(held, unix.F_DUPFD_CLOEXEC, 0) })
	})
	return fd, errors.Join(failed, os.NewSyscallError("fcntl", err))
}

// IsLack reports whether an error says that the process, or the system, has no descriptor left.
func IsLack(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// Give gives back some reserved descriptors, and reports whether there were any.
func Give() bool { return reserve.give() }

// add changes how many descriptors are wanted.
func (p *pool) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want += n
	for len(p.held) > p.want {
		p.drop()
	}
	if !p.fill() {
		p.refillLater()
	}
}

// give closes a few held descriptors, and reports whether there were any.
func (p *pool) give() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return false
	}
	for range min(len(p.held), given) {
		p.drop()
	}
	p.refillLater()
	return true
}

// refillLater has refill called after a pause, if it is not to be called already.
func (p *pool) refillLater() {
	if !p.filling {
		p.filling = true
		time.AfterFunc(refillPause, p.refill)
	}
}

const (
	given       = 4 // at a time: an operation may need more than one, and others may be faster
	refillPause = 200 * time.Millisecond
)

func (p *pool) drop() {
	last := len(p.held) - 1
	unix.Close(p.held[last])
	p.held = p.held[:last]
}

// refill tries again and again until all wanted descriptors are held.
func (p *pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.filling = !p.fill(); p.filling {
		time.AfterFunc(refillPause, p.refill)
	}
}

// fill opens the missing descriptors, and reports whether it got all of them.
func (p *pool) fill() bool {
	for len(p.held) < p.want {
		fd, err := take(p.held)
		if err != nil {
			return false
		}
		p.held = append(p.held, fd)
	}
	return true
}

// take takes one more descriptor: of a socket that is connected to nothing, which has no side
// effects.
func take(others []int) (int, error) {
	if len(others) > 0 {
		return unix.FcntlInt(uintptr(others[0]), unix.F_DUPFD_CLOEXEC, 0)
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	return fd, err
}
