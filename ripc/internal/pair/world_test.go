package pair

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// world is two processes that send each other messages, stepped at random from a seed.
type world struct {
	*rand.Rand
	sides   [2]*side
	direct  bool // rows are shared; else they follow, push by push
	bounded bool // receivers have little memory
	trace   []string
}

// budget is memory of a receiver.
type budget struct {
	left, least int
	resumed     bool
}

func (b *budget) Take(n int) bool {
	if n > b.left {
		return false
	}
	b.left -= n
	b.least = min(b.least, b.left)
	return true
}

func (b *budget) Give(n int) { b.left += n }

func (b *budget) Resume() { b.resumed = true }

// side is one process: its halves of the pair, and what its application did.
type side struct {
	name     string
	row      []byte // own
	replica  []byte // of the peer's row, as this side sees it
	tx       *Sender
	rx       *Receiver
	wire     [][]push // of the own row, on their way to the peer's replica: one list for each flush
	queues   [Channels][]*Frame
	held     []*Frame // received, not freed
	deaf     [Channels]bool
	sent     [Channels]int
	received [Channels]int
	givenUp  [Channels][]int // of what was sent
	wasHurt  error
}

type push struct {
	off  int
	data []byte
}

const (
	worldRing     = MinRingBytes
	worldChannels = 4
)

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 0))}
	w.direct, w.bounded = w.IntN(2) == 0, w.IntN(4) == 0
	var rows [2][]byte
	for i := range rows {
		rows[i], _, _ = fabric.NewMemory(ControlBytes + worldRing)
	}
	for i := range w.sides {
		s := &side{name: string(rune('A' + i)), row: rows[i], replica: rows[1-i]}
		if !w.direct {
			s.replica, _, _ = fabric.NewMemory(ControlBytes + worldRing)
		}
		s.tx, s.rx = NewSender(s.row, s.replica, w.direct), NewReceiver(s.row, s.replica, w.direct)
		if w.bounded {
			s.rx.used = Allowance - frameCost*(1+w.IntN(8))
			s.rx.Bound(&budget{left: w.IntN(1000)})
		}
		w.sides[i] = s
	}
	return w
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// content is message k of a channel: its length and bytes follow from both.
func content(from string, channel, k, n int) []byte {
	b := bytes.Repeat([]byte{from[0], byte(channel)}, (n+1)/2+8)[:n]
	if n >= 8 {
		binary.LittleEndian.PutUint64(b, uint64(k))
	}
	return b
}

func lengthOf(channel, k int) int {
	n := (k*37 + channel*101) % 700
	if k%29 == 0 {
		n = MaxMessage(worldRing)
	}
	return n
}

// step lets one side do one thing.
func (w *world) step() error {
	i := w.IntN(2)
	s := w.sides[i]
	switch w.IntN(6) {
	case 0, 1:
		channel := w.IntN(worldChannels)
		if w.IntN(8) == 0 {
			w.giveUp(s, channel)
			return nil
		}
		return w.send(s, channel)
	case 2:
		return w.take(s)
	case 3:
		return w.receive(s, w.IntN(worldChannels))
	case 4:
		w.free(s)
	case 5:
		w.carry(s, w.sides[1-i])
	}
	return nil
}

func (w *world) send(s *side, channel int) error {
	k := s.sent[channel]
	b := content(s.name, channel, k, lengthOf(channel, k))
	cut := 0
	if len(b) > 0 {
		cut = w.IntN(len(b))
	}
	switch s.tx.Put(Message, channel, uint64(k), [][]byte{b[:cut], b[cut:]}) {
	case Accepted:
		s.sent[channel]++
		w.note("%s sends %d on %d", s.name, k, channel)
		w.flush(s)
	case WrongWords:
		return s.tx.Err()
	}
	return nil
}

// giveUp has a side not wait any more for one of what it sent.
func (w *world) giveUp(s *side, channel int) {
	if s.sent[channel] == 0 {
		return
	}
	k := max(0, s.sent[channel]-1-w.IntN(8))
	if slices.Contains(s.givenUp[channel], k) {
		return
	}
	s.givenUp[channel] = append(s.givenUp[channel], k)
	s.tx.GiveUp(channel, uint32(k+1))
	w.note("%s gives up %d on %d", s.name, k, channel)
}

// flush puts what a side stored on the wire: bytes before the words that cover them.
func (w *world) flush(s *side) {
	if w.direct {
		return
	}
	var pushes []push
	add := func(off, n int) {
		if n > 0 {
			pushes = append(pushes, push{off, bytes.Clone(s.row[off : off+n])})
		}
	}
	a, b := s.tx.Ranges()
	add(a.Off, a.N)
	add(b.Off, b.N)
	add(SentLine, fabric.LineBytes)
	lines := s.rx.Lines()
	for l := 0; lines != 0; l++ {
		if lines&1 == 1 {
			add(l*fabric.LineBytes, fabric.LineBytes)
		}
		lines >>= 1
	}
	s.wire = append(s.wire, pushes)
}

// carry brings what is on the wire to the peer, as far as a random place in it.
func (w *world) carry(s, to *side) {
	for n := w.IntN(3); n >= 0 && len(s.wire) > 0; n-- {
		for _, p := range s.wire[0] {
			if err := to.guard(p); err != nil {
				to.wasHurt = err
			}
			copy(to.replica[p.off:], p.data)
		}
		s.wire = s.wire[1:]
	}
}

// guard has the receiver judge what a link is about to write into the replica (RP18).
func (s *side) guard(p push) error {
	if p.off < ControlBytes {
		return nil
	}
	return s.rx.Guard(fabric.Range{Off: p.off, N: len(p.data)})
}

func (w *world) take(s *side) error {
	for range 1 + w.IntN(4) {
		f, err := s.rx.Next()
		if err != nil {
			return err
		}
		if f == nil {
			return nil
		}
		s.queues[f.Channel] = append(s.queues[f.Channel], f)
	}
	return nil
}

func (w *world) receive(s *side, channel int) error {
	if s.deaf[channel] || len(s.queues[channel]) == 0 {
		return nil
	}
	f := s.queues[channel][0]
	s.queues[channel] = s.queues[channel][1:]
	k := s.received[channel]
	other := "A"
	if s.name == "A" {
		other = "B"
	}
	if want := content(other, channel, k, lengthOf(channel, k)); f.ID != uint64(k) || !bytes.Equal(f.Data, want) {
		return fmt.Errorf("RP1: %s received message %d of channel %d where %d was next, or other bytes", s.name, f.ID, channel, k)
	}
	s.rx.Received(f)
	if w.IntN(2) == 0 {
		s.rx.Copy(f)
	}
	s.received[channel]++
	s.held = append(s.held, f)
	w.note("%s receives %d on %d", s.name, k, channel)
	w.flush(s)
	return nil
}

// free gives back a message, in any order.
func (w *world) free(s *side) {
	if len(s.held) == 0 {
		return
	}
	i := w.IntN(len(s.held))
	f := s.held[i]
	other := "A"
	if s.name == "A" {
		other = "B"
	}
	if want := content(other, f.Channel, int(f.ID), lengthOf(f.Channel, int(f.ID))); !bytes.Equal(f.Data, want) {
		s.wasHurt = fmt.Errorf("RP2: message %d of channel %d changed while %s held it", f.ID, f.Channel, s.name)
	}
	s.held = append(s.held[:i], s.held[i+1:]...)
	s.rx.Free(f)
	w.flush(s)
}

// settle lets both sides do all that they can, until nothing changes any more. Messages that are
// held are given back.
func (w *world) settle() error {
	for idle := 0; idle < 2; idle++ {
		for i, s := range w.sides {
			for len(s.held) > 0 {
				w.free(s)
				idle = 0
			}
			s.rx.Publish()
			w.flush(s)
			for len(s.wire) > 0 {
				w.carry(s, w.sides[1-i])
			}
			for s.rx.Pending() {
				before := s.rx.taken
				if err := w.take(s); err != nil {
					return err
				}
				if s.rx.taken == before { // there is no memory
					break
				}
				idle = 0
			}
			for c := range worldChannels {
				if !s.deaf[c] && len(s.queues[c]) > 0 {
					if err := w.receive(s, c); err != nil {
						return err
					}
					idle = 0
				}
			}
		}
	}
	return nil
}

// check looks at what holds at every step.
func (w *world) check() error {
	for i, s := range w.sides {
		if s.wasHurt != nil {
			return s.wasHurt
		}
		peer := w.sides[1-i]
		for c := range worldChannels {
			unreceived, want := s.tx.Unreceived(c), s.sent[c]-peer.received[c]
			for _, k := range s.givenUp[c] {
				if k >= peer.received[c] {
					want--
				}
			}
			if w.direct && unreceived != want || unreceived < want {
				return fmt.Errorf("RP7: %s counts %d messages of channel %d that were not received, there are %d", s.name, unreceived, c, want)
			}
		}
	}
	return nil
}

// run lives through one world: random steps, in the middle of which a side may end, and then the
// end.
func run(seed uint64) (err error) {
	w := newWorld(seed)
	defer func() {
		if err != nil {
			tail := w.trace[max(0, len(w.trace)-30):]
			err = fmt.Errorf("seed %d, direct %v: %w\n%q", seed, w.direct, err, tail)
		}
	}()
	for _, s := range w.sides {
		for c := range worldChannels {
			s.deaf[c] = w.IntN(4) == 0 && !w.bounded // RP4 needs memory
		}
		s.deaf[0] = false
	}
	steps := w.IntN(1500)
	for range steps {
		if err := w.step(); err != nil {
			return err
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	if w.IntN(3) == 0 {
		return w.lose(w.IntN(2))
	}
	return w.finish()
}

// lose ends a process. What was on its way to the other one arrives in part.
func (w *world) lose(i int) error {
	gone, left := w.sides[i], w.sides[1-i]
	for n := w.IntN(len(gone.wire) + 1); n > 0; n-- {
		w.carry(gone, left)
	}
	if err := w.check(); err != nil {
		return err
	}
	for left.rx.Pending() && !w.bounded { // the remaining side receives what the other one sent
		if err := w.take(left); err != nil {
			return err
		}
	}
	for c := range worldChannels {
		for !left.deaf[c] && len(left.queues[c]) > 0 {
			if err := w.receive(left, c); err != nil {
				return err
			}
		}
		if w.direct && !w.bounded && !left.deaf[c] && left.received[c] != gone.sent[c] {
			return fmt.Errorf("RP1: %d of %d messages of channel %d were received from a process that ended", left.received[c], gone.sent[c], c)
		}
	}
	return nil
}

// finish receives everything. Then every channel with a service that receives takes messages,
// however many services do not.
func (w *world) finish() error {
	if err := w.settle(); err != nil {
		return err
	}
	for range 50 {
		for i, s := range w.sides {
			for c := range worldChannels {
				before := s.sent[c]
				if err := w.send(s, c); err != nil {
					return err
				}
				if !w.sides[1-i].deaf[c] && s.sent[c] == before {
					return fmt.Errorf("RP3, RP4: %s has no room on channel %d, whose service received everything", s.name, c)
				}
				if err := w.settle(); err != nil {
					return err
				}
			}
		}
	}
	for i, s := range w.sides {
		for c := range worldChannels {
			if got := w.sides[1-i].received[c]; !w.sides[1-i].deaf[c] && got != s.sent[c] {
				return fmt.Errorf("RP1: %d of %d messages of channel %d were received", got, s.sent[c], c)
			}
		}
	}
	return w.check()
}

// Two processes receive each other's messages once each, in order and whole, whatever the order of
// their steps, when channels are full, when services do not receive, when a receiver has little
// memory, and when one of them ends (RP1 to RP4, RP7, RP17).
func TestMessagesArriveOnceAndInOrder(t *testing.T) {
	worlds := testutil.Seeds[uint64](250, 3000)
	if testing.Short() {
		worlds = 300
	}
	for seed := range worlds {
		if err := run(seed); err != nil {
			t.Fatal(err)
		}
	}
}
