package pair

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// longWorld is two processes of which one sends the other long messages, stepped at random from a
// seed. Frames go over the rings and blocks over the second connection: each in order, and the two
// in any order to each other.
type longWorld struct {
	*rand.Rand
	out    Outbox[*longSent]
	in     Inbox[*longGot]
	there  []longFrame // from the sender
	back   []longFrame // to it
	blocks []longBlock
	sent   []*longSent
	got    map[uint64]*longGot
	trace  []string
}

// longSent is a message as its sender sees it.
type longSent struct {
	o     *Outgoing[*longSent]
	way   Way
	given bool // the sender gave up
	here  bool
	ends  int // how often it ended
}

// longGot is a message as its receiver sees it.
type longGot struct {
	in      *Incoming[*longGot]
	way     Way
	bytes   uint64 // in the window
	here    bool
	denied  bool
	drained bool
}

type longFrame struct {
	kind    Kind
	id      uint64
	channel int
	offer   Offer
}

type longBlock struct {
	id, offset uint64
	n          int
}

func newLongWorld(seed uint64) *longWorld {
	return &longWorld{Rand: rand.New(rand.NewPCG(seed, 3)), got: map[uint64]*longGot{}}
}

func (w *longWorld) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

// step lets one side do one thing, if it can.
func (w *longWorld) step() error {
	switch w.IntN(8) {
	case 0:
		return w.offer()
	case 1:
		w.sendBlock()
	case 2:
		if w.IntN(3) == 0 {
			w.giveUp()
		}
	case 3:
		return w.take()
	case 4:
		return w.hear()
	case 5:
		return w.read()
	case 6:
		w.place()
	case 7:
		w.free()
	}
	return nil
}

func (w *longWorld) offer() error {
	s := &longSent{way: Way(w.IntN(3))}
	channel, purpose := 1+w.IntN(2), LongMessage
	if s.way == Direct {
		channel, purpose = 0, LongReply
	}
	if !w.out.HasRoom(channel) {
		return nil
	}
	size := uint64(w.IntN(3 * 1000))
	if s.way == Placed {
		size++
	}
	s.o = w.out.Begin(channel, s.way, size, s)
	w.sent = append(w.sent, s)
	o := Offer{Purpose: purpose, Way: s.way, Size: size}
	parsed, head, err := ParseOffer(append(o.Append(nil), "head"...))
	if err != nil || string(head) != "head" || !reflect.DeepEqual(parsed, o) {
		return fmt.Errorf("RP14: an offer reads as %+v, %q, %v", parsed, head, err)
	}
	w.there = append(w.there, longFrame{Offered, s.o.ID, channel, parsed})
	w.note("offers %x in way %d, %d bytes", s.o.ID, s.way, size)
	return nil
}

// pick is a message that its sender has open, or nil.
func (w *longWorld) pick() *longSent {
	if len(w.sent) == 0 {
		return nil
	}
	return w.sent[w.IntN(len(w.sent))]
}

func (w *longWorld) sendBlock() {
	if s := w.pick(); s != nil && !s.given {
		if offset, n := s.o.Block(1 + w.IntN(700)); n > 0 {
			w.blocks = append(w.blocks, longBlock{s.o.ID, offset, n})
		}
	}
}

// giveUp has a sender withdraw or cut a message.
func (w *longWorld) giveUp() {
	s := w.pick()
	if s == nil || s.given {
		return
	}
	switch {
	case s.o.Withdraw():
		s.given = true
		w.there = append(w.there, longFrame{kind: Withdrawn, id: s.o.ID})
		w.note("withdraws %x", s.o.ID)
	case s.o.Cut():
		s.given = true
		w.blocks = append(w.blocks, longBlock{id: s.o.ID})
		w.note("cuts %x", s.o.ID)
	}
}

func (w *longWorld) say(k Kind, id uint64) {
	w.back = append(w.back, longFrame{kind: k, id: id})
}

// take lets the receiver take a frame.
func (w *longWorld) take() error {
	if len(w.there) == 0 {
		return nil
	}
	f := w.there[0]
	w.there = w.there[1:]
	if f.kind == Withdrawn {
		if m := w.in.Withdrawn(f.id); m != nil {
			w.deny(m.Value, false)
		}
		return nil
	}
	g := &longGot{way: f.offer.Way}
	in, err := w.in.Offered(f.id, f.channel, &f.offer, g)
	if err != nil {
		return err
	}
	g.in = in
	w.got[f.id] = g
	if f.offer.Size == 0 {
		w.in.Here(in)
		g.here = true
	}
	return nil
}

func (w *longWorld) deny(g *longGot, cut bool) {
	w.in.Deny(g.in, cut)
	g.denied, g.drained = true, g.in.IsDrained()
	w.say(Denied, g.in.ID)
	w.note("denies %x", g.in.ID)
}

// place lets the receiver find a place for a message, or deny it.
func (w *longWorld) place() {
	g := w.any(func(g *longGot) bool { return g.in.IsOpen() })
	switch {
	case g == nil:
	case w.IntN(4) == 0:
		w.deny(g, false)
	case g.way == Placed:
		w.in.Here(g.in)
		g.here = true
		w.say(Here, g.in.ID)
	case g.in.Grant():
		w.say(Granted, g.in.ID)
	}
}

func (w *longWorld) free() {
	if g := w.any(func(g *longGot) bool { return g.here }); g != nil {
		g.here = false
		w.in.Free(g.in)
		delete(w.got, g.in.ID)
		w.say(Freed, g.in.ID)
	}
}

// any is a message of the receiver, chosen by its id.
func (w *longWorld) any(is func(*longGot) bool) (best *longGot) {
	for _, s := range w.sent {
		if g := w.got[s.o.ID]; g != nil && is(g) && (best == nil || w.IntN(3) == 0) {
			best = g
		}
	}
	return best
}

// read lets the receiver read a block.
func (w *longWorld) read() error {
	if len(w.blocks) == 0 {
		return nil
	}
	b := w.blocks[0]
	in, offset, err := w.in.Block(b.id, b.n)
	if err != nil || in == nil { // its offer is still on its way
		return err
	}
	w.blocks = w.blocks[1:]
	g := in.Value
	if offset != b.offset && b.n > 0 {
		return fmt.Errorf("RP10: bytes from %d of %x are written from %d", b.offset, b.id, offset)
	}
	if !in.IsOpen() {
		return nil
	}
	if b.n == 0 {
		w.deny(g, true)
		return nil
	}
	g.bytes += uint64(b.n)
	if in.IsWhole() {
		if g.bytes != in.Size {
			return fmt.Errorf("RP12: %x is whole with %d of %d bytes", b.id, g.bytes, in.Size)
		}
		w.in.Here(in)
		g.here = true
		w.say(Here, b.id)
	}
	return nil
}

// hear lets the sender take a frame.
func (w *longWorld) hear() error {
	if len(w.back) == 0 {
		return nil
	}
	f := w.back[0]
	w.back = w.back[1:]
	o, err := w.out.Answer(f.kind, f.id)
	if err != nil {
		return err
	}
	s := o.Value
	s.here = s.here || f.kind == Here
	if !o.IsOver() {
		return nil
	}
	if s.ends++; s.ends > 1 {
		return fmt.Errorf("RP12: %x ended %d times", f.id, s.ends)
	}
	if f.kind == Freed && s.o.Size > 0 && !s.here {
		return fmt.Errorf("RP13: %x was given back before it was here", f.id)
	}
	if f.kind == Denied && s.o.Cut() {
		w.blocks = append(w.blocks, longBlock{id: f.id})
	}
	return nil
}

// run lives through one world, and then lets all that is open come to its end.
func (w *longWorld) run() error {
	for range w.IntN(600) {
		if err := w.step(); err != nil {
			return err
		}
		for c := 1; c < Channels; c++ {
			if w.out.count[c] > OpenLong || w.in.count[c] > w.out.count[c] {
				return fmt.Errorf("RP11: %d messages of channel %d are open, the receiver has %d", w.out.count[c], c, w.in.count[c])
			}
		}
	}
	for range 20000 {
		if w.out.Open() == 0 && w.in.Open() == 0 {
			return nil
		}
		if w.IntN(8) == 0 {
			continue
		}
		if err := [](func() error){
			w.take, w.hear, w.read,
			func() error { w.place(); return nil }, func() error { w.free(); return nil }, func() error { w.sendBlock(); return nil },
		}[w.IntN(6)](); err != nil {
			return err
		}
	}
	return fmt.Errorf("RP12: %d messages of the sender and %d of the receiver have no end", w.out.Open(), w.in.Open())
}

// Long messages end once each, and in the same way for both sides, whatever the order in which
// frames and blocks come, and at whatever step one of them gives up (RP10 to RP13).
func TestALongMessageEndsOnce(t *testing.T) {
	worlds := testutil.Seeds[uint64](400, 3000)
	if testing.Short() {
		worlds = 300
	}
	for seed := range worlds {
		w := newLongWorld(seed)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\n%q", seed, err, w.trace[max(0, len(w.trace)-30):])
		}
	}
}

// What a peer says of a long message is believed only if it can be (RP14).
func TestImpossibleAnswersAreAViolation(t *testing.T) {
	for _, way := range []Way{Asked, Direct, Placed} {
		for _, c := range []struct {
			name   string
			first  []Kind // that are possible
			second Kind   // that is not
		}{
			{"it is here before its bytes went", nil, Here},
			{"it is given back before it is here", nil, Freed},
			{"it is granted twice", []Kind{Granted}, Granted},
			{"it is denied after it was denied", []Kind{Denied}, Denied},
			{"it is granted after it was denied", []Kind{Denied}, Granted},
			{"it is here twice", []Kind{Here}, Here},
			{"it is denied when it is here", []Kind{Here}, Denied},
			{"it is given back twice", []Kind{Here, Freed}, Freed},
		} {
			if way == Placed && c.second == Here && len(c.first) == 0 || way != Asked && c.second == Granted && len(c.first) == 1 && c.first[0] == Granted {
				continue // that is possible, or its beginning is not
			}
			var b Outbox[int]
			channel := 1
			if way == Direct {
				channel = 0
			}
			o := b.Begin(channel, way, 100, 7)
			for _, k := range c.first {
				if k == Here && way != Placed {
					if way == Asked {
						b.Answer(Granted, o.ID)
					}
					o.Block(100)
				}
				if _, err := b.Answer(k, o.ID); err != nil {
					t.Fatalf("%s, way %d: %v", c.name, way, err)
				}
			}
			if _, err := b.Answer(c.second, o.ID); !errors.Is(err, fabric.ErrViolation) {
				t.Errorf("%s, way %d: %v", c.name, way, err)
			}
		}
	}
	var b Outbox[int]
	if _, err := b.Answer(Denied, 1<<32); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a message that never was: %v", err)
	}
}

// A peer that offers more than it may, or sends bytes that were not granted, is cut off (RP10,
// RP11).
func TestMoreThanWasGrantedIsAViolation(t *testing.T) {
	var b Inbox[int]
	offer := func(id uint64, channel int, way Way, size uint64) (*Incoming[int], error) {
		purpose := LongMessage
		if channel == 0 {
			purpose = LongReply
		}
		return b.Offered(id, channel, &Offer{Purpose: purpose, Way: way, Size: size}, 0)
	}
	m, err := offer(1, 1, Asked, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Block(1, 10); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("bytes before the grant: %v", err)
	}
	m.Grant()
	if _, _, err := b.Block(1, 101); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("more bytes than there are: %v", err)
	}
	if _, _, err := b.Block(1, 60); err != nil {
		t.Error(err)
	}
	if _, _, err := b.Block(1, 41); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("more bytes than are left: %v", err)
	}
	if _, err := offer(1, 1, Asked, 1); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("an id again: %v", err)
	}
	if _, err := offer(2, 0, Asked, 1); err != nil {
		t.Error(err)
	}
	if _, err := b.Offered(3, 1, &Offer{Purpose: LongReply, Size: 1}, 0); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("a reply on a channel of messages: %v", err)
	}
	for id := uint64(10); id < 10+OpenLong-1; id++ {
		if _, err := offer(id, 1, Asked, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := offer(99, 1, Asked, 1); !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("more than OpenLong on a channel: %v", err)
	}
	for id := uint64(1000); id <= 1000+maxDrained; id++ { // replies that no caller waits for, and that never end
		m, err := offer(id, 0, Direct, 10)
		if last := id == 1000+maxDrained; last != errors.Is(err, fabric.ErrViolation) {
			t.Fatalf("after %d: %v", id-1000, err)
		} else if !last {
			b.Deny(m, false)
		}
	}
}

// Whatever bytes come as an offer, what is read of them lies in them, and says the same when it is
// written again (RP14).
func FuzzOffer(f *testing.F) {
	f.Add((&Offer{Purpose: LongMessage, Size: 1}).Append(nil))
	f.Add((&Offer{Purpose: LongRequest, Way: Placed, Size: 5, Owner: "squall-large-", Offset: 3}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, head, err := ParseOffer(b)
		if err != nil {
			if !errors.Is(err, fabric.ErrViolation) {
				t.Fatal(err)
			}
			return
		}
		again, rest, err := ParseOffer(append(o.Append(nil), head...))
		if err != nil || again != o || !bytes.Equal(rest, head) || !bytes.HasSuffix(b, head) {
			t.Fatalf("%+v, %q reads as %+v, %q: %v", o, head, again, rest, err)
		}
	})
}

// A peer says what it likes of long messages in both directions, in any order. Nothing panics, what
// is open stays bounded, and no byte goes anywhere but into what was granted (RP10, RP11, RP14).
func FuzzHostileLongMessages(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	f.Add(bytes.Repeat([]byte{0x40, 0x11, 0x52, 0x93}, 32))
	f.Fuzz(hostileLong)
}

func TestHostileLongMessagesDoNoHarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 3000 {
		script := make([]byte, rng.IntN(200))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		hostileLong(t, script)
	}
}

func hostileLong(t *testing.T, script []byte) {
	var in Inbox[*uint64]
	var out Outbox[int]
	var mine []*Outgoing[int]
	var theirs []*Incoming[*uint64]
	for i, deed := range script {
		id := uint64(deed>>4) | 1<<32
		var err error
		switch deed % 8 {
		case 0, 1:
			var m *Incoming[*uint64]
			channel := int(deed>>3) % 3
			o := Offer{Purpose: Purpose(1 + deed>>6), Way: Way(deed >> 4 % 3), Size: uint64(deed) * 10}
			if m, err = in.Offered(id, channel, &o, new(uint64)); err == nil {
				theirs = append(theirs, m)
			}
		case 2, 3:
			var m *Incoming[*uint64]
			var offset uint64
			n := i % 50 * int(deed)
			if m, offset, err = in.Block(id, n); err == nil && m != nil {
				if m.IsOpen() && (m.way == Placed || offset != *m.Value || offset+uint64(n) > m.Size || m.way == Asked && m.state != inGranted) {
					t.Fatalf("RP10: %d bytes from %d of %d, %d are there", n, offset, m.Size, *m.Value)
				}
				*m.Value += uint64(n)
				switch {
				case m.IsOpen() && n == 0:
					in.Deny(m, true)
				case m.IsWhole():
					in.Here(m)
				}
			}
		case 4:
			in.Withdrawn(id)
		case 5: // an honest deed of the receiver
			if len(theirs) > 0 {
				switch m := theirs[int(deed>>4)%len(theirs)]; {
				case m.IsOpen() && deed&16 == 0:
					m.Grant()
				case m.IsOpen():
					in.Deny(m, false)
				case m.state == inHere:
					in.Free(m)
				}
			}
		case 6: // and of the sender
			if channel := int(deed>>4) % 3; out.HasRoom(channel) {
				mine = append(mine, out.Begin(channel, Way(deed>>6%3), uint64(deed), i))
			}
		case 7:
			k := []Kind{Granted, Denied, Here, Freed}[deed>>3%4]
			if len(mine) > 0 {
				id = mine[i%len(mine)].ID
			}
			var o *Outgoing[int]
			if o, err = out.Answer(k, id); err == nil {
				if k == Here && !o.IsSent() {
					t.Fatal("RP14: a message is here that did not go")
				}
				o.Block(10)
			}
		}
		if err != nil && !errors.Is(err, fabric.ErrViolation) {
			t.Fatal(err)
		}
		if in.Open() > 3*OpenLong+maxDrained || in.drained < 0 {
			t.Fatalf("RP11: %d messages are open, %d drained", in.Open(), in.drained)
		}
	}
}
