package samehost

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"
	"unsafe"
)

// ID names a segment. It cannot be guessed.
type ID [16]byte

// Place is where bytes lie: in a segment, from an offset on.
type Place struct {
	ID     ID
	Offset int64
}

// String is the place for the wire.
func (p Place) String() string { return fmt.Sprintf("%x/%d", p.ID, p.Offset) }

// ParsePlace reads what String wrote. It judges nothing but the shape.
func ParsePlace(text string) (p Place, err error) {
	const digits = 2 * len(p.ID)
	if len(text) < digits+2 || text[digits] != '/' {
		return p, fmt.Errorf("%w: %.80q is no place", ErrMalformed, text)
	}
	if _, err := hex.Decode(p.ID[:], []byte(text[:digits])); err != nil {
		return p, fmt.Errorf("%w: %.80q is no place: %w", ErrMalformed, text, err)
	}
	if n, err := fmt.Sscanf(text[digits+1:], "%d", &p.Offset); n != 1 || err != nil || p.Offset < 0 || p.String() != text {
		return p, fmt.Errorf("%w: %.80q is no place", ErrMalformed, text)
	}
	return p, nil
}

var (
	// ErrMalformed says that bytes, or a text, are nothing that a peer may say.
	ErrMalformed = errors.New("malformed")
	// ErrRefused says that a process does not give, or does not take, a segment.
	ErrRefused = errors.New("refused")
	// ErrGone says that no process answers any more at a socket.
	ErrGone = errors.New("its owner is gone")
	// ErrClosed says that a space is closed.
	ErrClosed = errors.New("shared memory: closed")
)

// Bounds of what an owner keeps (E4).
const (
	maxSegments = 1024 // beyond, memory is the process' own: each takes a descriptor
	maxIdle     = 16
	idleShare   = 8 // the memory of the machine, through this, may be idle
	idleTime    = time.Minute
	leastBytes  = 64 << 10
)

// Space is what one owner offers. Its methods may be called from any goroutine.
type Space struct {
	listener *listener // nil: nothing is shared

	mu     sync.Mutex
	closed bool
	all    []*Memory // with a segment; by address
	idle   []*Memory // of them, the unused ones; the longest idle first
	timer  *time.Timer
}

// NewSpace makes a space, and the socket at which others ask for its segments. reject is told of
// callers that are turned away; it is called from several goroutines, and must not block. With nil
// nothing is shared.
func NewSpace(reject func(remote string, err error)) *Space {
	s := &Space{}
	if reject == nil || Host() == "" {
		return s
	}
	if d, err := newListener(s, os.Getuid(), reject); err == nil { // without one it is slower, and works
		s.listener = d
	}
	return s
}

// Name is the name of the socket; "" if nothing is shared.
func (s *Space) Name() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.name()
}

// Memory is a piece of memory to send from. Life: allocated → released by its user, and not held
// for a message → idle → allocated …
type Memory struct {
	space *Space
	seg   *segment // nil: it is on the heap
	bytes []byte

	// Guarded by the space's lock.
	used   bool // its user has not released it
	holds  int  // messages that lie in it
	seen   bool // other processes may look at it, and will not say when they stop (E2)
	idleAt time.Time

	// Of its user.
	dirty  int    // bytes from the start that may not be zero
	viewer uint64 // the only party that saw them; 0: several did, or it is not known
}

// Bytes is the memory. What is in it at first is anything.
func (m *Memory) Bytes() []byte { return m.bytes }

// Shared reports whether others can see it.
func (m *Memory) Shared() bool { return m.seg != nil }

// Alloc gives memory that others can see, or, where that cannot be had, memory on the heap. Its
// user must release it.
func (s *Space) Alloc(size int) (*Memory, error) {
	if size < 0 || size > math.MaxInt/2 {
		return nil, fmt.Errorf("%w: %d bytes", ErrNoMemory, size)
	}
	want := roundUp(size)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	m, crowded := s.reuse(want), len(s.all) >= maxSegments
	s.mu.Unlock()
	if m == nil {
		if err := Fits(int64(size)); err != nil {
			return nil, err
		}
	}
	if m == nil && (s.listener == nil || crowded || size == 0) {
		return OnHeap(size), nil
	}
	if m == nil {
		seg, err := newSegment(want) // not under the lock: making pages takes its time
		if err != nil {
			return OnHeap(size), nil
		}
		m = &Memory{space: s, seg: seg, used: true}
		if err := s.add(m); err != nil {
			return nil, err
		}
	}
	m.bytes = m.seg.mem[:size:size]
	return m, nil
}

// AllocFor is Alloc for memory that a viewer will look at, who sees all of the segment: it is zero,
// but for what the same viewer saw before. The memory of a viewer other than 0 is written from its
// start to its end before it is shown; with 0, which stands for anybody, all of it is zero.
func (s *Space) AllocFor(size int, viewer uint64) (*Memory, error) {
	m, err := s.Alloc(size)
	if err != nil || m.seg == nil {
		return m, err
	}
	switch {
	case viewer == 0:
		clear(m.seg.mem[:m.dirty])
		m.dirty = 0
	case viewer != m.viewer && m.dirty > size:
		clear(m.seg.mem[size:m.dirty])
		m.dirty = 0
	}
	m.viewer, m.dirty = viewer, max(m.dirty, size)
	return m, nil
}

// OnHeap returns memory that no other process sees.
func OnHeap(size int) *Memory { return &Memory{bytes: make([]byte, size)} }

// roundUp is the size of the segment for some bytes. Sizes that differ little are the same, so that
// segments fit again.
func roundUp(size int) int {
	step := leastBytes
	for step < size/8 {
		step *= 2
	}
	return max((size+step-1)/step*step, leastBytes)
}

// reuse takes the smallest idle memory that fits, and is not much too large.
func (s *Space) reuse(want int) *Memory {
	best := -1
	for i, m := range s.idle {
		if n := len(m.seg.mem); n >= want && n <= 2*want && (best < 0 || n < len(s.idle[best].seg.mem)) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	m := s.idle[best]
	s.idle = slices.Delete(s.idle, best, best+1)
	m.used = true
	return m
}

func (s *Space) add(m *Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(ErrClosed, m.seg.drop())
	}
	i, _ := s.search(m.start())
	s.all = slices.Insert(s.all, i, m)
	return nil
}

func (m *Memory) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.seg.mem))) }

// search is the place of an address among the segments: behind all that begin at it or before it.
// The lock is held.
func (s *Space) search(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(s.all, at, func(m *Memory, at uintptr) int {
		if m.start() <= at {
			return -1
		}
		return 1
	})
}

// Hold is a claim on memory for a message that lies in it.
type Hold struct{ memory *Memory }

// Hold finds the memory that bytes lie in, and keeps it for a message until Drop. It is false if
// they lie nowhere that others see.
func (s *Space) Hold(data []byte) (h Hold, p Place, ok bool) {
	if s.listener == nil || len(data) == 0 {
		return h, p, false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	s.mu.Lock()
	defer s.mu.Unlock()
	i, _ := s.search(at)
	if i == 0 || s.closed {
		return h, p, false
	}
	m := s.all[i-1]
	offset := at - m.start()
	if !m.used || offset+uintptr(len(data)) > uintptr(len(m.seg.mem)) {
		return h, p, false
	}
	m.holds++
	return Hold{m}, Place{m.seg.id, int64(offset)}, true
}

// Drop ends a claim. seen says that others may look at the memory for ever: it will not be used
// again, and must not be written (E2).
func (h Hold) Drop(seen bool) {
	m := h.memory
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	m.holds--
	m.seen = m.seen || seen
	m.settle()
}

// Release gives the memory back. Messages that lie in it may still be under way; the memory is used
// again only when they are not.
func (m *Memory) Release() {
	if m.seg == nil {
		return // the garbage collector sees what still needs it
	}
	m.space.mu.Lock()
	defer m.space.mu.Unlock()
	if m.used {
		m.used = false
		m.settle()
	}
}

// settle keeps unused memory for the next allocation, or drops it.
func (m *Memory) settle() {
	s := m.space
	switch {
	case m.used || m.holds > 0:
	case s.closed || m.seen:
		s.drop(m)
	default:
		m.idleAt = time.Now()
		s.idle = append(s.idle, m)
		s.trim(m.idleAt)
	}
}

// trim drops what is too much (E4), the longest idle first.
func (s *Space) trim(now time.Time) {
	bytes := 0
	for _, m := range s.idle {
		bytes += len(m.seg.mem)
	}
	for len(s.idle) > 0 {
		m := s.idle[0]
		if len(s.idle) <= maxIdle && bytes <= TotalMemory()/idleShare && now.Sub(m.idleAt) < idleTime {
			break
		}
		bytes -= len(m.seg.mem)
		s.idle = slices.Delete(s.idle, 0, 1)
		s.drop(m)
	}
	switch {
	case len(s.idle) == 0 || s.closed:
	case s.timer == nil:
		s.timer = time.AfterFunc(idleTime, s.tidy)
	default:
		s.timer.Reset(s.idle[0].idleAt.Add(idleTime).Sub(now))
	}
}

// tidy is the timer's.
func (s *Space) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim(time.Now())
}

// drop forgets memory. Its name means nothing from now on.
func (s *Space) drop(m *Memory) {
	s.all = slices.DeleteFunc(s.all, func(o *Memory) bool { return o == m })
	_ = m.seg.drop() // it was made, and is not used any more: there is nothing that could be done
}

// lend calls give with the descriptor of a segment, which stays open meanwhile; false: there is no
// such segment.
func (s *Space) lend(id ID, give func(fd int)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(m *Memory) bool { return m.seg.id == id })
	if i >= 0 && !s.closed {
		give(s.all[i].seg.fd)
		return true
	}
	return false
}

// Close closes the socket, and drops what is idle. Memory that is in use stays until it is
// released.
func (s *Space) Close() {
	s.mu.Lock()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, m := range s.idle {
		s.drop(m)
	}
	s.idle = nil
	s.mu.Unlock()
	if s.listener != nil {
		s.listener.close()
	}
}
