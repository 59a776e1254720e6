package fabric

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Parker is the one place where a loop sleeps: an epoll wait on the sockets of its links and one eventfd, which the
// application's senders, peers in shared memory and timers ring.
//
// The order "announce, look once more, sleep" makes a lost wake-up impossible: a ringer writes first and looks at the
// announcement second, the loop announces first and looks for writes second, so one of the two sees the other.
//
//	word      written by                       read by       meaning
//	sleeping  loop (0→1, →0), ringers (1→2)    ringers       1: the loop sleeps or is about to, and nobody rang yet
type Parker struct {
	epoll, event int
	sleeping     atomic.Uint32
	count        atomic.Int32 // of watched, those with data
	events       [64]unix.EpollEvent

	mu      sync.Mutex
	watched map[int]*Readiness // links are made by other goroutines than the loop
	closed  bool               // a late bell must not ring in a descriptor that somebody else got meanwhile
}

// Readiness is what the last look at the sockets said about one of them. The loop clears what it has used up.
type Readiness struct {
	In, Out bool
	data    bool
}

// NewParker makes a parker with its eventfd.
func NewParker() (*Parker, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	ev, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	p := &Parker{epoll: ep, event: ev, watched: map[int]*Readiness{}}
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, ev, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(ev)}); err != nil {
		p.Close()
		return nil, fmt.Errorf("epoll of the eventfd: %w", err)
	}
	return p, nil
}

// EventFD is the bell; peers on the same host get a duplicate of it.
func (p *Parker) EventFD() int { return p.event }

// Watch makes the parker wake for a socket, which is readable from the start until the loop found out that it is not. data says
// that rows come through it; else it only tells that a peer is gone.
func (p *Parker) Watch(fd int, data bool) (*Readiness, error) {
	if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(fd)}); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	r := &Readiness{In: true, Out: true, data: data}
	p.mu.Lock()
	p.watched[fd] = r
	p.recount()
	p.mu.Unlock()
	return r, nil
}

// WatchOut says whether room in the socket's send buffer shall wake the loop too.
func (p *Parker) WatchOut(fd int, on bool) error {
	events := uint32(unix.EPOLLIN | unix.EPOLLRDHUP)
	if on {
		events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// Unwatch forgets a socket; call it before closing the socket.
func (p *Parker) Unwatch(fd int) {
	unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, fd, nil)
	p.mu.Lock()
	delete(p.watched, fd)
	p.recount()
	p.mu.Unlock()
}

func (p *Parker) recount() {
	n := int32(0)
	for _, r := range p.watched {
		if r.data {
			n++
		}
	}
	p.count.Store(n)
}

// Watching is the number of sockets with data.
func (p *Parker) Watching() int { return int(p.count.Load()) }

// Look updates the readiness of all sockets without waiting.
func (p *Parker) Look() { p.wait(0) }

// Announce is to be called before the last look.
func (p *Parker) Announce() { p.sleeping.Store(1) }

// Retract is to be called when the loop works again.
func (p *Parker) Retract() { p.sleeping.Store(0) }

// Sleep waits for a bell, a socket or the end of d; d is rounded up to milliseconds, less than 0 is for ever.
func (p *Parker) Sleep(d time.Duration) {
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	p.wait(ms)
}

func (p *Parker) wait(ms int) {
	n, err := unix.EpollWait(p.epoll, p.events[:], ms)
	if err != nil || n <= 0 { // EINTR: the loop looks again by itself
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events[:n] {
		if int(e.Fd) == p.event {
			var count [8]byte // read, so that it never fills up: a full one rings no more
			unix.Read(p.event, count[:])
			continue
		}
		if r := p.watched[int(e.Fd)]; r != nil {
			r.In = r.In || e.Events&^unix.EPOLLOUT != 0
			r.Out = r.Out || e.Events&unix.EPOLLOUT != 0
		}
	}
}

// Yield offers the core to other processes.
func (p *Parker) Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Wake rings the bell if the loop sleeps or is about to, and nobody rang before. Any goroutine may call it.
func (p *Parker) Wake() {
	if p.sleeping.Load() == 1 && p.sleeping.CompareAndSwap(1, 2) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			Ring(p.event)
		}
	}
}

// Ring writes to an eventfd.
func Ring(fd int) {
	var one = [8]byte{1}
	unix.Write(fd, one[:]) // it can only fail when the counter is full, and then the sleeper has not read it yet
}

// Close releases the descriptors. The loop must have ended.
func (p *Parker) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	unix.Close(p.event)
	return unix.Close(p.epoll)
}
