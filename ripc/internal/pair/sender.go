package pair

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// Status is what became of a frame that was offered.
type Status uint8

// Statuses.
const (
	Accepted   Status = iota // it is in the ring, and sent covers it
	NoRoom                   // the ring has no room now
	NoWindow                 // the channel's window is used up
	WrongWords               // the peer's words are impossible; Err says how
	Shut                     // the channel is closed, or was left
)

// Sender is the sending half of a pair. One goroutine at a time.
type Sender struct {
	own, peer []byte // rows
	ring      []byte // of the own row
	direct    bool   // the peer reads the own row itself
	size      uint64
	window    uint32
	sent      uint64 // position behind the last frame
	freed     uint64 // the last look at the peer's
	claimed   uint64 // position up to which the lines of the ring were claimed
	pushed    uint64 // position up to which Ranges told what to push
	frames    uint64 // sent
	channels  [Channels]outgoing
	hungry    bool // a sender waits for buffer space, and the peer knows
	err       error
}

// outgoing is a channel as its sender sees it. Counts are modulo 2^32, as the peer's are.
type outgoing struct {
	bytes    uint32   // sent
	freed    uint32   // the last look at the peer's
	messages uint32   // sent
	received uint32   // the last look at the peer's; final if the channel is shut
	shut     bool     // the peer closed the channel
	over     bool     // shut, or this side left it: nothing more is sent
	givenUp  []uint32 // of requests: what messages was behind each; a request that was received may still be listed
}

// NewSender lays the sending half on two rows, the own one first. The own row must be zero. direct
// says that the peer reads it itself: then a frame is published by its first word, and sent is not
// used.
func NewSender(own, peer []byte, direct bool) *Sender {
	size := len(own) - ControlBytes
	return &Sender{own: own, peer: peer, direct: direct, ring: own[ControlBytes:], size: uint64(size), window: window(size)}
}

// MaxMessage is the largest message that this pair takes in this direction.
func (s *Sender) MaxMessage() int { return MaxMessage(int(s.size)) }

// Put writes a frame and publishes it, if there is room. The parts are at most MaxMessage together.
func (s *Sender) Put(k Kind, channel int, id uint64, parts [][]byte) Status {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	need := frameBytes(n)
	c := &s.channels[channel]
	counted := k.Counted()
	if k.needsChannel() && c.over {
		return Shut
	}
	if counted && c.bytes+uint32(need)-c.freed > s.window && !s.windowFits(channel, uint32(need)) {
		return s.refusal(NoWindow)
	}
	end := s.sent & (s.size - 1)
	at, gap := s.start(need)
	if s.sent+gap+need+align-s.freed > s.size && !s.ringFits(gap+need) {
		return s.refusal(NoRoom)
	}
	binary.NativeEndian.PutUint64(s.ring[at+8:], id)
	to := s.ring[at+HeaderBytes:]
	for _, p := range parts {
		to = to[copy(to, p):]
	}
	if counted {
		c.bytes += uint32(need)
		c.messages++
	}
	s.sent += gap + need
	s.frames++
	if invariants.Enabled {
		invariants.Check(s.sent-s.freed <= s.size, "RP2", "sent %d, freed %d, ring %d", s.sent, s.freed, s.size)
	}
	s.publish(at, head(k, channel, n), end, gap)
	if s.direct && s.sent+need > s.claimed {
		s.claim()
	}
	return Accepted
}

// claimAhead is how much of the ring is claimed at a time.
const claimAhead = 1 << 10

// claim stores a zero in each of the next lines of the ring that the peer has freed. The peer read
// them a round ago, so the first store to each has to take the line from the other core, and the
// atomic store that publishes a frame waits for all stores before it. Several lines that are taken
// together cost little more than one.
func (s *Sender) claim() {
	from := max(s.claimed, s.sent+align) // the word behind the last frame is zero, and the peer looks at it
	to := min(s.sent+claimAhead, s.freed+s.size) &^ (fabric.LineBytes - 1)
	for at := (from + fabric.LineBytes - 1) &^ (fabric.LineBytes - 1); at < to; at += fabric.LineBytes {
		binary.NativeEndian.PutUint64(s.ring[at&(s.size-1):], 0)
	}
	s.claimed = max(to, from)
}

// start is where a frame of so many bytes begins, and how much of the ring is skipped before it: it
// lies in one piece.
func (s *Sender) start(need uint64) (at, gap uint64) {
	if at = s.sent & (s.size - 1); at+need > s.size {
		return 0, s.size - at
	}
	return at, 0
}

// publish makes a frame visible whose other bytes are written; end is the end of the frames before
// it. A peer that reads the row itself looks at the first word behind the last frame until it is
// not zero: the message and the word that the peer waits for share a line. So publish first clears
// the next such word, and writes the skip of a frame behind a gap last.
func (s *Sender) publish(at, first, end, gap uint64) {
	if !s.direct {
		if gap > 0 {
			binary.NativeEndian.PutUint64(s.ring[end:], head(skip, 0, 0))
		}
		binary.NativeEndian.PutUint64(s.ring[at:], first)
		store(s.own, sentOff, s.sent)
		return
	}
	binary.NativeEndian.PutUint64(s.ring[s.sent&(s.size-1):], 0)
	store(s.ring, int(at), first)
	if gap > 0 {
		store(s.ring, int(end), head(skip, 0, 0))
	}
}

// refusal is the status of a frame that was not sent.
func (s *Sender) refusal(why Status) Status {
	if s.err != nil {
		return WrongWords
	}
	return why
}

// Room reports whether a frame with n bytes would find room now. It is true if the peer's words are
// wrong or the channel is shut, which Put will tell.
func (s *Sender) Room(k Kind, channel, n int) bool { return s.roomBehind(k, channel, n, 0, 0) }

// roomBehind is Room behind other frames, which take a number of bytes of the ring and a number of
// bytes of the channel's window.
func (s *Sender) roomBehind(k Kind, channel, n, ring, window int) bool {
	need := frameBytes(n)
	if k.needsChannel() && s.channels[channel].over {
		return true
	}
	if k.Counted() && !s.windowFits(channel, uint32(window)+uint32(need)) {
		return s.err != nil
	}
	_, gap := s.start(uint64(ring) + need)
	return s.ringFits(gap+uint64(ring)+need) || s.err != nil
}

// Err says what is wrong with the peer's words.
func (s *Sender) Err() error { return s.err }

// ringFits reports whether the ring takes so many bytes. It looks at the peer's word only when what
// it saw last does not suffice.
func (s *Sender) ringFits(n uint64) bool {
	if mutant.Enabled && mutant.On(mutant.PairOverwrites) {
		return true
	}
	if s.direct {
		n += align // for the word behind the frame
	}
	if s.sent+n-s.freed <= s.size {
		return true
	}
	freed := load(s.peer, freedOff)
	if freed < s.freed || freed > s.sent { // RP6
		s.err = fmt.Errorf("%w: RP6: freed is %d, it was %d, and %d were sent", fabric.ErrViolation, freed, s.freed, s.sent)
		return false
	}
	s.freed = freed
	return s.sent+n-s.freed <= s.size
}

// windowFits reports whether a channel's window takes so many bytes (RP3).
func (s *Sender) windowFits(channel int, n uint32) bool {
	c := &s.channels[channel]
	if mutant.Enabled && mutant.On(mutant.PairNoWindow) {
		return true
	}
	if c.bytes+n-c.freed <= s.window {
		return true
	}
	return s.look(channel) && c.bytes+n-c.freed <= s.window
}

// look takes in how much of a channel's window the peer gave back, if that is possible (RP6).
func (s *Sender) look(channel int) bool {
	c := &s.channels[channel]
	freed := uint32(load(s.peer, windowOff+8*channel))
	if freed-c.freed > c.bytes-c.freed {
		s.err = fmt.Errorf("%w: RP6: channel %d: %d bytes were given back of %d", fabric.ErrViolation, channel, freed, c.bytes)
		return false
	}
	c.freed = freed
	return true
}

// lookReceived takes in how many messages of a channel the peer received, if that is possible
// (RP6).
func (s *Sender) lookReceived(channel int) {
	c := &s.channels[channel]
	if c.shut {
		return
	}
	received := uint32(load(s.peer, receivedOff+8*channel))
	if received-c.received > c.messages-c.received {
		s.err = fmt.Errorf("%w: RP6: channel %d: %d messages were received of %d", fabric.ErrViolation, channel, received, c.messages)
		return
	}
	c.received = received
}

// Shut takes in that the peer closed a channel, after it received so many messages in all: no more
// will be received (RP7). The number comes with the frame that says so, because the word in the
// peer's row may be older where a link brings it.
func (s *Sender) Shut(channel int, received uint64) error {
	c := &s.channels[channel]
	if n := uint32(received); n-c.received > c.messages-c.received {
		return fmt.Errorf("%w: RP6: channel %d was closed after %d messages of %d", fabric.ErrViolation, channel, n, c.messages)
	}
	c.received, c.shut, c.over = uint32(received), true, true
	return nil
}

// Leave has Put refuse messages for a channel from now on. What was sent is counted as before.
func (s *Sender) Leave(channel int) { s.channels[channel].over = true }

// IsShut reports whether the peer closed the channel.
func (s *Sender) IsShut(channel int) bool { return s.channels[channel].shut }

// Unreceived is how many messages of a channel, its last ones, the peer's application has not
// received (RP7). Requests that were given up are not counted: no goroutine waits for what becomes
// of them.
func (s *Sender) Unreceived(channel int) int {
	s.lookReceived(channel)
	c := &s.channels[channel]
	c.forgetReceived()
	return int(c.messages-c.received) - len(c.givenUp)
}

// GiveUp notes that no goroutine waits any more for a request: the one after which so many messages
// were sent on its channel.
func (s *Sender) GiveUp(channel int, messages uint32) {
	if mutant.Enabled && mutant.On(mutant.PairCountsGivenUp) {
		return
	}
	s.lookReceived(channel)
	c := &s.channels[channel]
	c.givenUp = append(c.givenUp, messages)
	c.forgetReceived()
}

// forgetReceived forgets requests that were received: the window of the channel bounds the list.
func (c *outgoing) forgetReceived() {
	c.givenUp = slices.DeleteFunc(c.givenUp, c.hasReceived)
}

// hasReceived reports whether a message was received, as far as this side has looked.
func (c *outgoing) hasReceived(messages uint32) bool { return int32(c.received-messages) >= 0 }

// Messages is how many messages were sent on a channel, modulo 2^32.
func (s *Sender) Messages(channel int) uint32 { return s.channels[channel].messages }

// WasReceived reports whether a message was received: the one after which so many were sent on its
// channel.
func (s *Sender) WasReceived(channel int, messages uint32) bool {
	s.lookReceived(channel)
	return s.channels[channel].hasReceived(messages)
}

// SetHungry tells the peer whether a sender here waits for buffer space: then the peer publishes
// all that it frees at once, and rings. It reports whether that is news. A peer that sleeps has to
// be woken for it: it may have freed what it has not published (RP16).
func (s *Sender) SetHungry(waits bool) (news bool) {
	if waits == s.hungry {
		return false
	}
	s.hungry = waits
	v := uint64(0)
	if waits {
		v = 1
	}
	store(s.own, hungryOff, v)
	return true
}

// Ranges are the parts of the own row that were filled since the last call: to be pushed before the
// line SentLine.
func (s *Sender) Ranges() (a, b fabric.Range) {
	from, n := s.pushed&(s.size-1), s.sent-s.pushed
	s.pushed = s.sent
	k := min(n, s.size-from)
	return fabric.Range{Off: ControlBytes + int(from), N: int(k)}, fabric.Range{Off: ControlBytes, N: int(n - k)}
}

// Total is how many frames were sent, and how many bytes of the ring they took.
func (s *Sender) Total() (frames, bytes uint64) { return s.frames, s.sent }

// Offsets of the lines that a side marks for its link: SentLine and HungryLine when it sent, or
// waits for buffer space. Receiver.Lines returns the lines of the receiving half.
const (
	SentLine   = sentOff
	HungryLine = hungryOff
)
