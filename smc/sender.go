package smc

import (
	"encoding/binary"
	"sort"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// mark is how far a claim and those before it go.
type mark struct {
	end   uint64 // position after the record
	bytes uint64 // of all messages up to it
}

// slot is what the sender alone knows of a claim that was made in place, or was sent while one was
// not published. state is (claim+1)<<2 | phase of the last claim that was finished in it: an open
// claim is one whose number it does not show yet.
type slot struct {
	state  atomic.Uint64
	off    uint64 // of the record
	length uint64 // of the data
	held   bool   // its body is still in transfer to members of this view. W: Carry, then loop
}

const (
	committed = 1
	aborted   = 2
	moved     = 3 // open still, in another ring
	phases    = 3
)

// finished reports whether a state is the end of a claim.
func finished(state, claim uint64) bool { return state>>2 == claim+1 }

// checkpoint is the end of a publication.
type checkpoint struct {
	claims uint64
	index  order.Index
}

// Sender is the owner's side of a ring. Fields are grouped by the goroutine that writes them.
type Sender struct {
	window, size uint64 // claims, a power of two; bytes of the area
	most         uint64 // bytes of a message
	area         []byte
	slots        []slot
	time         uint64 // bytes that each message has behind its data
	share        uint64 // a power of two
	_            [64]byte

	// Application, one goroutine at a time: it is inside, or has shut the ring (S9).
	claimed       uint64
	told          uint64 // claims that ready says
	end, off      uint64 // position after the last claim, and its offset
	bytes         uint64 // of all claims
	marks         []mark
	wrap          uint64 // where the published part of the lap before ends
	inPlace       uint64 // the last claim that was made in place, as a number
	seenPublished uint64 // the last look at published
	seenFreed     uint64 // the last look at freed and freedBytes
	seenBytes     uint64
	reserved      uint64 // claims that are not to be made
	reservedBytes uint64
	first         uint64      // claims below are done: Carry
	native        uint64      // claims from this one on were made in this ring: Carry. Set before the first claim.
	foreign       int         // open claims that were made in another ring
	starved       atomic.Bool // R: loop. The last claim that looked at freed found no space, and much is in flight
	_             [64]byte

	// W: application. R: loop. Claims that are finished, with all before them, which only grow; and
	// the bits inside and shut.
	ready atomic.Uint64
	left  func() // see Shut. W: who shuts the ring
	_     [64]byte

	// Loop.
	offPublished uint64      // offset of the position that was published
	last         mark        // of the last claim that was published
	index        order.Index // after the last record that was published
	released     uint64
	checkpoints  []checkpoint
	publications uint64
	oldest       uint64            // publication that is not released
	clock        func() order.Time // nil: messages carry no time
	_            [64]byte

	published  atomic.Uint64 // W: loop. R: application. Only grows.
	freed      atomic.Uint64 // W: loop. R: application. Claims whose space may be used again. Only grows.
	freedBytes atomic.Uint64 // W: loop. R: application. Position up to which the area may be used again. Only grows.
}

// NewSender lays a ring for a window of claims, a power of two, on an area of the own row.
func NewSender(window int, area []byte) *Sender {
	s := &Sender{
		window: uint64(window), size: uint64(len(area)), area: area, share: max(uint64(window)/4, leastShare),
		slots: make([]slot, window), marks: make([]mark, window), checkpoints: make([]checkpoint, window),
		most: uint64(MaxMessage(len(area) - window*HeaderBytes)),
	}
	s.ready.Store(shut)
	return s
}

// leastShare is worth the switch to the loop and back.
const leastShare = 256

// EndsShare reports whether a claim is the last one of a share of the window: a quarter, unless the
// window is small. A goroutine that fills the window lets the loop publish each share, so that the
// members deliver one while it fills the next. Any goroutine.
func (s *Sender) EndsShare(number uint64) bool { return number&(s.share-1) == 0 }

// NewShelf returns a ring on plain memory for what another ring has, which cannot be sent now.
func NewShelf(of *Sender) *Sender {
	s := NewSender(int(of.window), words(int(of.size)))
	s.time, s.most = of.time, of.most
	return s
}

// TimeBytes is what the time of a message takes after its bytes, in a ring that is Timed.
const TimeBytes = 8

// Timed has the loop write a clock's reading after each message when it is published. One reading
// serves all that are published at once.
func (s *Sender) Timed(clock func() order.Time) {
	s.clock, s.time = clock, TimeBytes
	s.most -= TimeBytes
}

// ready has two bits below the number.
const (
	inside    = 1 // a goroutine is on the application's side
	shut      = 2 // no other one may enter
	readyBits = 2
)

// enter takes the application's side for the time of a claim, unless another goroutine has it or
// the ring is shut. Any goroutine.
func (s *Sender) enter() bool {
	w := s.ready.Load()
	return w&(inside|shut) == 0 && s.ready.CompareAndSwap(w, w|inside)
}

// leave ends that, and has the loop see what was sent meanwhile.
func (s *Sender) leave(sent uint64) {
	if s.ready.Add(sent<<readyBits-inside)&shut != 0 {
		s.left()
	}
}

// Shut takes the application's side, for one caller at a time, until Open. It reports whether a
// goroutine is inside: then the caller waits until that one has called left. A new ring is shut.
func (s *Sender) Shut(left func()) (wait bool) {
	s.left = left
	return s.ready.Or(shut)&inside != 0 && !(mutant.Enabled && mutant.On(mutant.ShutEarly))
}

// Open lets TrySend, TrySendBatch and TryClaim in.
func (s *Sender) Open() { s.ready.And(^uint64(shut)) }

// TrySend is Send of a small message. It takes the application's side itself, or reports that it
// cannot, or that the message is too large. Any goroutine.
func (s *Sender) TrySend(data []byte) (claim uint64, ok bool) {
	if uint64(len(data)) > s.most || !s.enter() {
		return 0, false
	}
	if mutant.Enabled {
		mutant.Pause()
	}
	at, ok := s.lay(uint64(len(data))+s.time, Small) // as put does, without a call of it
	sent := uint64(0)
	if ok {
		copy(s.area[at:at+uint64(len(data))], data)
		claim, sent = s.claimed, s.tell()
	}
	s.leave(sent)
	return claim, ok
}

// TrySendBatch is TrySend for the first messages of a batch, up to the end of a share at most. It
// returns how many, and the claim of the last one.
func (s *Sender) TrySendBatch(batch [][]byte) (n int, claim uint64) {
	if !s.enter() {
		return 0, 0
	}
	sent := uint64(0)
	for n < len(batch) && uint64(len(batch[n])) <= s.most && (n == 0 || !s.EndsShare(claim)) {
		c, ready := s.put(batch[n], Small)
		if c == 0 {
			break
		}
		claim, sent, n = c, sent+ready, n+1
	}
	s.leave(sent)
	return n, claim
}

// TryClaim is Claim that takes the application's side itself, as TrySend does. Any goroutine.
func (s *Sender) TryClaim(n int) (c Claim, ok bool) {
	if uint64(n) > s.most || !s.enter() {
		return Claim{}, false
	}
	c, ok = s.Claim(n)
	s.leave(0)
	return c, ok
}

// Send takes a message, as committed, and returns its number as a claim, or reports that there is
// no space now. Data has at most MaxMessage bytes. Application.
func (s *Sender) Send(data []byte, kind Kind) (claim uint64, ok bool) {
	claim, sent := s.put(data, kind)
	s.ready.Add(sent << readyBits)
	return claim, claim > 0
}

// put writes a message, and returns its claim, or 0 without space, and by how much ready grows.
func (s *Sender) put(data []byte, kind Kind) (claim, sent uint64) {
	at, ok := s.lay(uint64(len(data))+s.time, kind)
	if !ok {
		return 0, 0
	}
	copy(s.area[at:at+uint64(len(data))], data)
	return s.claimed, s.tell()
}

// tell returns by how much ready grows with the last claim, whose record is whole.
func (s *Sender) tell() (sent uint64) {
	if s.inPlace > s.seenPublished && s.follows() {
		return 0
	}
	sent, s.told = s.claimed-s.told, s.claimed
	return sent
}

// follows reports whether the last claim comes after one that was made in place and is not
// published: then the loop has to look at each.
func (s *Sender) follows() bool {
	s.seenPublished = s.published.Load()
	if s.inPlace <= s.seenPublished || mutant.Enabled && mutant.On(mutant.OpenOvertaken) {
		return false
	}
	s.slots[(s.claimed-1)&(s.window-1)].state.Store(s.claimed<<2 | committed)
	return true
}

// Claim takes space for a message of n bytes, or reports that there is none now. n is at most
// MaxMessage. Application.
func (s *Sender) Claim(n int) (Claim, bool) {
	at, ok := s.lay(uint64(n)+s.time, Small)
	if !ok {
		return Claim{}, false
	}
	sl := &s.slots[(s.claimed-1)&(s.window-1)]
	sl.off, sl.length, sl.held = at-HeaderBytes, uint64(n), false
	s.inPlace = s.claimed
	return Claim{s.claimed, s.area[at : at+uint64(n) : at+uint64(n)]}, true
}

// lay writes the header of the next claim's record, and returns where its data begins.
func (s *Sender) lay(n uint64, kind Kind) (at uint64, ok bool) {
	off, end := s.place(n)
	if !s.fits(end) && !s.fitsNow(end) {
		return 0, false
	}
	if off < s.off {
		s.wrap = s.off
		if s.off < s.size {
			store(s.area, s.off, headerOf(int(s.size-s.off-HeaderBytes), pad))
			s.wrap += HeaderBytes
		}
	}
	store(s.area, off, headerOf(int(n), kind))
	s.claimed++
	s.end, s.off = end, off+sizeOf(n)
	s.bytes += n - s.time
	s.marks[(s.claimed-1)&(s.window-1)] = mark{end, s.bytes}
	if invariants.Enabled {
		invariants.Check(s.claimed-s.freed.Load() <= s.window, "S1", "claimed %d, freed %d, window %d", s.claimed, s.freed.Load(), s.window)
		invariants.Check(s.end-s.freedBytes.Load() <= s.size, "S2", "end %d, freed %d, area %d", s.end, s.freedBytes.Load(), s.size)
	}
	return off + HeaderBytes, true
}

// place is where the record of the next claim of n bytes would lie in the area, and the position
// after it. If it does not fit in one piece, it goes to the start.
func (s *Sender) place(n uint64) (off, end uint64) {
	size := sizeOf(n)
	if s.off+size > s.size {
		return 0, s.end + s.size - s.off + size
	}
	return s.off, s.end + size
}

// fits reports whether one more claim that ends at a position has space besides what is reserved.
func (s *Sender) fits(end uint64) bool {
	return s.claimed+s.reserved-s.seenFreed < s.window && end+s.reservedBytes-s.seenBytes <= s.size
}

// fitsNow is fits after a look at the loop's counters, which is needed only when the values that
// were loaded last do not suffice.
func (s *Sender) fitsNow(end uint64) bool {
	s.seenBytes, s.seenFreed = s.freedBytes.Load(), s.freed.Load()
	fits := s.fits(end)
	s.starved.Store(!fits && s.Many(s.claimed-s.seenFreed))
	return fits
}

// Many reports whether so many claims are at least a 32nd of the window. If fewer fill the ring,
// messages are large: nulls cost nothing next to them, and senders that alternate keep the bytes in
// flight in the processor's cache. Any goroutine.
func (s *Sender) Many(claims uint64) bool { return 32*claims >= s.window }

// Starved reports whether the last claim was refused for lack of space, with many in flight: the
// application is likely to claim as soon as there is some. Loop.
func (s *Sender) Starved() bool { return s.starved.Load() }

// Arrived says that every member of this ring's view has the body of a large message that was
// carried over. Loop.
func (s *Sender) Arrived(number uint64) {
	if sl := &s.slots[(number-1)&(s.window-1)]; finished(sl.state.Load(), number-1) {
		sl.held = false
	}
}

// Released reports whether a claim's space is free: every member delivered the message, if it was
// one. Any goroutine.
func (s *Sender) Released(number uint64) bool { return number <= s.freed.Load() }

// Batch is what one Publish published.
type Batch struct {
	Next            order.Index     // the index after it
	Position        uint64          // the end of its records
	Messages, Voids uint64          // the claims that were committed and aborted
	Bytes           uint64          // of the messages
	Ranges          [2]fabric.Range // what to push before the words position and sent may cover it
}

// Publish gives finished claims the indexes from first on, or later ones, up to limit claims. It
// reports whether there were any. Loop.
func (s *Sender) Publish(first order.Index, limit int) (b Batch, any bool) {
	from := s.published.Load()
	to := s.finish(from, min(uint64(limit), s.window), &b)
	if to == from {
		return b, false
	}
	at, gap := s.skipPad(s.offPublished), first-s.index
	if gap > 0 {
		h := load(s.area, at).withGap(gap)
		first = s.index + h.gap()
		store(s.area, at, h)
	}
	if s.clock != nil {
		s.stampTimes(at, to-from)
	}
	s.index = first + order.Index(to-from)
	end := s.marks[(to-1)&(s.window-1)]
	b.Next, b.Position = s.index, end.end
	b.Messages, b.Bytes = to-from-b.Voids, end.bytes-s.last.bytes-b.Bytes
	s.cover(&b, end.end-s.last.end)
	s.last = end
	s.checkpoints[s.publications&(s.window-1)] = checkpoint{to, s.index}
	s.publications++
	s.published.Store(to)
	if invariants.Enabled {
		invariants.Check(s.released <= to && to <= s.released+s.window, "S1", "released %d, published %d", s.released, to)
	}
	return b, true
}

// finish returns the number of claims in the finished prefix, and turns aborted claims into voids.
func (s *Sender) finish(from, limit uint64, b *Batch) (to uint64) {
	most := from + limit
	for to = min(max(s.ready.Load()>>readyBits, from), most); to < most; to++ {
		sl := &s.slots[to&(s.window-1)]
		state := sl.state.Load()
		if !finished(state, to) || sl.held && state&phases == committed { // S8
			break
		}
		if state&phases == aborted && !(mutant.Enabled && mutant.On(mutant.VoidTaken)) {
			store(s.area, sl.off, headerOf(int(load(s.area, sl.off).length()), Void))
			b.Voids++
			b.Bytes += sl.length
		}
	}
	return to
}

// skipPad is the offset of the record at an offset, behind a pad.
func (s *Sender) skipPad(off uint64) uint64 {
	if off == s.size || load(s.area, off).kind() == pad {
		return 0
	}
	return off
}

// stampTimes writes one time behind each of the records from an offset on.
func (s *Sender) stampTimes(off, n uint64) {
	t := s.clock()
	for ; n > 0; n-- {
		off = s.skipPad(off)
		h := load(s.area, off)
		binary.LittleEndian.PutUint64(s.area[off+h.length():], uint64(t)) // the last bytes of the data
		off += h.size()
	}
}

// cover sets the ranges of so many bytes that are published.
func (s *Sender) cover(b *Batch, n uint64) {
	from, to := s.offPublished, s.offPublished+n
	if to <= s.size {
		b.Ranges[0] = fabric.Range{Off: int(from), N: int(n)}
	} else {
		to -= s.size
		b.Ranges = [2]fabric.Range{{Off: int(from), N: int(s.wrap - from)}, {Off: 0, N: int(to)}}
	}
	if mutant.Enabled && mutant.On(mutant.WrapLost) && b.Ranges[1].N > 0 {
		b.Ranges[0].N = 0
	}
	s.offPublished = to
}

// Release frees the space of all claims with an index below everywhere, which every member
// delivered, and reports whether that was any. Loop.
func (s *Sender) Release(everywhere order.Index) bool {
	if mutant.Enabled {
		everywhere = mutant.Released(everywhere)
	}
	before := s.released
	s.released, s.oldest = s.below(everywhere)
	if s.released == before {
		return false
	}
	s.freedBytes.Store(s.marks[(s.released-1)&(s.window-1)].end)
	s.freed.Store(s.released)
	return true
}

// below is how many claims have an index below one, which is not below the released ones, and the
// first publication with others.
func (s *Sender) below(i order.Index) (claims, publication uint64) {
	claims, publication = s.released, s.oldest
	for ; publication < s.publications; publication++ {
		c := s.checkpoints[publication&(s.window-1)]
		if c.index > i && !(mutant.Enabled && mutant.On(mutant.CheckpointEarly) && c.index-i == 1) {
			if beyond := uint64(c.index - i); c.claims > claims+beyond {
				claims = c.claims - beyond
			}
			break
		}
		claims = c.claims
	}
	return claims, publication
}

// Published is the index under which the claim of a number was published in this ring. It is false
// if the claim is not published yet, was published in a ring before, or is no more among the last
// claims, as many as the window has. Loop.
func (s *Sender) Published(number uint64) (order.Index, bool) {
	if published := s.published.Load(); number <= s.first || number > published || number+s.window <= published {
		return 0, false
	}
	first := s.publications - min(s.publications, s.window)
	k := first + uint64(sort.Search(int(s.publications-first), func(k int) bool {
		return s.checkpoints[(first+uint64(k))&(s.window-1)].claims >= number
	}))
	c := s.checkpoints[k&(s.window-1)]
	return c.index - 1 - order.Index(c.claims-number), true
}

// Active reports whether messages of this sender are in flight. Loop.
func (s *Sender) Active() bool { return s.released != s.published.Load() }

// HasSpace reports whether a claim of n bytes would succeed, and there is enough space to make
// waking a waiting sender worth it: a quarter of the window and the area, unless nothing is in
// flight that would free more. Loop, with the application's lock.
func (s *Sender) HasSpace(n int) bool {
	_, end := s.place(uint64(n) + s.time)
	freed := s.freedBytes.Load()
	free, room := s.window-(s.claimed-s.released), s.size-(s.end-freed)
	if free == 0 || end-freed > s.size {
		return false
	}
	return !s.Active() || free >= s.window/4 && room >= s.size/4
}

// Reserve keeps space for so many claims with so many bytes in all, wherever a record has to begin
// at the start of the area, until it is called again. Application.
func (s *Sender) Reserve(claims, bytes int) {
	s.reserved = uint64(claims)
	s.reservedBytes = 2 * (uint64(bytes) + s.reserved*(HeaderBytes+s.time+HeaderBytes-1))
}

// MaxMessage is the largest message that this ring takes, in bytes.
func (s *Sender) MaxMessage() int { return int(s.most) }

// InUse is the number of claims whose space is not free. Application.
func (s *Sender) InUse() int { return int(s.claimed - s.freed.Load()) }

// Unfinished is the number of claims that are neither committed nor aborted. Application.
func (s *Sender) Unfinished() (n int) {
	for c := max(s.freed.Load(), s.ready.Load()>>readyBits); c < s.claimed; c++ {
		if !finished(s.slots[c&(s.window-1)].state.Load(), c) {
			n++
		}
	}
	return n
}
