package ripc

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/squall-go/squall/internal/shared"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// Window is a place for the body of one long message: memory of the receiver, or a part of a file.
type Window struct {
	bytes  []byte
	file   *os.File
	offset int64
	size   int64
}

// NewWindow is a window of memory. It belongs to the service from Post until the message that lies in it is released.
func NewWindow(b []byte) *Window { return &Window{bytes: b, size: int64(len(b))} }

// FileWindow is a window into a file that is open for writing.
func FileWindow(f *os.File, offset, size int64) *Window {
	return &Window{file: f, offset: offset, size: size}
}

// Size is the size of the largest body that the window takes.
func (w *Window) Size() int64 { return w.size }

// Bytes is the memory of a window, nil of one into a file.
func (w *Window) Bytes() []byte { return w.bytes }

// Offer is a long message for which there is no window yet.
type Offer struct {
	From    ID // of the sending service, as its process says
	Peer    Peer
	Head    []byte
	Size    int64 // of the body
	Request bool
}

// Long says which long messages a service takes.
type Long struct {
	// InPlace lets the service read bodies from senders of this host in place, in the sender's
	// memory. No other process can write that memory, but the sender still can.
	InPlace bool
	// MaxBytes bounds the bodies that are in memory of the library, or looked at in place, and not released. With 0 all bodies need windows that
	// were posted.
	MaxBytes int64
	// MaxPeerBytes is the part of MaxBytes that one sender may take: under TLS the processes with one identity, within a host one process, and else
	// all at one address. 0 is half of it.
	MaxPeerBytes int64
	// MaxPeerWindows bounds the windows that were posted and one sender has at a time, counted in the same way; 0 is no bound. A message beyond it waits.
	MaxPeerWindows int
	// Allocate makes the windows instead of the library. It is called on a goroutine of the endpoint, for one message of the service at a time. With nil the message
	// waits for a window that is posted; with an error it is refused. A window that it returned for a message that ended meanwhile is not used.
	Allocate func(Offer) (*Window, error)
	// Refuse has messages refused for which there is no window, or no room within MaxBytes, instead of waiting.
	Refuse bool
}

// TakeLong says which long messages the service takes from now on. Without it, and without
// Config.Long, a service takes the long messages for which windows are posted.
func (s *Service) TakeLong(l Long) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("ripc: %w", err)
	}
	s.e.lock()
	defer s.e.unlock()
	s.long.follow(l)
	s.placeAll()
	return nil
}

// check reports invalid rules.
func (l Long) check() error {
	if l.MaxPeerWindows < 0 {
		return fmt.Errorf("%w: %d windows for one process", os.ErrInvalid, l.MaxPeerWindows)
	}
	if l.MaxBytes < 0 || l.MaxPeerBytes < 0 || l.MaxPeerBytes > l.MaxBytes {
		return fmt.Errorf("%w: %d bytes for long messages, %d for the long messages of one process", os.ErrInvalid, l.MaxBytes, l.MaxPeerBytes)
	}
	return nil
}

// follow sets the rules.
func (i *intake) follow(l Long) {
	if l.MaxPeerBytes == 0 {
		l.MaxPeerBytes = (l.MaxBytes + 1) / 2
	}
	i.rules, i.set = l, true
}

// Post adds windows for one message each. A message takes the first one that is large enough.
func (s *Service) Post(windows ...*Window) error {
	for _, w := range windows {
		if w.size < 1 || w.offset < 0 {
			return fmt.Errorf("ripc: %w: a window of %d bytes at %d", os.ErrInvalid, w.size, w.offset)
		}
	}
	e := s.e
	e.lock()
	defer e.unlock()
	if s.closed {
		return fmt.Errorf("ripc: %s: %w", s.id, ErrClosed)
	}
	if len(s.long.posted)+len(windows) > maxWindows {
		return fmt.Errorf("ripc: %s: %w: %d windows", s.id, ErrLimit, maxWindows)
	}
	s.long.posted = append(s.long.posted, windows...)
	s.long.set = true
	s.placeAll()
	return nil
}

const maxWindows = 4096 // of a service

// intake is how a service takes long messages. It is under the endpoint's mu.
type intake struct {
	rules   Long
	set     bool
	posted  []*Window
	waiting []*receiving     // for a place, the oldest first
	asking  []*receiving     // of them, the messages for which Allocate is to be called
	clerk   bool             // a goroutine calls Allocate
	bytes   int64            // taken of MaxBytes
	ofOne   map[string]int64 // by account

	windowsPerClient map[string]int // that were posted and messages have, by account

	stopping []chan struct{} // closed when windows of messages that ended are not written any more
}

// charge takes bytes of MaxBytes for a message, if they are free.
func (i *intake) charge(account string, n int64) bool {
	if n > i.rules.MaxBytes-i.bytes || n > i.rules.MaxPeerBytes-i.ofOne[account] {
		return false
	}
	if i.ofOne == nil {
		i.ofOne = map[string]int64{}
	}
	i.bytes += n
	i.ofOne[account] += n
	return true
}

// refund gives them back.
func (i *intake) refund(account string, n int64) {
	i.bytes -= n
	if i.ofOne[account] -= n; i.ofOne[account] == 0 {
		delete(i.ofOne, account)
	}
}

// mayHave reports whether a sender may have one more of the windows that were posted.
func (i *intake) mayHave(account string) bool {
	return i.rules.MaxPeerWindows == 0 || i.windowsPerClient[account] < i.rules.MaxPeerWindows
}

// hand counts a window that was posted and that a message gets.
func (i *intake) hand(m *receiving) {
	if i.windowsPerClient == nil {
		i.windowsPerClient = map[string]int{}
	}
	i.windowsPerClient[m.peer.member.Account.Name]++
	m.handed = true
}

// handBack takes that back, and looks at the messages that waited for it.
func (m *receiving) handBack() {
	if !m.handed {
		return
	}
	m.handed = false
	i, account := &m.service.long, m.peer.member.Account.Name
	if i.windowsPerClient[account]--; i.windowsPerClient[account] == 0 {
		delete(i.windowsPerClient, account)
	}
	if i.rules.MaxPeerWindows > 0 {
		m.service.placeAll()
	}
}

// outcome is what became of a message that needs a place.
type outcome uint8

const (
	placed outcome = iota
	waits
	refused
)

// mostLong is the largest body that ever finds a place without a window of the application's.
func (s *Service) mostLong() int64 {
	return min(s.long.rules.MaxBytes, s.long.rules.MaxPeerBytes, s.e.cfg.MaxLongBytes)
}

// charge takes the bytes of a message from what the endpoint and the service allow.
func (m *receiving) charge() bool {
	e, size := m.peer.e, int64(m.offer.Size)
	if size > e.cfg.MaxLongBytes-e.memory.bytes {
		e.memory.short = true
		return false
	}
	if !m.service.long.charge(m.peer.member.Account.Name, size) {
		return false
	}
	e.memory.bytes += size
	m.charged = size
	return true
}

// refund gives the bytes back, and looks at the messages that waited for them.
func (m *receiving) refund() {
	e := m.peer.e
	if m.charged == 0 {
		return
	}
	e.memory.bytes -= m.charged
	m.service.long.refund(m.peer.member.Account.Name, m.charged)
	m.charged = 0
	m.service.placeAll()
	if e.memory.short {
		e.memory.short = false
		for _, s := range e.services.all {
			s.placeAll()
		}
	}
}

// place finds a place for a message, or says why there is none. The caller starts it, lets it wait, or denies it.
func (s *Service) place(m *receiving) (outcome, pair.Reason, string) {
	i := &s.long
	size := int64(m.offer.Size)
	fits := size <= s.mostLong() && size <= math.MaxInt
	if m.offer.Way == pair.Placed && i.rules.InPlace && fits && m.charge() {
		return placed, 0, ""
	}
	for k, w := range i.posted {
		if w.size >= size && i.mayHave(m.peer.member.Account.Name) {
			i.hand(m)
			i.posted = slices.Delete(i.posted, k, k+1)
			m.window, m.origin = w, ofPost
			return placed, 0, ""
		}
	}
	switch {
	case !i.set:
		return refused, pair.NoPlace, "the service takes no long messages"
	case i.rules.Allocate != nil:
		if !m.asked {
			m.asked = true
			i.asking = append(i.asking, m)
			s.hireClerk()
		}
		return waits, 0, ""
	case !fits && i.rules.MaxBytes > 0:
		return refused, pair.TooLarge, fmt.Sprintf("%d bytes, the service takes %d", size, s.mostLong())
	case fits && m.charge():
		if err := shared.Fits(size); err != nil { // the peer's word for a size is not enough
			m.refund()
			return refused, pair.NoPlace, err.Error()
		}
		m.window = &Window{size: size}
		return placed, 0, ""
	}
	if i.rules.Refuse {
		return refused, pair.NoPlace, "no window is free"
	}
	return waits, 0, ""
}

// placeAll looks for places for the messages that wait.
func (s *Service) placeAll() {
	waiting := s.long.waiting
	s.long.waiting = nil
	for _, m := range waiting {
		if m.in.IsOpen() {
			m.settle()
		}
	}
}

// hireClerk has Allocate called for the messages for which it was not. The caller holds the mu.
func (s *Service) hireClerk() {
	if s.long.clerk {
		return
	}
	s.long.clerk = true
	s.e.background.Go(func() {
		e := s.e
		e.lock()
		defer e.unlock()
		for len(s.long.asking) > 0 && !s.closed {
			m := s.long.asking[0]
			s.long.asking = s.long.asking[1:]
			if !m.in.IsOpen() || m.window != nil || s.long.rules.Allocate == nil {
				continue
			}
			allocate := s.long.rules.Allocate
			offer := Offer{From: m.from(), Peer: m.peer.who, Head: bytes.Clone(m.frame.Data), Size: int64(m.offer.Size), Request: m.offer.Purpose == pair.LongRequest}
			e.unlock()
			w, err := allocate(offer)
			e.lock()
			m.allocated(w, err)
		}
		s.long.clerk = false
	})
}
