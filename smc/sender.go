package smc

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// DescriptorBytes is the size of a descriptor in a row.
const DescriptorBytes = 16

// align is the unit in which the byte ring is handed out, so that messages start on a word.
const align = 8

// MaxMessage is the largest message a ring takes. With half of the ring, there is room for it in
// one piece whatever the position.
func MaxMessage(ringBytes int) int { return ringBytes / 2 }

// descriptor is a message's place, as it lies in the row. place is offset | length<<32.
type descriptor struct {
	stamp, place uint64
}

// slot is what the sender alone knows of a claim. state is (claim+1)<<2 | phase of the last claim
// that was finished in it: an open claim is one whose number it does not show yet.
type slot struct {
	state  atomic.Uint64
	end    uint64      // position after its bytes
	index  order.Index // W: loop, when published; NoIndex of one that was aborted
	offset uint32
	length uint32
	large  bool // W: application, when claimed
	held   bool // its body is still on its way to members of this view. W: Carry, then loop
}

// largeBit marks the offset of a large message's descriptor, which is a multiple of align.
const largeBit = 1

const (
	committed = 1
	aborted   = 2
	moved     = 3 // open still, in another ring
	phases    = 3
)

// finished reports whether a state is the end of a claim.
func finished(state, claim uint64) bool { return state>>2 == claim+1 }

// awaits reports whether a claim that was published is a message that is not delivered when
// everything below an index is.
func (sl *slot) awaits(delivered order.Index) bool {
	return sl.state.Load()&phases == committed && sl.index >= delivered
}

// Sender is the owner's side of a ring. Fields are grouped by the goroutine that writes them.
type Sender struct {
	window, ring uint64 // powers of two
	share        uint64 // a power of two
	descriptors  []byte
	bytes        []byte
	slots        []slot
	_            [64]byte

	// Application, one goroutine at a time (the caller has a lock).
	claimed   uint64
	end       uint64 // position after the bytes of the last claim
	seenFreed uint64 // the last look at freed and freedBytes
	seenBytes uint64
	first     uint64      // claims below are done: Carry
	native    uint64      // claims from this one on were made in this ring: Carry. Set before the first claim.
	foreign   int         // open claims that were made in another ring
	starved   atomic.Bool // R: loop. The last claim that looked at freed found no space, and much is in flight
	_         [64]byte

	// Loop.
	published uint64
	stamped   uint64
	released  uint64
	ranges    []fabric.Range
	clock     func() order.Time // nil: messages carry no time
	time      order.Time        // of the messages that the last Publish published
	_         [64]byte

	freed      atomic.Uint64 // W: loop. R: application. Claims whose room may be used again. Only grows.
	freedBytes atomic.Uint64 // W: loop. R: application. Position up to which the byte ring may be used again. Only grows.
}

// NewSender lays a ring on two areas of the own row, or on a shelf, whose sizes are window ×
// DescriptorBytes and a power of two.
func NewSender(descriptors, bytes []byte) *Sender {
	window := len(descriptors) / DescriptorBytes
	return &Sender{
		window: uint64(window), ring: uint64(len(bytes)), share: max(uint64(window)/4, leastShare),
		descriptors: descriptors, bytes: bytes, slots: make([]slot, window),
	}
}

// leastShare is worth the switch to the loop and back.
const leastShare = 256

// EndsShare reports whether a claim is the last one of a share of the window: a quarter, unless the
// window is small. A goroutine that fills the window lets the loop publish each share, so that the
// members deliver one while it fills the next. Any goroutine.
func (s *Sender) EndsShare(c Claim) bool { return c.number&(s.share-1) == 0 }

// TimeBytes is what the time of a message takes behind its bytes, in a ring that is Timed. Claims
// have room for it.
const TimeBytes = 8

// Timed has the loop write a clock's reading into the last TimeBytes of each message when it is
// published. One reading serves all that are published at once.
func (s *Sender) Timed(clock func() order.Time) { s.clock = clock }

// Claim takes room for a message of n bytes, or reports that there is none now. n is at most
// MaxMessage. Application.
func (s *Sender) Claim(n int) (Claim, bool) {
	offset, end := s.place(n)
	if !s.fits(end) {
		return Claim{}, false
	}
	number := s.claimed
	sl := &s.slots[number&(s.window-1)]
	sl.end, sl.offset, sl.length, sl.large, sl.held = end, uint32(offset), uint32(n), false, false
	s.claimed, s.end = number+1, end
	if invariants.Enabled {
		invariants.Check(s.claimed-s.freed.Load() <= s.window, "S1", "claimed %d, freed %d, window %d", s.claimed, s.freed.Load(), s.window)
		invariants.Check(s.end-s.freedBytes.Load() <= s.ring, "S2", "end %d, freed %d, ring %d", s.end, s.freedBytes.Load(), s.ring)
	}
	return Claim{number + 1, s.bytes[offset : offset+uint64(n) : offset+uint64(n)]}, true
}

// ClaimLarge is Claim for the record of a large message, whose body every member has. Application.
func (s *Sender) ClaimLarge(n int) (Claim, bool) {
	c, ok := s.Claim(n)
	if ok {
		s.slots[(c.number-1)&(s.window-1)].large = true
	}
	return c, ok
}

// Arrived says that every member of this ring's view has the body of a large message that was
// carried over. Loop.
func (s *Sender) Arrived(number uint64) {
	if sl := &s.slots[(number-1)&(s.window-1)]; finished(sl.state.Load(), number-1) {
		sl.held = false
	}
}

// Released reports whether a claim's room is free: every member delivered the message, if it was
// one. Any goroutine.
func (s *Sender) Released(number uint64) bool { return number <= s.freed.Load() }

// place is where the next claim of n bytes would lie in the ring, and the position behind it.
func (s *Sender) place(n int) (offset, end uint64) {
	size := (uint64(n) + align - 1) &^ (align - 1)
	start := s.end
	if offset = start & (s.ring - 1); offset+size > s.ring { // one piece: skip to the start of the ring
		return 0, start + s.ring - offset + size
	}
	return offset, start + size
}

// fits reports whether one more claim that ends at a position has room. It loads the loop's
// counters only when the values loaded last do not suffice.
func (s *Sender) fits(end uint64) bool {
	if s.claimed-s.seenFreed < s.window && end-s.seenBytes <= s.ring {
		return true
	}
	s.seenFreed, s.seenBytes = s.freed.Load(), s.freedBytes.Load()
	fits := s.claimed-s.seenFreed < s.window && end-s.seenBytes <= s.ring
	s.starved.Store(!fits && s.claimed-s.seenFreed >= s.window/StarvedShare)
	return fits
}

// StarvedShare is the part of the window that must be in flight for a sender without space to count
// as starved: a 32nd. If less fills the ring, messages are large: nulls cost nothing next to them,
// and senders that alternate keep the bytes in flight in the processor's cache.
const StarvedShare = 32

// Starved reports whether the last claim was refused for lack of space: the application is likely
// to claim as soon as there is some. Loop.
func (s *Sender) Starved() bool { return s.starved.Load() }

// Publish stamps committed claims with indexes from first on, up to limit messages, and returns how
// many messages these were, and how many bytes. Ranges tells what to push before sent may cover
// them. Loop.
func (s *Sender) Publish(first order.Index, limit int) (count order.Index, bytes uint64) {
	s.ranges = s.ranges[:0]
	s.time = 0
	for count < order.Index(limit) {
		sl := &s.slots[s.published&(s.window-1)]
		state := sl.state.Load()
		if !finished(state, s.published) {
			break
		}
		if state&phases == committed {
			if sl.held { // S8
				break
			}
			sl.index = first + count
			s.stamp(sl)
			count++
			bytes += uint64(s.size(sl))
		} else {
			sl.index = NoIndex
		}
		s.published++
	}
	if invariants.Enabled {
		invariants.Check(s.released <= s.published, "S1", "released %d, published %d", s.released, s.published)
	}
	return count, bytes
}

// stamp writes the next descriptor: its place, then the stamp that makes it real.
func (s *Sender) stamp(sl *slot) {
	at := s.stamped & (s.window - 1) * DescriptorBytes
	d := descriptorAt(s.descriptors, at)
	if invariants.Enabled {
		invariants.Check(d.stamp <= uint64(sl.index), "S3", "descriptor %d has stamp %d, next index %d", s.stamped, d.stamp, sl.index)
	}
	if s.clock != nil {
		s.stampTime(sl)
	}
	place := uint64(sl.offset) | uint64(sl.length)<<32
	if sl.large {
		place |= largeBit
	}
	atomic.StoreUint64(&d.place, place)
	atomic.StoreUint64(&d.stamp, uint64(sl.index)+1)
	s.stamped++
	if size := int(sl.length+align-1) &^ (align - 1); size > 0 {
		if k := len(s.ranges) - 1; k >= 0 && s.ranges[k].Off+s.ranges[k].N == int(sl.offset) {
			s.ranges[k].N += size
		} else {
			s.ranges = append(s.ranges, fabric.Range{Off: int(sl.offset), N: size})
		}
	}
}

// size is a message's own.
func (s *Sender) size(sl *slot) uint32 {
	if s.clock != nil {
		return sl.length - TimeBytes
	}
	return sl.length
}

// stampTime writes the time behind a message.
func (s *Sender) stampTime(sl *slot) {
	if s.time == 0 {
		s.time = s.clock()
	}
	end := sl.offset + sl.length
	binary.LittleEndian.PutUint64(s.bytes[end-TimeBytes:end], uint64(s.time))
}

// ByteRanges are the parts of the byte ring that the last Publish covered: one, two at a wrap, more
// after aborts.
func (s *Sender) ByteRanges() []fabric.Range { return s.ranges }

// DescriptorRanges are the parts of the descriptor ring that the last count messages took: one, or
// two at a wrap.
func (s *Sender) DescriptorRanges(count order.Index) (a, b fabric.Range) {
	from, n := (s.stamped-uint64(count))&(s.window-1), uint64(count)
	k := min(n, s.window-from)
	return fabric.Range{Off: int(from * DescriptorBytes), N: int(k * DescriptorBytes)}, fabric.Range{Off: 0, N: int((n - k) * DescriptorBytes)}
}

// Release frees the room of all messages with an index below everywhere, which every member
// delivered, and reports whether that was any. Loop.
func (s *Sender) Release(everywhere order.Index) bool {
	if mutant.Enabled {
		everywhere = mutant.Released(everywhere)
	}
	before, bytes := s.released, uint64(0)
	for s.released < s.published {
		sl := &s.slots[s.released&(s.window-1)]
		if sl.awaits(everywhere) {
			break
		}
		bytes = sl.end
		s.released++
	}
	if s.released == before {
		return false
	}
	s.freedBytes.Store(bytes)
	s.freed.Store(s.released)
	return true
}

// Active reports whether messages of this sender are under way. Loop.
func (s *Sender) Active() bool { return s.released != s.published }

// Roomy reports whether a claim of n bytes would succeed, and there is enough room to make waking a
// waiting sender worth it: a quarter of both rings, unless nothing is on its way that would free
// more. Loop, with the application's lock.
func (s *Sender) Roomy(n int) bool {
	_, end := s.place(n)
	freed := s.freedBytes.Load()
	free, room := s.window-(s.claimed-s.released), s.ring-(s.end-freed)
	if free == 0 || end-freed > s.ring {
		return false
	}
	return s.released == s.published || free >= s.window/4 && room >= s.ring/4
}

// MaxMessage is the largest message that this ring takes, in bytes.
func (s *Sender) MaxMessage() int { return MaxMessage(int(s.ring)) }

// InUse is the number of claims whose room is not free. Application.
func (s *Sender) InUse() int { return int(s.claimed - s.freed.Load()) }

// Unfinished is the number of claims that are neither committed nor aborted. Application.
func (s *Sender) Unfinished() (n int) {
	for c := s.freed.Load(); c < s.claimed; c++ {
		if !finished(s.slots[c&(s.window-1)].state.Load(), c) {
			n++
		}
	}
	return n
}

func descriptorAt(ring []byte, off uint64) *descriptor {
	_ = ring[off+DescriptorBytes-1]
	return (*descriptor)(unsafe.Pointer(&ring[off]))
}

// words is heap memory that starts on a word.
func words(n int) []byte {
	w := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), n)
}
