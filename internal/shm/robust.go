//go:build linux

package shm

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/samehost"
	"golang.org/x/sys/unix"
)

// robust is a futex word in a segment of its own, which the kernel marks when this process ends: it
// is on the robust list of a thread that does nothing else. A thread of a process that ends goes
// through its robust list before it lets go of the descriptors that it shares with the other
// threads. So a reader that finds the word unmarked knows that the process still held its files,
// and the locks on them, at that time (H5).
//
//	0   the word: the id of the thread; with ownerDied, or 0: the process is not there
//	64  the head of the list: its first entry, the way from an entry to its word, an entry in the making
//	96  the only entry
//
// Source: the kernel's documentation, "A description of what robust futexes are" and "The robust
// futex ABI".
type robust struct {
	page   []byte
	fd     int
	finish chan struct{}
	ended  chan struct{}
	marked sync.Once
	closed sync.Once
	err    error // of close
}

const (
	robustBytes = 4 << 10
	robustHead  = 64
	robustEntry = 96
	ownerDied   = 0x40000000 // FUTEX_OWNER_DIED
	headBytes   = 3 * 8
)

func newRobust() (*robust, error) {
	page, fd, err := samehost.NewSegment("squall-process", robustBytes, func(_ []byte, fd int) error { return unix.Fallocate(fd, 0, 0, robustBytes) })
	if err != nil {
		return nil, fabric.MemoryError(robustBytes, "shared memory", err)
	}
	r := &robust{page: page, fd: fd, finish: make(chan struct{}), ended: make(chan struct{})}
	held := make(chan struct{})
	go r.hold(held)
	<-held
	return r, nil
}

func (r *robust) word() *uint32 { return (*uint32)(unsafe.Pointer(&r.page[0])) }

// hold keeps the word until finish. The list is in the segment, too: memory that processes share is
// not taken from a process that the system ends for lack of memory.
func (r *robust) hold(held chan<- struct{}) {
	runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
	defer close(r.ended)
	head, entry := (*[3]uintptr)(unsafe.Pointer(&r.page[robustHead])), (*uintptr)(unsafe.Pointer(&r.page[robustEntry]))
	way := -robustEntry
	head[0], head[1] = uintptr(unsafe.Pointer(entry)), uintptr(way)
	*entry = uintptr(unsafe.Pointer(head))
	_, _, err := unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, uintptr(unsafe.Pointer(head)), headBytes, 0)
	if err == 0 { // otherwise the word stays 0: nothing could mark it
		atomic.StoreUint32(r.word(), uint32(unix.Gettid()))
	}
	close(held)
	<-r.finish
	atomic.StoreUint32(r.word(), ownerDied)
	unix.RawSyscall(unix.SYS_SET_ROBUST_LIST, 0, headBytes, 0)
}

// mark marks the word, for good.
func (r *robust) mark() {
	r.marked.Do(func() {
		close(r.finish)
		<-r.ended
	})
}

// close marks the word and gives the segment back, when nothing sends its descriptor any more.
func (r *robust) close() error {
	r.mark()
	r.closed.Do(func() { r.err = samehost.Release(r.page, r.fd) })
	return r.err
}

// mapRobust maps the word of a peer, read-only, after the same checks as for its row.
func mapRobust(fd int) ([]byte, error) {
	size, err := samehost.SegmentBytes(fd)
	if err == nil && size != robustBytes {
		err = fmt.Errorf("it has %d bytes, not %d", size, robustBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: H1: the peer's robust word: %w", fabric.ErrViolation, err)
	}
	return unix.Mmap(fd, 0, robustBytes, unix.PROT_READ, unix.MAP_SHARED)
}

// there reports whether the process that a mapped word belongs to has not ended.
func there(page []byte) bool {
	word := atomic.LoadUint32((*uint32)(unsafe.Pointer(&page[0])))
	return word != 0 && word&ownerDied == 0
}

// Peek implements fabric.Peeker.
func (l *Link) Peek(off int) (word uint64, here bool) {
	word = atomic.LoadUint64(fabric.Word(l.peer, off))
	return word, l.robust != nil && there(l.robust)
}

func (l *Link) unmapRobust() error {
	if l.robust == nil {
		return nil
	}
	return unix.Munmap(l.robust)
}
