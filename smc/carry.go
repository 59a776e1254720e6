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
// There is space for all of them (S7). The claims that are not released in the old ring are at most
// a window (S1), and the claims that move are among them. Their records do not overlap in the old
// area (S2), so they fill at most an area. The new ring takes them one after the other from
// position 0, without pads: as long as they end within the area, no claim has to skip to its start.
// So S1 and S2 hold in the new ring, and the argument for the next move is the same.
func (s *Sender) Carry(old *Sender, delivered order.Index) {
	first, _ := old.below(delivered)
	off := old.freedBytes.Load()
	if first > old.released {
		off = old.marks[(first-1)&(old.window-1)].end
	}
	s.begin(first)
	off %= old.size
	for n := first; n < old.claimed; n++ {
		off = old.skipPad(off)
		h := load(old.area, off)
		s.adopt(old, n, h, off+HeaderBytes)
		off += h.size()
	}
	s.native, s.inPlace = s.claimed, s.claimed
	if invariants.Enabled {
		invariants.Check(s.claimed-s.first <= s.window && s.end <= s.size, "S7", "%d claims of %d bytes move to a ring of %d and %d", s.claimed-s.first, s.end, s.window, s.size)
		invariants.Check(s.claimed == max(old.claimed, s.first), "S6", "claims are numbered from %d on, and were from %d", s.claimed, old.claimed)
	}
}

// begin has the numbers of this ring's claims start behind the claims that are done.
func (s *Sender) begin(first uint64) {
	if invariants.Enabled {
		invariants.Check(s.claimed == 0 && s.publications == 0, "S6", "a ring with %d claims takes over the claims of another", s.claimed)
	}
	s.first, s.claimed, s.told, s.released, s.seenFreed, s.seenPublished = first, first, first, first, first, first
	s.ready.Store(first<<readyBits | shut)
	s.published.Store(first)
	s.freed.Store(first)
}

// adopt lays one claim of old, with its header and the place of its data, at the end of this ring.
func (s *Sender) adopt(old *Sender, n uint64, h header, at uint64) {
	phase := old.move(n, h)
	if mutant.Enabled && phase == moved && mutant.On(mutant.ForgetOpen) {
		phase = aborted
	}
	length, kind := h.length(), h.kind()
	if phase == aborted { // its record stays, and is as short as can be
		length, kind = s.time, Void
	}
	to, _ := s.lay(length, kind)
	if mutant.Enabled && mutant.On(mutant.GapCarried) {
		store(s.area, to-HeaderBytes, h)
	}
	sl := &s.slots[n&(s.window-1)]
	sl.off, sl.length = to-HeaderBytes, length-s.time
	sl.held = kind == Large && !(mutant.Enabled && mutant.On(mutant.NotHeld))
	if phase == moved {
		s.foreign++
		return
	}
	copy(s.area[to:to+length], old.area[at:])
	sl.state.Store((n+1)<<2 | phase)
}

// move marks a claim that is open as moved, unless the application finishes it at this very moment
// (S5). It returns what the claim is now.
func (s *Sender) move(n uint64, h header) (phase uint64) {
	switch {
	case h.kind() == Void:
		return aborted
	case n < max(s.published.Load(), s.ready.Load()>>readyBits):
		return committed
	}
	sl := &s.slots[n&(s.window-1)]
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
		at := to.off + HeaderBytes
		copy(s.area[at:at+to.length], c.Bytes)
	}
	s.foreign--
	to.state.Store(c.number<<2 | phase)
	return nil
}

// Foreign is the number of open claims in this ring that were made in an older one: the application
// may be writing to that one's memory. Application.
func (s *Sender) Foreign() int { return s.foreign }
