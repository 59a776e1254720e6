package table

import (
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Seat is a goroutine that waits.
type Seat[W any] struct {
	Waiter     W
	Yields     bool // what it waits for is not urgent: as the poller it gives the role to a goroutine that does not yield
	prev, next *Seat[W]
	listed     bool
}

// IsListed reports whether the goroutine waits without polling, and was not roused.
func (s *Seat[W]) IsListed() bool { return s.listed }

// Call says how a goroutine is woken.
type Call uint8

const (
	CallNone   Call = iota // it is awake
	CallBell               // it sleeps on its own bell
	CallParker             // it sleeps in the parker, as the poller
)

// Role is the role of polling, which one goroutine has at a time, and the list of the goroutines
// that wait without it. The zero value is ready: nobody has the role.
type Role[W any] struct {
	poller  *Seat[W]
	head    *Seat[W] // of the list; the oldest
	tail    *Seat[W]
	turns   uint64 // how often the role was taken
	asleep  bool   // the poller sleeps in the parker
	away    bool   // the poller lets goroutines run that move long messages, and does not poll meanwhile
	roused  bool   // goroutines were woken since the poller let others run
	dozing  int    // goroutines in the parker: the poller, and others that lost the role and were woken
	waiting bool   // the caretaker waits to learn that nobody polls
}

// Poller is the goroutine that polls, or nil.
func (r *Role[W]) Poller() *Seat[W] { return r.poller }

// Turns is the number of times that the role was taken.
func (r *Role[W]) Turns() uint64 { return r.turns }

// IsAsleep reports whether the poller sleeps in the parker.
func (r *Role[W]) IsAsleep() bool { return r.asleep }

// IsVacant reports whether nobody polls at the moment, and a goroutine may glance at the peers.
func (r *Role[W]) IsVacant() bool { return r.poller == nil || r.away }

// IsUsed reports whether a goroutine has the role, or is in the parker.
func (r *Role[W]) IsUsed() bool { return r.poller != nil || r.dozing > 0 }

// Defers reports whether nobody polls but goroutines that yield, so that a goroutine that is about
// to wait takes the role at once.
func (r *Role[W]) Defers() bool { return r.poller == nil || r.poller.Yields }

// IsFree reports whether a goroutine that waits takes the role.
func (r *Role[W]) IsFree(s *Seat[W]) bool {
	return r.poller == nil || r.away || r.poller.Yields && !s.Yields
}

// Take gives the role to a goroutine that found it free. With wake, the poller before it sleeps and
// has to be woken: it finds that the role is not its own any more.
func (r *Role[W]) Take(s *Seat[W]) (wake bool) {
	wake = r.asleep
	r.poller, r.asleep, r.away = s, false, false
	r.turns++
	return wake
}

// Has reports whether a goroutine still has the role.
func (r *Role[W]) Has(s *Seat[W]) bool { return r.poller == s }

// Drop gives the role up, if the goroutine still has it. Next is called afterwards.
func (r *Role[W]) Drop(s *Seat[W]) {
	if r.poller == s {
		r.poller = nil
	}
}

// Next returns the goroutine that takes the role next and has to be roused, if nobody has the role.
// If there is none, care says that the caretaker has to be woken, which asked (EP5, EP6).
func (r *Role[W]) Next() (next *Seat[W], care bool) {
	if r.poller != nil || mutant.Enabled && mutant.On(mutant.TableNoNext) {
		return nil, false
	}
	if r.head != nil {
		return r.head, false
	}
	care, r.waiting = r.waiting, false
	return nil, care
}

// AskNext has Next tell once that nobody polls.
func (r *Role[W]) AskNext() { r.waiting = true }

// First is the goroutine that waits the longest, or nil.
func (r *Role[W]) First() *Seat[W] { return r.head }

// Join puts a goroutine on the list: it is about to sleep on its bell.
func (r *Role[W]) Join(s *Seat[W]) {
	if invariants.Enabled {
		invariants.Check(!s.listed && r.poller != nil && r.poller != s, "EP5", "a goroutine sleeps while nobody polls")
	}
	s.listed, s.prev, s.next = true, r.tail, nil
	if r.tail != nil {
		r.tail.next = s
	} else {
		r.head = s
	}
	r.tail = s
}

// Leave takes a goroutine off the list that woke up.
func (r *Role[W]) Leave(s *Seat[W]) {
	if !s.listed {
		return
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		r.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	} else {
		r.tail = s.prev
	}
	s.listed, s.prev, s.next = false, nil, nil
}

// Rouse takes a goroutine off the list for which something is here, and says how it is woken.
func (r *Role[W]) Rouse(s *Seat[W]) Call {
	switch {
	case s.listed:
		r.Leave(s)
		r.roused = true
		return CallBell
	case s == r.poller && r.asleep:
		return CallParker
	}
	return CallNone
}

// HasRoused reports whether goroutines were roused since Yield.
func (r *Role[W]) HasRoused() bool { return r.roused }

// Yield notes that the poller lets others run. With away, a goroutine that is about to wait takes
// the role meanwhile.
func (r *Role[W]) Yield(away bool) { r.away, r.roused = away, false }

// Resume notes that the poller, or the goroutine that was it, goes on after Yield.
func (r *Role[W]) Resume() { r.away = false }

// Doze notes that the poller is about to sleep in the parker.
func (r *Role[W]) Doze() {
	r.asleep = true
	r.dozing++
}

// Wake notes that a goroutine has left the parker. With retract, it was the last one there: what
// was announced to ringers is taken back; until then the next look must not take out the bell that
// wakes the others. Without mine, another goroutine took the role meanwhile.
func (r *Role[W]) Wake(s *Seat[W]) (mine, retract bool) {
	r.dozing--
	mine = r.poller == s
	if mine {
		r.asleep = false
	}
	return mine, r.MayRetract()
}

// MayRetract reports whether no goroutine is in the parker.
func (r *Role[W]) MayRetract() bool { return r.dozing == 0 }
