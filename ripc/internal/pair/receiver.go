package pair

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Frame is what was taken from the ring. It is valid until it is freed, and belongs to the receiver
// again afterwards.
type Frame struct {
	Data    []byte // in the ring, or aside
	Tag     any    // what a user keeps with it, until it is freed
	ID      uint64
	Number  uint64 // among the frames of this receiver: tells a frame from a later one in the same memory
	Channel int
	end     uint64 // position behind it
	size    uint32 // in the ring
	Kind    Kind

	received bool   // the application has its bytes: it cannot be moved
	moved    bool   // its bytes are aside, or given back; its room in the ring is free
	copied   bool   // its bytes are aside since before the application got them; its room in the ring is free once it is the first
	free     bool   // given back
	aside    []byte // memory for its bytes, kept for the next frame that needs it
}

// Receiver is the receiving half of a pair. One goroutine at a time.
type Receiver struct {
	own, peer []byte // rows
	ring      []byte // of the peer's row
	direct    bool   // it is the peer's memory itself
	size      uint64
	window    uint32
	sent      uint64 // the last look at the peer's
	taken     uint64 // position behind the last frame that was taken
	ahead     bool   // the peer sends faster than frames are taken
	touched   uint64 // position up to which the lines of the ring were asked for
	freed     uint64 // position up to which all frames are freed
	published uint64 // freed, as the peer may know it
	number    uint64 // of the next frame
	frames    uint64 // that were taken
	channels  [Channels]incoming
	lines     uint32 // that changed since the last call of Lines, by number
	urgent    bool   // what changed is much, or waited for
	spans     spans
	spare     []*Frame
	memory    Memory // nil: as much as is wanted
	used      int    // bytes of frames, and of what is aside
	starved   bool   // there was none when it was wanted
}

// Memory bounds what a receiver allocates for what its peer sends. Its methods are called by the
// goroutine that uses the receiver.
type Memory interface {
	// Take reports whether the receiver may have so many bytes more.
	Take(bytes int) bool
	// Give takes bytes back.
	Give(bytes int)
	// Resume says that a receiver for which Take had no bytes can go on with a frame that was given
	// back to it.
	Resume()
}

// Allowance is how many bytes a receiver has without asking.
const Allowance = 16 << 10

// frameCost is what a frame takes beside its bytes, with its places in lists.
const frameCost = 256

// incoming is a channel as its receiver sees it. Counts are modulo 2^32.
type incoming struct {
	taken     uint32 // bytes
	freed     uint32 // bytes
	published uint32 // freed, as the peer may know it
	messages  uint32 // that were taken, in all uses of the channel
	told      uint64 // the count of received messages, as Publish told it
}

// NewReceiver lays the receiving half on two rows, the own one first. direct says that the peer's
// row is its memory itself.
func NewReceiver(own, peer []byte, direct bool) *Receiver {
	size := len(peer) - ControlBytes
	return &Receiver{own: own, peer: peer, direct: direct, ring: peer[ControlBytes:], size: uint64(size), window: window(size)}
}

// Bound has the receiver ask before it allocates more than the Allowance (RP17).
func (r *Receiver) Bound(m Memory) { r.memory = m }

// Charged is how many bytes it has beyond the Allowance: the bytes for which it asked.
func (r *Receiver) Charged() int {
	if r.memory == nil {
		return 0
	}
	return max(0, r.used-Allowance)
}

// Unbound has the receiver ask no more, and returns how many bytes it has for which it asked.
func (r *Receiver) Unbound() (bytes int) {
	bytes = r.Charged()
	r.memory = nil
	return bytes
}

// take reports whether so many bytes may be allocated. Without them, the peer has to wait.
func (r *Receiver) take(n int) bool {
	asked := max(0, r.used+n-Allowance) - max(0, r.used-Allowance)
	if r.memory != nil && asked > 0 && !r.memory.Take(asked) {
		r.starved = true
		return false
	}
	r.used += n
	return true
}

// give takes bytes back that are not used any more.
func (r *Receiver) give(n int) {
	given := max(0, r.used-Allowance) - max(0, r.used-n-Allowance)
	r.used -= n
	if r.memory != nil && given > 0 {
		r.memory.Give(given)
	}
}

// Pending reports whether the peer sent more than was taken.
func (r *Receiver) Pending() bool {
	if r.direct {
		return load(r.ring, int(r.taken&(r.size-1))) != 0
	}
	return load(r.peer, sentOff) != r.taken
}

// Next takes the next frame, or returns nil if there is none, or no memory for it. An error means
// that the peer breaks the protocol (RP5, RP6).
func (r *Receiver) Next() (*Frame, error) {
	if r.starved {
		r.starved = false
		r.relieve()
		r.publishMuch()
	}
	for {
		if !r.direct && r.taken == r.sent {
			if ok, err := r.look(); !ok {
				return nil, err
			}
		}
		if r.ahead && r.taken >= r.touched {
			r.touch()
		}
		at := r.taken & (r.size - 1)
		first := load(r.ring, int(at))
		if first == 0 && r.direct {
			return nil, nil
		}
		k, channel, n := unhead(first)
		if k == skip {
			if at == 0 || r.beyond(r.size-at) {
				return nil, r.violation(at, k, channel, n)
			}
			r.taken += r.size - at
			r.skipped()
			continue
		}
		need := frameBytes(n)
		if k == none || k >= kinds || channel >= Channels || n > MaxMessage(int(r.size)) || at+need > r.size || r.beyond(need) { // RP5
			return nil, r.violation(at, k, channel, n)
		}
		f := r.frame()
		if f == nil {
			return nil, nil
		}
		f.Kind, f.Channel, f.ID = k, channel, load(r.ring, int(at)+8)
		f.Data = r.ring[at+HeaderBytes : at+HeaderBytes+uint64(n) : at+HeaderBytes+uint64(n)]
		f.size = uint32(need)
		if k.Counted() {
			c := &r.channels[channel]
			if c.taken+f.size-c.freed > r.window { // RP3
				r.spare = append(r.spare, f)
				return nil, fmt.Errorf("%w: RP3: channel %d has %d bytes in a window of %d", fabric.ErrViolation, channel, c.taken-c.freed, r.window)
			}
			c.taken += f.size
			c.messages++
		}
		r.taken += need
		r.frames++
		f.end = r.taken
		r.spans.push(f)
		if r.taken-r.freed > r.size/2 {
			r.relieve()
			r.publishMuch() // a sender that drops what finds no room does not ask for it
		}
		return f, nil
	}
}

// Ahead says whether the peer seems to be much ahead: whether the last look took as many frames as
// it was to take.
func (r *Receiver) Ahead(is bool) { r.ahead = is && r.direct }

// touchAhead is how much of the ring is asked for at a time.
const touchAhead = 512

// touch loads a word of each of the next lines of the ring, so that they come from the other core
// together and not one after the other. Nothing is made of what it loads. Where the peer is not
// ahead, that would take lines away that it is about to fill.
func (r *Receiver) touch() {
	r.touched = r.taken + touchAhead
	for at := r.taken &^ 63; at < r.touched; at += fabric.LineBytes {
		load(r.ring, int(at&(r.size-1)))
	}
}

// look takes in the peer's word, and reports whether there is something to take.
func (r *Receiver) look() (bool, error) {
	sent := load(r.peer, sentOff)
	if sent == r.taken {
		return false, nil
	}
	if sent-r.freed > r.size || sent < r.taken || sent%align != 0 { // RP6
		return false, fmt.Errorf("%w: RP6: sent is %d, %d were taken and %d freed in a ring of %d", fabric.ErrViolation, sent, r.taken, r.freed, r.size)
	}
	r.sent = sent
	return true, nil
}

// beyond reports whether so many bytes more are more than the peer sent, or can have sent without
// writing over what is not freed.
func (r *Receiver) beyond(n uint64) bool {
	if r.direct {
		return r.taken+n-r.freed > r.size
	}
	return n > r.sent-r.taken
}

func (r *Receiver) violation(at uint64, k Kind, channel, n int) error {
	return fmt.Errorf("%w: RP5: %v of %d bytes for channel %d at %d, %d were taken and %d freed", fabric.ErrViolation, k, n, channel, at, r.taken, r.freed)
}

// frame is a Frame to be filled, or nil without memory for one.
func (r *Receiver) frame() *Frame {
	var f *Frame
	if last := len(r.spare) - 1; last >= 0 {
		f = r.spare[last]
		r.spare = r.spare[:last]
	} else if r.take(frameCost) {
		f = new(Frame)
	} else {
		return nil
	}
	f.Number = r.number
	f.received, f.moved, f.copied, f.free = false, false, false, false
	r.number++
	return f
}

// skipped frees the unused end of the ring, if nothing before it is in use.
func (r *Receiver) skipped() {
	if r.spans.len() == 0 {
		r.freed = r.taken
	}
}

// relieve moves frames aside that are at the end of a ring that is more than half in use (RP4). A
// frame that the application has stays where it is.
func (r *Receiver) relieve() {
	if mutant.Enabled && mutant.On(mutant.PairNoRelief) {
		return
	}
	for r.taken-r.freed > r.size/2 {
		f := r.spans.first()
		if f == nil || f.received {
			return
		}
		if !r.putAside(f, f.Data) {
			return
		}
		f.moved = true
		r.advance()
	}
}

// putAside copies bytes to memory of a frame, and reports false without memory for them.
func (r *Receiver) putAside(f *Frame, data []byte) bool {
	if more := len(data) - cap(f.aside); more > 0 {
		if !r.take(more) {
			return false
		}
		f.aside = make([]byte, len(data))
	}
	f.aside = append(f.aside[:0], data...)
	f.Data = f.aside
	return true
}

// Copy moves the bytes of a frame out of the ring before the application gets them: the peer can
// change them no more. Without memory for that the copy is not counted, and the ring keeps the
// space of the frame until the frame is freed, which bounds such copies by the ring.
func (r *Receiver) Copy(f *Frame) {
	if f.moved || f.copied {
		return
	}
	if !r.putAside(f, f.Data) {
		f.Data = slices.Clone(f.Data)
		return
	}
	f.copied = true
	r.advance()
	r.publishMuch()
}

// Guard refuses a range of the peer's row that a link is about to write, if it overlaps bytes that
// were sent and are not freed: this side may look at them (RP18). The rest of the ring is the
// peer's to write.
func (r *Receiver) Guard(w fabric.Range) error {
	sent := max(r.taken, load(r.peer, sentOff))
	used := sent - r.freed
	ahead := (uint64(w.Off-ControlBytes) - sent) & (r.size - 1)
	if used > r.size || ahead+uint64(w.N) > r.size-used {
		return fmt.Errorf("%w: RP18: %d bytes at %d of the ring, %d were sent and %d freed", fabric.ErrViolation, w.N, w.Off-ControlBytes, sent, r.freed)
	}
	return nil
}

// recycle keeps a frame for the next one, and its memory if the receiver has not much. A receiver
// that found no memory may take the next frame with it.
func (r *Receiver) recycle(f *Frame) {
	if n := cap(f.aside); n > 0 && uint64(r.used) > r.size+Allowance {
		f.aside = nil
		r.give(n)
	}
	r.spare = append(r.spare, f)
	if r.starved && r.memory != nil {
		r.memory.Resume()
	}
}

// Received counts a message as received: the application is about to get it, and the frame stays in
// place until it is freed.
func (r *Receiver) Received(f *Frame) {
	r.Hold(f)
	r.Count(f)
}

// Hold keeps a frame in place: the application will get it soon.
func (r *Receiver) Hold(f *Frame) {
	f.received = true
	if f.Kind.Counted() {
		r.changed(receivedOff + 8*f.Channel)
	}
}

// Unhold takes that back.
func (r *Receiver) Unhold(f *Frame) { f.received = false }

// Count counts a held message as received, before it is handed to the application (RP7). Any
// goroutine may call it.
func (r *Receiver) Count(f *Frame) {
	if f.Kind.Counted() {
		atomic.AddUint64(fabric.Word(r.own, receivedOff+8*f.Channel), 1)
	}
}

// Counted is how many messages of a channel were received, for the frame that closes it. The word
// goes with that frame: the count of the next use of the channel begins with it.
func (r *Receiver) Counted(channel int) uint64 {
	r.changed(receivedOff + 8*channel)
	return load(r.own, receivedOff+8*channel)
}

// Free gives a frame back. It reports false, and does nothing, if the frame was given back before.
func (r *Receiver) Free(f *Frame) bool {
	if !r.GiveBack(f) {
		return false
	}
	r.Settle()
	return true
}

// GiveBack is the part of Free that is done for each of several frames; Settle is to be called
// after the last one.
func (r *Receiver) GiveBack(f *Frame) bool {
	if f.free {
		return false
	}
	f.free = true
	if f.Kind.Counted() {
		c := &r.channels[f.Channel]
		c.freed += f.size
		if c.freed-c.published >= r.window/4 {
			r.publishWindow(f.Channel)
			r.urgent = true
		}
	}
	switch {
	case f.moved:
		r.recycle(f)
	case f == r.spans.first():
		r.freed = f.end
		r.spans.pop()
		r.recycle(f)
	default:
		f.moved = true // it does not hold up the ring any more
	}
	return true
}

// Settle moves freed behind what was given back, and publishes it if it is much or waited for.
func (r *Receiver) Settle() {
	r.advance()
	r.relieve() // the frames that are now the first may hold up the ring
	if mutant.Enabled && mutant.On(mutant.PairEarlyFree) {
		r.freed = r.taken
	}
	if Hungry(r.peer) {
		r.Publish()
	} else {
		r.publishMuch()
	}
}

// publishMuch publishes what was freed if it is an eighth of the ring.
func (r *Receiver) publishMuch() {
	if r.freed-r.published >= r.size/8 {
		r.urgent = r.publishFreed() || r.urgent
	}
}

// advance moves freed behind the frames that do not hold it up any more.
func (r *Receiver) advance() {
	for f := r.spans.first(); f != nil; f = r.spans.first() {
		if !f.moved && !f.copied {
			return
		}
		r.freed = f.end
		r.spans.pop()
		if f.moved = true; f.free {
			r.recycle(f)
		}
	}
	r.freed = r.taken
}

// Publish makes all that was received and freed known to the peer, and reports whether there was
// any.
func (r *Receiver) Publish() (news bool) {
	news = r.publishFreed()
	for k := range r.channels {
		c := &r.channels[k]
		if c.published != c.freed {
			r.publishWindow(k)
			news = true
		}
		if n := load(r.own, receivedOff+8*k); !r.direct && n != c.told {
			c.told = n
			r.changed(receivedOff + 8*k)
			news = true
		}
	}
	r.urgent = r.urgent || news
	return news
}

// Answer publishes all that was received and freed if a sender of the peer waits for buffer space,
// and reports whether the peer has to be told: also of what was published before, as Next does when
// it moves frames aside. It is called in each round, behind the last Next (RP16).
func (r *Receiver) Answer() (tell bool) {
	if !Hungry(r.peer) {
		return false
	}
	news := r.Publish()
	if mutant.Enabled && mutant.On(mutant.PairUntold) {
		return news
	}
	return r.urgent
}

// Urgent reports whether, since the last call, so much was published that the peer should see it
// soon, or anything for which it waits.
func (r *Receiver) Urgent() bool {
	urgent := r.urgent
	r.urgent = false
	return urgent
}

func (r *Receiver) publishFreed() bool {
	if r.published == r.freed {
		return false
	}
	if invariants.Enabled {
		invariants.Check(r.freed <= r.taken && r.published <= r.freed, "RP2", "published %d, freed %d, taken %d", r.published, r.freed, r.taken)
	}
	r.published = r.freed
	store(r.own, freedOff, r.freed)
	r.changed(freedOff)
	return true
}

// publishWindow stores how much of a channel's window is given back.
func (r *Receiver) publishWindow(channel int) {
	c := &r.channels[channel]
	c.published = c.freed
	store(r.own, windowOff+8*channel, uint64(c.freed))
	r.changed(windowOff + 8*channel)
}

// changed notes that a word of the own row has to be pushed.
func (r *Receiver) changed(off int) { r.lines |= 1 << (off / fabric.LineBytes) }

// Lines returns, as a set of numbers, the lines that changed since the last call: to be pushed.
func (r *Receiver) Lines() (set uint32) {
	set, r.lines = r.lines, 0
	return set
}

// SetCore tells the peer on which core this process runs, plus one.
func (r *Receiver) SetCore(core uint64) {
	store(r.own, coreOff, core)
	r.changed(coreOff)
}

// Total is how many frames were taken, and how many bytes of the ring they took.
func (r *Receiver) Total() (frames, bytes uint64) { return r.frames, r.taken }

// Held is the number of frames whose room in the ring is not free.
func (r *Receiver) Held() int { return r.spans.len() }

// spans are the frames that hold up the ring, in its order.
type spans struct {
	frames []*Frame // a ring with a power of two
	head   int      // of the first
	count  int
}

func (s *spans) len() int { return s.count }

// first is the frame that holds up the ring, or nil.
func (s *spans) first() *Frame {
	if s.count == 0 {
		return nil
	}
	return s.frames[s.head&(len(s.frames)-1)]
}

func (s *spans) push(f *Frame) {
	if s.count == len(s.frames) {
		grown := make([]*Frame, max(16, 2*len(s.frames)))
		for i := range s.count {
			grown[i] = s.frames[(s.head+i)&(len(s.frames)-1)]
		}
		s.frames, s.head = grown, 0
	}
	s.frames[(s.head+s.count)&(len(s.frames)-1)] = f
	s.count++
}

func (s *spans) pop() {
	s.frames[s.head] = nil
	s.head = (s.head + 1) & (len(s.frames) - 1)
	s.count--
}
