package smc

import (
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// Carry takes over what old, the ring of the view that ended, still has when everything below the
// index delivered was delivered there: claims that were published beyond it, committed, aborted, or
// are still open. They keep their order and their numbers (S6), and whatever was published there is
// unpublished here. This ring is new, and of the same size or larger. Nothing may be claimed,
// published or released in old afterwards. Loop, with the application's lock.
//
// There is room for all of them (S7). The claims that are not released in the old ring are at most
// a window (S1), and the claims that move are among them. Their bytes do not overlap in the old
// ring (S2), so that, each rounded up, they fill at most a ring. The new ring takes them one behind
// the other from position 0, without holes: as long as they end within the ring, no claim has to
// skip to its start. So S1 and S2 hold in the new ring, and the argument for the next move is the
// same.
func (s *Sender) Carry(old *Sender, delivered order.Index) {
	s.begin(old.firstBeyond(delivered))
	for n := s.first; n < old.claimed; n++ {
		s.adopt(old, n)
	}
	s.native = s.claimed
	if invariants.Enabled {
		invariants.Check(s.claimed-s.first <= s.window && s.end <= s.ring, "S7", "%d claims of %d bytes move to a ring of %d and %d", s.claimed-s.first, s.end, s.window, s.ring)
		invariants.Check(s.claimed == max(old.claimed, s.first), "S6", "claims are numbered from %d on, and were from %d", s.claimed, old.claimed)
	}
}

// firstBeyond is the first claim that was not done when everything below an index was delivered.
func (s *Sender) firstBeyond(delivered order.Index) uint64 {
	n := s.released
	for n < s.published && !s.slots[n&(s.window-1)].awaits(delivered) {
		n++
	}
	return n
}

// begin has the numbers of this ring's claims start behind the claims that are done.
func (s *Sender) begin(first uint64) {
	if invariants.Enabled {
		invariants.Check(s.claimed == 0 && s.stamped == 0, "S6", "a ring with %d claims takes over the claims of another", s.claimed)
	}
	s.first, s.claimed, s.seenFreed = first, first, first
	s.published, s.released = first, first
	s.freed.Store(first)
}

// adopt lays one claim of old at the end of this ring.
func (s *Sender) adopt(old *Sender, n uint64) {
	from, to := &old.slots[n&(old.window-1)], &s.slots[n&(s.window-1)]
	phase := from.move(n)
	if mutant.Enabled && phase == moved && mutant.On(mutant.ForgetOpen) {
		phase = aborted
	}
	length := from.length
	if phase == aborted { // it needs no room
		length = 0
	}
	offset, end := s.place(int(length))
	to.offset, to.length, to.end = uint32(offset), length, end
	to.large, to.held = from.large, from.large && !(mutant.Enabled && mutant.On(mutant.NotHeld))
	s.claimed, s.end = n+1, end
	switch phase {
	case committed:
		copy(s.bytes[offset:offset+uint64(length)], old.bytes[from.offset:])
		to.state.Store((n+1)<<2 | committed)
	case aborted:
		to.state.Store((n+1)<<2 | aborted)
	case moved:
		s.foreign++
	}
}

// move marks a claim that is open as moved, unless the application finishes it at this very moment
// (S5). It returns what the claim is now.
func (sl *slot) move(n uint64) (phase uint64) {
	for {
		state := sl.state.Load()
		if finished(state, n) {
			return state & phases
		}
		if mutant.Enabled {
			mutant.Pause()
		}
		if sl.state.CompareAndSwap(state, (n+1)<<2|moved) {
			return moved
		}
	}
}

// CommitMoved commits a claim that this ring took over while it was open: its bytes are copied from
// where they were filled. It fails with ErrMoved if this ring was taken over itself. Application.
func (s *Sender) CommitMoved(c Claim) error { return s.closeMoved(c, committed) }

// AbortMoved aborts a claim that this ring took over while it was open. Application.
func (s *Sender) AbortMoved(c Claim) error { return s.closeMoved(c, aborted) }

// closeMoved needs no compare-and-swap: the application's lock is held, and no other goroutine
// finishes such a claim or moves it.
func (s *Sender) closeMoved(c Claim, phase uint64) error {
	if c.number == 0 || c.number > s.native {
		return s.close(c.number, phase)
	}
	n := c.number - 1
	to := &s.slots[n&(s.window-1)]
	if state := to.state.Load(); n < s.first || n >= s.native || state>>2 >= c.number { // S5
		return refused(c.number, state)
	}
	if phase == committed {
		copy(s.bytes[to.offset:to.offset+to.length], c.Bytes)
	}
	s.foreign--
	to.state.Store(c.number<<2 | phase)
	return nil
}

// Foreign is the number of open claims in this ring that were made in an older one: the application
// may be writing to that one's memory. Application.
func (s *Sender) Foreign() int { return s.foreign }

// DetachedRing is memory for a ring of this size that no row has, to keep what cannot be sent now.
func (s *Sender) DetachedRing() (descriptors, bytes []byte) {
	return words(int(s.window) * DescriptorBytes), words(int(s.ring))
}

// Published is the index under which the claim of a number was published, or false if it is not
// published yet. NoIndex stands for an aborted claim. It must be asked before the claim's room was
// released and used again. Loop.
func (s *Sender) Published(number uint64) (order.Index, bool) {
	if number > s.published {
		return 0, false
	}
	return s.slots[(number-1)&(s.window-1)].index, true
}
