package ripc

import (
	"bytes"
	"fmt"
	"os"

	"github.com/squall-go/squall/internal/samehost"
	"github.com/squall-go/squall/ripc/internal/pair"
	"github.com/squall-go/squall/ripc/internal/table"
)

// Window is a place for the body of one long message: memory of the receiver, or a part of a file.
type Window struct {
	bytes  []byte
	file   *os.File
	offset int64
	size   int64
}

// NewWindow returns a window of memory. It belongs to the service from Post until the message that
// lies in it is released.
func NewWindow(b []byte) *Window { return &Window{bytes: b, size: int64(len(b))} }

// NewFileWindow returns a window into a file that is open for writing.
func NewFileWindow(f *os.File, offset, size int64) *Window {
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

// LongConfig says which long messages a service takes.
type LongConfig struct {
	// InPlace lets the service read bodies from senders of this host in place, in the sender's
	// memory. No other process can write that memory, but the sender still can.
	InPlace bool
	// MaxBytes bounds the bodies that are in memory of the library, or looked at in place, and not
	// released. With 0 all bodies need windows that were posted.
	MaxBytes int64
	// MaxPeerBytes is the part of MaxBytes that one sender may take: under TLS the processes with one
	// identity, within a host one process, and else all at one address. 0 is half of it.
	MaxPeerBytes int64
	// MaxPeerWindows bounds the windows that were posted and one sender has at a time, counted in the
	// same way; 0 is no bound. A message beyond it waits.
	MaxPeerWindows int
	// Allocate makes the windows instead of the library. It is called on a goroutine of the endpoint,
	// for one message of the service at a time. With nil the message waits for a window that is
	// posted; with an error it is refused. A window that it returned for a message that ended
	// meanwhile is not used.
	Allocate func(Offer) (*Window, error)
	// Refuse has messages refused for which there is no window, or no space within MaxBytes, instead
	// of waiting.
	Refuse bool
}

// TakeLong says which long messages the service takes from now on. Without it, and without
// Config.Long, a service takes the long messages for which windows are posted.
func (s *Service) TakeLong(l LongConfig) error {
	if err := l.check(); err != nil {
		return fmt.Errorf("ripc: %w", err)
	}
	s.e.lock()
	defer s.e.unlock()
	s.long.follow(l)
	s.placeAll()
	return nil
}

// follow sets the rules.
func (i *intake) follow(l LongConfig) {
	if l.MaxPeerBytes == 0 {
		l.MaxPeerBytes = (l.MaxBytes + 1) / 2
	}
	i.allocate = l.Allocate
	i.places.Follow(table.Rules{
		InPlace: l.InPlace, MaxBytes: l.MaxBytes, MaxPartyBytes: l.MaxPeerBytes, MaxPartyWindows: l.MaxPeerWindows,
		Asks: l.Allocate != nil, Refuses: l.Refuse,
	})
}

// check reports invalid rules.
func (l LongConfig) check() error {
	if l.MaxPeerWindows < 0 {
		return fmt.Errorf("%w: %d windows for one process", os.ErrInvalid, l.MaxPeerWindows)
	}
	if l.MaxBytes < 0 || l.MaxPeerBytes < 0 || l.MaxPeerBytes > l.MaxBytes {
		return fmt.Errorf("%w: %d bytes for long messages, %d for the long messages of one process", os.ErrInvalid, l.MaxBytes, l.MaxPeerBytes)
	}
	return nil
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
	if s.long.places.Windows()+len(windows) > maxWindows {
		return fmt.Errorf("ripc: %s: %w: %d windows", s.id, ErrLimit, maxWindows)
	}
	s.long.places.Open()
	for _, w := range windows {
		s.long.places.Post(w, w.size)
	}
	s.placeAll()
	return nil
}

const maxWindows = 4096 // of a service

// intake is how a service takes long messages. It is under the endpoint's mu.
type intake struct {
	places   table.Intake[*Window]
	allocate func(Offer) (*Window, error)
	waiting  []*receiving    // for a place, the oldest first
	asking   []*receiving    // of them, the messages for which Allocate is to be called
	clerk    bool            // a goroutine calls Allocate
	stopping []chan struct{} // closed when windows of messages that ended are not written any more
}

// handBack notes that a message does not have a window any more that was posted, and looks at the
// messages that waited for it.
func (m *receiving) handBack() {
	if !m.handed {
		return
	}
	m.handed = false
	if m.service.long.places.HandBack(m.peer.member.Account.Name) {
		m.service.placeAll()
	}
}

// refund gives the bytes back, and looks at the messages that waited for them.
func (m *receiving) refund() {
	e := m.peer.e
	if m.charged == 0 {
		return
	}
	m.service.long.places.Refund(m.peer.member.Account.Name, m.charged, &e.memory.budget)
	m.charged = 0
	m.service.placeAll()
	if e.memory.budget.Short() {
		for _, s := range e.services.all {
			s.placeAll()
		}
	}
}

// makeWindow starts a message in memory of its own. The peer's word for a size is not enough.
func (m *receiving) makeWindow(size int64) {
	m.charged = size
	if err := samehost.Fits(size); err != nil {
		m.refund()
		m.deny(pair.NoPlace, err.Error())
		return
	}
	m.window = &Window{size: size}
	m.start()
}

// place finds a place for a message: it is started, waits, or is denied.
func (s *Service) place(m *receiving) {
	size, budget := int64(m.offer.Size), &s.e.memory.budget
	verdict, w := s.long.places.Place(table.Want{
		Size: size, Account: m.peer.member.Account.Name, Shown: m.offer.Way == pair.Placed,
	}, budget)
	switch verdict {
	case table.InPlace:
		m.charged = size
		m.start()
	case table.Posted:
		m.window, m.origin, m.handed = w, ofPost, true
		m.start()
	case table.Made:
		m.makeWindow(size)
	case table.Asked:
		if !m.asked {
			m.asked = true
			s.long.asking = append(s.long.asking, m)
			s.hireClerk()
		}
		fallthrough
	case table.Waits:
		s.long.waiting = append(s.long.waiting, m)
	case table.TooLarge:
		m.deny(pair.TooLarge, fmt.Sprintf("%d bytes, the service takes %d", size, s.long.places.Most(budget)))
	case table.NoWindow:
		m.deny(pair.NoPlace, "no window is free")
	case table.NoLong:
		m.deny(pair.NoPlace, "the service takes no long messages")
	}
}

// placeAll looks for places for the messages that wait.
func (s *Service) placeAll() {
	waiting := s.long.waiting
	s.long.waiting = nil
	for _, m := range waiting {
		if m.in.IsOpen() {
			s.place(m)
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
			if !m.in.IsOpen() || m.window != nil || s.long.allocate == nil {
				continue
			}
			allocate := s.long.allocate
			offer := Offer{From: m.from(), Peer: m.peer.who, Head: bytes.Clone(m.frame.Data), Size: int64(m.offer.Size), Request: m.offer.Purpose == pair.LongRequest}
			e.unlock()
			w, err := allocate(offer)
			e.lock()
			m.allocated(w, err)
		}
		s.long.clerk = false
	})
}
