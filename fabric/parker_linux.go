package fabric

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Parker is the one place where a loop sleeps: an epoll wait on the sockets of its links and one
// eventfd, which the application's goroutines ring. No other process holds that eventfd, so that
// ringing it never waits.
//
//	word      written by                       read by        meaning
//	sleeping  loop (0→1, →0), ringers (1→2)    loop, ringers  not 0: the loop sleeps or is about to; 2: a ringer rang
//
// No wake-up is lost. The loop announces, looks for writes, and sleeps; a ringer writes, loads
// sleeping, and rings if it is 1. These atomics have one order that all agree on (they are
// sequentially consistent, also between processes), so either the loop's look finds the write, or
// the ringer finds the announcement. It remains to show that the bell of the second case ends the
// sleep, that is, that nothing but the sleep takes it out of the eventfd. Look is called in the
// middle of a step: what the step examined before could have been written since, and its bell is in
// the eventfd already. So Look leaves the eventfd alone while sleeping is not 0. At any other time
// the loop makes a whole step between a Look, or the end of a Sleep, and its next Sleep: the one
// that follows the announcement. That step finds whatever was written before a bell that was taken
// out earlier. Bells that come late, for writes that were found already, end one sleep early and do
// no other harm.
type Parker struct {
	// OneLoop says that one goroutine alone polls the links. Its last look before a sleep reads no
	// TCP socket then: what a socket has ends the sleep. Set it before the first link.
	OneLoop bool

	epoll, event int
	sleeping     atomic.Uint32
	count        atomic.Int32 // of watched, the sockets with data
	events       [64]unix.EpollEvent
	rang         []*Readiness

	nested  sync.Once
	file    *os.File // has the descriptor epoll, if the runtime's poller watches it
	outer   syscall.RawConn
	isReady func(uintptr) bool
	dozing  atomic.Int32 // goroutines in the runtime's poller

	mu      sync.Mutex
	watched map[int]*Readiness // links are made by other goroutines than the loop
	closed  bool               // a late bell must not ring in a descriptor that was given out again meanwhile
}

// Readiness is what the last look at the sockets said about one of them. The loop clears what it
// has used up.
type Readiness struct {
	In, Out bool
	Owner   any // set once by a loop that asks which sockets became readable (Rang)
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
		unix.Close(ev)
		unix.Close(ep)
		return nil, fmt.Errorf("epoll of the eventfd: %w", err)
	}
	parkers.Add(1)
	return p, nil
}

// Watch makes the parker wake for a socket, which is readable from the start until the loop found
// out that it is not. data says that rows come through it; else it only tells that a peer is gone.
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

// WatchOut says whether space in the socket's send buffer shall wake the loop too.
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

// FewSockets reports whether there are so few sockets with data that trying each is cheaper than
// asking which are ready.
func (p *Parker) FewSockets() bool { return p.count.Load() <= 2 }

// Look updates the readiness of all sockets without waiting. Between Announce and Retract it leaves
// bells for Sleep.
func (p *Parker) Look() { p.wait(0, p.sleeping.Load() == 0) }

// LeavesSockets reports whether the loop is about to sleep and may leave sockets to the sleep.
func (p *Parker) LeavesSockets() bool { return p.OneLoop && p.sleeping.Load() != 0 }

// Announced reports whether the loop is about to sleep: this is its last look.
func (p *Parker) Announced() bool { return p.sleeping.Load() != 0 }

// Announce is to be called before the last look.
func (p *Parker) Announce() { p.sleeping.Store(1) }

// Retract is to be called when the loop works again.
func (p *Parker) Retract() { p.sleeping.Store(0) }

// Sleep waits for a bell, a socket or the end of d; d is rounded up to milliseconds, less than 0 is
// without end.
func (p *Parker) Sleep(d time.Duration) {
	if isShared() && p.inRuntime(d) {
		p.wait(0, true)
		return
	}
	ms := -1
	if d >= 0 {
		ms = int((d + time.Millisecond - 1) / time.Millisecond)
	}
	p.wait(ms, true)
}

// Doze waits for a bell or a socket, and takes nothing in: the loop looks afterwards. While one
// goroutine dozes, another one may look. busy says that other goroutines have work.
//
// A goroutine that sleeps in the system keeps its processor of the runtime until the runtime's
// monitor takes it away, which can be 20 ms later. If there is only one, all others wait for that.
// So a goroutine that sleeps for longer, or next to busy ones, then sleeps in the runtime's own
// poller, which wakes it some microseconds later.
func (p *Parker) Doze(busy bool) {
	one := isShared()
	if runtime.GOMAXPROCS(0) > 1 {
		p.poll(-1)
		return
	}
	if !busy && !one && p.poll(shortDoze) {
		return
	}
	if !p.inRuntime(-1) {
		p.poll(-1)
	}
}

var (
	parkers atomic.Int32 // in this process
	shared  atomic.Bool  // what isShared returned last
)

// isShared looks whether a loop that sleeps in the system keeps another one from running: a member
// that serves clients has two, and perhaps one processor of the runtime for both.
func isShared() bool {
	is := parkers.Load() > 1 && runtime.GOMAXPROCS(0) == 1
	if is != shared.Load() {
		shared.Store(is)
	}
	return is
}

// Shared reports whether this process has several loops and one processor of the runtime for all of
// them, as of the last sleep of one of them. A loop that waits without sleeping keeps the others
// from the processor.
func (p *Parker) Shared() bool { return shared.Load() }

// inRuntime sleeps in the runtime's poller until there is something to look at, Rouse finds
// something, or d has passed, if it is not less than 0. It reports false where the runtime's poller
// takes no descriptor of an epoll instance.
func (p *Parker) inRuntime(d time.Duration) bool {
	p.nested.Do(p.nest)
	if p.outer == nil {
		return false
	}
	if d >= 0 {
		p.file.SetReadDeadline(time.Now().Add(d))
	}
	p.dozing.Add(1)
	defer p.dozing.Add(-1)
	if err := p.outer.Read(p.isReady); d >= 0 || err != nil { // Rouse's deadline, or that of d
		p.file.SetReadDeadline(time.Time{})
	}
	return true
}

// Rouse ends a doze in the runtime's poller if there is something to look at. The runtime looks
// into its poller only when no goroutine can run, or after 10 ms: goroutines that run for long
// without waiting call it now and then.
func (p *Parker) Rouse() {
	if p.dozing.Load() > 0 && p.poll(0) {
		p.file.SetReadDeadline(time.Unix(1, 0))
	}
}

const shortDoze = 1 // ms

// poll waits until there is something to look at, and reports whether there is. What is there
// stays: the descriptors are level-triggered, and of several goroutines that wait all are woken,
// each by the one before it. A poll of the epoll descriptor would do the same through one more wait
// queue, by which the kernel does not learn that the ringer is about to sleep.
func (p *Parker) poll(ms int) bool {
	var one [1]unix.EpollEvent
	n, _ := epollWait(p.epoll, one[:], ms) // EINTR: the loop looks again by itself
	return n > 0
}

// nest has the runtime's poller watch the descriptor of this one. If that fails, Doze sleeps in the
// system.
func (p *Parker) nest() {
	if unix.SetNonblock(p.epoll, true) != nil {
		return
	}
	p.file = os.NewFile(uintptr(p.epoll), "parker")
	if outer, err := p.file.SyscallConn(); err == nil {
		p.outer, p.isReady = outer, func(uintptr) bool { return p.poll(0) }
	}
}

// Rang returns the sockets with an owner that the looks since the last call found readable or
// writable, some perhaps twice. The slice is valid until the next look.
func (p *Parker) Rang() []*Readiness {
	r := p.rang
	p.rang = p.rang[:0]
	return r
}

func (p *Parker) wait(ms int, takeBells bool) {
	n, err := epollWait(p.epoll, p.events[:], ms)
	if err != nil || n <= 0 { // EINTR: the loop looks again by itself
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events[:n] {
		if int(e.Fd) == p.event {
			if takeBells {
				var count [8]byte
				unix.RawSyscall(unix.SYS_READ, uintptr(p.event), uintptr(unsafe.Pointer(&count)), uintptr(len(count)))
			}
			continue
		}
		if r := p.watched[int(e.Fd)]; r != nil {
			in, out := e.Events&^unix.EPOLLOUT != 0, e.Events&unix.EPOLLOUT != 0
			if r.Owner != nil {
				p.rang = append(p.rang, r)
			}
			r.In, r.Out = r.In || in, r.Out || out
		}
	}
}

// epollWait is unix.EpollWait, of which the runtime's scheduler learns only if it may wait. Each
// call of which it learns can wake its monitor, a thread that then looks at all processors every 20
// µs for a millisecond: with one processor, which is idle between two calls, that is most of the
// calls.
func epollWait(epoll int, events []unix.EpollEvent, ms int) (int, error) {
	if ms != 0 {
		return unix.EpollWait(epoll, events, ms)
	}
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Yield offers the core to other processes.
func (p *Parker) Yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Wake rings the bell if the loop sleeps or is about to, and no ringer rang before. Any goroutine
// may call it.
func (p *Parker) Wake() {
	if p.sleeping.Load() == 1 {
		p.ring()
	}
}

func (p *Parker) ring() {
	if p.sleeping.CompareAndSwap(1, 2) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.closed {
			one := [8]byte{1}
			// It can only fail when the counter is full, and then the loop will see it.
			unix.RawSyscall(unix.SYS_WRITE, uintptr(p.event), uintptr(unsafe.Pointer(&one)), uintptr(len(one)))
		}
	}
}

// Close releases the descriptors. The loop must have ended.
func (p *Parker) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	parkers.Add(-1)
	unix.Close(p.event)
	if p.file != nil {
		return p.file.Close()
	}
	return unix.Close(p.epoll)
}
