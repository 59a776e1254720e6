package pair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/testutil"
)

// reuse is a process that opens channels for services that come and go, and another one that serves
// them. Channels are few, so that they are used again and again.
type reuse struct {
	*world
	opener, server *side
	openings       Openings
	servings       Servings

	opened   int            // uses in all
	use      [Channels]*use // at the opener
	served   [Channels]*use // at the server
	gone     [Channels]bool // the server's service was closed
	said     []said         // frames of the server that found no room
	frames   [Channels][]*Frame
	received int
	late     []*Frame // received, and not given back
	kept     []*Frame // of the server, for which the opener had no room to answer
}

// use is one use of a channel, as both sides see it: the test looks at both.
type use struct {
	number         int
	sent, received int
	counted        int // by the opener, at the end
	over           bool
}

type said struct {
	kind    Kind
	channel int
	id      uint64
}

func newReuse(seed uint64) *reuse {
	w := &reuse{world: newWorld(seed)}
	w.opener, w.server = w.sides[0], w.sides[1]
	const few = 3
	for c := 1 + few; c < Channels; c++ {
		w.openings.state[c] = ended // no side ended it
	}
	return w
}

// put sends a frame of the opener, if there is room.
func (w *reuse) put(k Kind, channel int, parts ...[]byte) bool {
	if w.opener.tx.Put(k, channel, 0, parts) != Accepted {
		return false
	}
	w.flush(w.opener)
	return true
}

// say sends a frame of the server, now or later, in order.
func (w *reuse) say(k Kind, channel int, id uint64) {
	w.said = append(w.said, said{k, channel, id})
	for len(w.said) > 0 {
		f := w.said[0]
		if w.server.tx.Put(f.kind, f.channel, f.id, nil) != Accepted {
			return
		}
		w.said = w.said[1:]
		w.flush(w.server)
	}
}

func (w *reuse) step() error {
	switch c := 1 + w.IntN(3); w.IntN(12) {
	case 0:
		w.open()
	case 1, 2, 3:
		return w.sendOn(c)
	case 4:
		w.leave(c)
	case 5:
		return w.openerTakes()
	case 6:
		return w.serverTakes()
	case 7, 8:
		return w.receiveOn(c)
	case 9:
		w.close(c)
	case 10:
		w.free(w.server)
	case 11:
		w.carry(w.opener, w.server)
		w.carry(w.server, w.opener)
	}
	return nil
}

func (w *reuse) open() {
	if !w.opener.tx.Room(Open, 0, 8) {
		return
	}
	c, ok := w.openings.Open()
	if !ok {
		return
	}
	w.opener.tx.Reopen(c)
	w.use[c] = &use{number: w.opened, counted: -1}
	w.opened++
	w.note("use %d opens %d", w.use[c].number, c)
	w.put(Open, c, binary.LittleEndian.AppendUint64(nil, uint64(w.use[c].number)))
}

func (w *reuse) sendOn(c int) error {
	u := w.use[c]
	if u == nil || w.openings.state[c] != inUse {
		return nil
	}
	b := make([]byte, 16+w.IntN(300))
	binary.LittleEndian.PutUint64(b, uint64(u.number))
	binary.LittleEndian.PutUint64(b[8:], uint64(u.sent))
	if w.put(Message, c, b) {
		u.sent++
	}
	if n := w.opener.tx.Unreceived(c); n < u.sent-u.received || n > u.sent {
		return fmt.Errorf("RP7: use %d of channel %d has %d messages that were not received, the opener counts %d", u.number, c, u.sent-u.received, n)
	}
	return w.opener.tx.Err()
}

func (w *reuse) leave(c int) {
	if w.opener.tx.Room(Left, 0, 0) && w.openings.Leave(c) {
		w.note("use %d leaves %d", w.use[c].number, c)
		w.opener.tx.Leave(c)
		w.put(Left, c)
	}
}

// close closes the service of a channel.
func (w *reuse) close(c int) {
	if w.servings.IsUnused(c) || w.gone[c] {
		return
	}
	w.gone[c] = true
	for _, f := range w.frames[c] {
		w.server.rx.Free(f)
	}
	w.frames[c] = nil
	w.finishServing(c)
}

// finishServing says the last count.
func (w *reuse) finishServing(c int) {
	if w.servings.Close(c) {
		w.note("use %d of %d is closed after %d", w.served[c].number, c, w.served[c].received)
		w.served[c].over = true
		w.say(Closed, c, w.server.rx.Counted(c))
	}
}

func (w *reuse) serverTakes() error {
	for range 1 + w.IntN(4) {
		f, err := w.server.rx.Next()
		if f == nil || err != nil {
			return err
		}
		c := f.Channel
		switch f.Kind {
		case Open:
			if err := w.servings.Open(c); err != nil {
				return err
			}
			u := w.use[c]
			if n := int(binary.LittleEndian.Uint64(f.Data)); n != u.number {
				return fmt.Errorf("RP15: use %d of channel %d is opened, the opener is at %d", n, c, u.number)
			}
			w.server.rx.Free(f)
			if w.IntN(8) == 0 {
				w.servings.Refuse(c)
				u.over = true
				w.say(Closed, c, 0)
				continue
			}
			w.server.rx.Reopened(c)
			w.served[c], w.gone[c] = u, false
			w.say(Opened, c, 0)
		case Left:
			w.server.rx.Free(f)
			owed, err := w.servings.Left(c)
			if err != nil {
				return err
			}
			if owed && w.server.rx.AllCounted(c) {
				w.finishServing(c)
			}
		case Message:
			if err := w.servings.Takes(f.Kind, c); err != nil {
				return err
			}
			if w.gone[c] {
				w.server.rx.Free(f)
				continue
			}
			w.frames[c] = append(w.frames[c], f)
		}
	}
	return nil
}

// receiveOn receives a message: the word that counts it may be stored after the line was marked, as
// by a goroutine that serves.
func (w *reuse) receiveOn(c int) error {
	if len(w.frames[c]) == 0 {
		return nil
	}
	f, u := w.frames[c][0], w.served[c]
	w.frames[c] = w.frames[c][1:]
	number, k := int(binary.LittleEndian.Uint64(f.Data)), int(binary.LittleEndian.Uint64(f.Data[8:]))
	if number != u.number || k != u.received {
		return fmt.Errorf("RP15: message %d of use %d is received on channel %d, where %d of %d is next", k, number, c, u.received, u.number)
	}
	w.server.rx.Hold(f)
	w.flush(w.server)
	w.server.rx.Count(f)
	u.received++
	w.received++
	if w.IntN(2) == 0 {
		w.server.rx.Free(f)
	} else {
		f.ID = uint64(c) // it is held into later uses of the channel
		w.late = append(w.late, f)
	}
	if w.servings.IsLeft(c) && w.server.rx.AllCounted(c) {
		w.finishServing(c)
	}
	return nil
}

// free gives a message back that is held.
func (w *reuse) free(s *side) {
	if len(w.late) > 0 {
		k := w.IntN(len(w.late))
		s.rx.Free(w.late[k])
		w.late = append(w.late[:k], w.late[k+1:]...)
		w.flush(s)
	}
}

func (w *reuse) openerTakes() error {
	for range 1 + w.IntN(4) {
		f, err := w.opener.rx.Next()
		if f == nil || err != nil {
			return err
		}
		c, u := f.Channel, w.use[f.Channel]
		switch f.Kind {
		case Opened:
			if err := w.openings.Opened(c); err != nil {
				return err
			}
		case Closed:
			if !w.opener.tx.Room(Left, 0, 0) { // the shell keeps it for later
				w.opener.rx.Publish()
				w.kept = append(w.kept, f)
				return nil
			}
			if err := w.closed(c, u, f.ID); err != nil {
				return err
			}
		}
		w.opener.rx.Free(f)
		w.flush(w.opener)
	}
	return nil
}

// closed takes in the end of a use.
func (w *reuse) closed(c int, u *use, count uint64) error {
	counted, tell, err := w.openings.Closed(c)
	if err != nil {
		return err
	}
	if counted {
		if err := w.opener.tx.Shut(c, count); err != nil {
			return err
		}
		if tell {
			w.opener.tx.Leave(c)
			w.put(Left, c)
		}
		u.counted = u.sent - w.opener.tx.Unreceived(c)
		if u.counted != u.received {
			return fmt.Errorf("RP7: use %d of channel %d ended with %d messages received, and the opener counts %d", u.number, c, u.received, u.counted)
		}
	}
	if !u.over {
		return fmt.Errorf("RP15: use %d of channel %d ended, and its server has not ended it", u.number, c)
	}
	w.use[c] = nil
	return nil
}

// settleAll has both sides do what they have to, until every channel was given up and closed.
func (w *reuse) settleAll() error {
	for round := 0; ; round++ {
		busy := 0
		for c := 1; c <= 3; c++ {
			w.leave(c)
			for len(w.frames[c]) > 0 {
				if err := w.receiveOn(c); err != nil {
					return err
				}
			}
			if w.openings.state[c] != unused {
				busy++
			}
			if !w.servings.IsUnused(c) {
				busy++
			}
		}
		for len(w.late) > 0 {
			w.free(w.server)
		}
		for _, f := range w.kept {
			if err := w.closed(f.Channel, w.use[f.Channel], f.ID); err != nil {
				return err
			}
			w.opener.rx.Free(f)
		}
		w.kept = nil
		for _, s := range w.sides {
			s.rx.Publish()
			w.flush(s)
		}
		for _, s := range [][2]*side{{w.opener, w.server}, {w.server, w.opener}} {
			for len(s[0].wire) > 0 {
				w.carry(s[0], s[1])
			}
		}
		if len(w.said) > 0 {
			next := w.said[0]
			w.said = w.said[1:]
			rest := w.said
			w.said = nil
			w.say(next.kind, next.channel, next.id)
			w.said = append(w.said, rest...)
		}
		if err := errors.Join(w.serverTakes(), w.openerTakes(), w.opener.tx.Err(), w.server.tx.Err()); err != nil {
			return err
		}
		if busy == 0 && !w.server.rx.Pending() && !w.opener.rx.Pending() {
			return nil
		}
		if round > 2000 {
			return fmt.Errorf("RP15: channels stay in use: %v, %v", w.openings.state[:4], w.servings.state[:4])
		}
	}
}

func runReuse(seed uint64) (uses, received int, err error) {
	w := newReuse(seed)
	defer func() {
		if err != nil {
			err = fmt.Errorf("seed %d, direct %v: %w\n%q", seed, w.direct, err, w.trace[max(0, len(w.trace)-20):])
		}
	}()
	for range w.IntN(3000) {
		if err := errors.Join(w.step(), w.opener.tx.Err(), w.server.tx.Err()); err != nil {
			return 0, 0, err
		}
	}
	return w.opened, w.received, w.settleAll()
}

// Channels are used again and again, by services that come and go at both sides: every message is
// of the use in which it was sent, and both sides count the same at the end of each (RP15, RP7).
func TestAChannelIsUsedAgainWhenBothSidesEndedItsUse(t *testing.T) {
	worlds := testutil.Seeds[uint64](200, 1000)
	if testing.Short() {
		worlds = 150
	}
	uses, received := 0, 0
	for seed := range worlds {
		n, m, err := runReuse(seed)
		if err != nil {
			t.Fatal(err)
		}
		uses, received = uses+n, received+m
	}
	if uses < int(worlds) || received < int(worlds) {
		t.Errorf("%d uses and %d messages in %d worlds", uses, received, worlds)
	}
}

// What a peer says about the use of a channel is believed only if it is possible (RP15).
func TestImpossibleUsesAreAViolation(t *testing.T) {
	var o Openings
	var s Servings
	c, _ := o.Open()
	other := c%(Channels-1) + 1
	violations := map[string]error{
		"opened, not asked for": o.Opened(other),
		"a second use of a channel in use": func() error {
			if err := s.Open(c); err != nil {
				t.Error(err)
			}
			return s.Open(c)
		}(),
		"channel 0":                            s.Open(0),
		"given up, not in use":                 func() error { _, err := s.Left(other); return err }(),
		"a message on a channel not in use":    s.Takes(Message, other),
		"a message on a channel that was left": func() error { s.Left(c); return s.Takes(Message, c) }(),
		"given up twice":                       func() error { _, err := s.Left(c); return err }(),
		"opened before the last count":         s.Open(c),
	}
	if err := o.Opened(c); err != nil {
		t.Error(err)
	}
	violations["opened twice"] = o.Opened(c)
	if counted, tell, err := o.Closed(c); !counted || !tell || err != nil {
		t.Error(counted, tell, err)
	}
	_, _, violations["closed twice"] = o.Closed(c)
	for what, err := range violations {
		if !errors.Is(err, fabric.ErrViolation) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for k := range Channels - 1 {
		if _, ok := o.Open(); !ok {
			t.Fatalf("channel %d is not to be had", k)
		}
	}
	if c, ok := o.Open(); ok {
		t.Errorf("channel %d is given out twice", c)
	}
	if used, leaving := o.Used(); used != Channels-1 || leaving != 0 {
		t.Error(used, leaving)
	}
}

// FuzzAHostileUse has a peer ask for channels, give them up and send on them in any order: the
// other side answers each use once, or cuts the peer off.
func FuzzAHostileUse(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 3, 0})
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var s Servings
		var o Openings
		for _, deed := range script {
			c := int(deed>>4) & 3
			before := s.state[c]
			var err error
			switch deed % 8 {
			case 0:
				if err = s.Open(c); err == nil && before != unused {
					t.Fatalf("RP15: channel %d was %v, and is opened", c, before)
				}
			case 1:
				_, err = s.Left(c)
			case 2:
				s.Close(c)
			case 3:
				err = s.Takes(Message, c)
			case 4:
				o.Open()
				err = o.Opened(c)
			case 5:
				_, _, err = o.Closed(c)
			case 6:
				o.Leave(c)
			}
			if err != nil && rng.IntN(2) == 0 {
				return // cut off
			}
			if s.state[0] != unused {
				t.Fatal("RP15: channel 0 is used")
			}
		}
	})
}
