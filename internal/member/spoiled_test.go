package member_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// spoiler is a member of a world that writes into its row what the seed says, and follows no
// protocol any more.
type spoiler struct {
	w     *world
	place int
	draw  *rand.Rand
}

// Offsets in a row: the member line, the line of the view change and that of the subgroup come
// right behind the fabric's line. The vectors begin the bytes, and the ring ends them.
const (
	heartbeatOff = fabric.LineBytes
	suspectedOff = 2 * fabric.LineBytes
	proposedOff  = suspectedOff + 3*8
	ackedOff     = suspectedOff + 4*8
	sentOff      = 3 * fabric.LineBytes
	positionOff  = sentOff + 4*8
	ringBytes    = 4096
	window       = 16
)

// number draws what an attacker would try for a counter that is at some value now.
func (s *spoiler) number(now uint64) uint64 {
	switch s.draw.IntN(8) {
	case 0:
		return 0
	case 1:
		return s.draw.Uint64()
	case 2:
		return s.draw.Uint64N(1000)
	case 3:
		return now + s.draw.Uint64N(100)
	case 4:
		return now - s.draw.Uint64N(100)
	case 5:
		return ^uint64(0) >> s.draw.IntN(64)
	case 6:
		return now + s.draw.Uint64N(1<<41)
	default:
		return 1 << s.draw.IntN(64)
	}
}

// spoil changes the row of the spoiler in a view, and pushes what it changed.
func (s *spoiler) spoil(v *views.View) {
	self, ok := v.RankOf(order.NodeID(s.place + 1))
	if !ok {
		return
	}
	layout, err := member.NewLayout(v)
	if err != nil {
		s.w.t.Fatal(err)
	}
	table, shape := s.w.tables[v.Key()].Tables[self], layout.Shape(self)
	var to []order.Rank
	for r := range v.Members {
		to = append(to, order.Rank(r))
	}
	row := table.Row(self)
	set := func(off int) {
		word := fabric.Word(row, off)
		*word = s.number(*word)
		if off == suspectedOff && *word>>len(v.Members) == 0 { // an accusation that can be is believed: this is about what cannot be
			*word = 0
		}
	}
	for range 1 + s.draw.IntN(4) {
		switch s.draw.IntN(6) {
		case 0: // a word
			set(8 * s.draw.IntN(shape.ControlBytes/8))
		case 1: // a line
			off := fabric.LineBytes * s.draw.IntN(shape.ControlBytes/fabric.LineBytes)
			for w := range fabric.WordsPerLine {
				set(off + 8*w)
			}
		case 2: // noise, wherever it falls
			off := shape.ControlBytes + s.draw.IntN(shape.RowBytes-shape.ControlBytes)
			n := 1 + s.draw.IntN(min(1000, shape.RowBytes-off))
			for i := range n {
				row[off+i] = byte(s.draw.Uint32())
			}
			table.Push(to, off, n)
		case 3: // what may pass for headers
			off := shape.ControlBytes + 8*s.draw.IntN((shape.RowBytes-shape.ControlBytes)/8)
			n := min(8*s.draw.IntN(64), shape.RowBytes-off)
			for i := 0; i+8 <= n; i += 8 {
				binary.LittleEndian.PutUint64(row[off+i:], s.number(s.draw.Uint64N(256)))
			}
			table.Push(to, off, n)
		case 4: // records in their places, of which only the headers are wrong
			const area = ringBytes + 8*window
			sent, position := fabric.Word(row, sentOff), fabric.Word(row, positionOff)
			for range 1 + s.draw.IntN(4) {
				kind, gap := s.draw.Uint64N(4), s.draw.Uint64N(3)
				binary.LittleEndian.PutUint64(row[shape.RowBytes-area+int(*position%area&^7):], s.number(s.draw.Uint64N(64))|kind<<31|gap<<33)
				*sent += 1 + gap
				*position += 8 * (1 + s.draw.Uint64N(4))
			}
			table.Push(to, shape.RowBytes-area, area)
		case 5: // an ack of what is proposed, with vectors that are none
			table.Poll()
			for _, r := range to {
				acked, proposed := fabric.Word(row, ackedOff), *fabric.Word(table.Row(r), proposedOff)
				*acked = max(*acked, proposed)
			}
			area := row[shape.ControlBytes:]
			text := []string{"", "{}", "[]", `{"here":[[1]]}`, `{"here":[[-1,1e99]]}`, `{"here":null`, `{"here":[[0,0,0,0,0]]}`, `{"here":[[3,3,3,3,3]]}`}[s.draw.IntN(8)]
			binary.LittleEndian.PutUint64(area, 1)
			binary.LittleEndian.PutUint32(area[8:], uint32(len(text)))
			binary.LittleEndian.PutUint32(area[12:], crc.Of([]byte(text)))
			if s.draw.IntN(3) == 0 {
				binary.LittleEndian.PutUint32(area[8:], s.draw.Uint32())
			}
			table.Push(to, shape.ControlBytes, 16+copy(area[16:], text))
		}
	}
	if s.draw.IntN(2) == 0 { // it seems to live
		*fabric.Word(row, heartbeatOff)++
	}
	for off := 0; off < shape.ControlBytes; off += fabric.LineBytes {
		if s.draw.IntN(4) > 0 {
			table.PushLine(to, off)
		}
	}
	table.Flush()
}

// account is what an application was given by each sender, as numbers, and the order of what came
// from others than the spoiler.
type account struct {
	from map[order.NodeID][]uint64
	all  []order.NodeID
}

// accounts has each application note what it is given. What the spoiler sent may be anything.
func accounts(w *world, spoiler int) []*account {
	list := make([]*account, len(w.apps))
	for i, app := range w.apps {
		a := &account{from: map[order.NodeID][]uint64{}}
		list[i] = a
		app.each = func(m multicast.Message) {
			for _, b := range m.Data { // all of it must be readable
				_ = b
			}
			if m.Sender != order.NodeID(spoiler+1) {
				a.from[m.Sender] = append(a.from[m.Sender], binary.LittleEndian.Uint64(m.Data))
				a.all = append(a.all, m.Sender)
			}
		}
	}
	return list
}

// TestAMemberThatSpoilsItsRowIsLeftBehind has one member of five write garbage into its row, from
// some moment on, while the others send, and while one of them may leave. They remove it, and
// deliver what they send each other.
func TestAMemberThatSpoilsItsRowIsLeftBehind(t *testing.T) {
	rounds := uint64(100)
	if testing.Short() {
		rounds = 20
	}
	first := uint64(time.Now().UnixNano())
	for _, mode := range []views.Mode{views.Ordered, views.Unordered, views.Persistent} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			found := uint64(0)
			for seed := first; seed < first+rounds && !t.Failed(); seed++ {
				if spoiled(t, mode, seed) {
					found++
				}
			}
			if found < rounds/10 {
				t.Errorf("in %d of %d rounds a member saw a violation: in the others members only saw silence", found, rounds)
			}
		})
	}
}

// spoiled is one round. It reports whether any member found out that a rule was broken.
func spoiled(t *testing.T, mode views.Mode, seed uint64) (violation bool) {
	defer func() {
		if e := recover(); e != nil {
			t.Errorf("seed %d: %v\n%s", seed, e, debug.Stack())
		}
		if t.Failed() {
			t.Logf("%v, seed %d", mode, seed)
		}
	}()
	const n = 5
	draw := rand.New(rand.NewPCG(seed, 0))
	w := newWorldOf(t, mode, n, window)
	s := &spoiler{w: w, place: draw.IntN(n), draw: draw}
	got := accounts(w, s.place)
	var honest []int
	for i := range n {
		if i != s.place {
			honest = append(honest, i)
		}
	}
	sent := make([]uint64, n)
	step := func(sending bool) {
		for _, i := range honest {
			if !sending || draw.IntN(2) == 0 {
				continue
			}
			if c, err := w.outbox(i).TryClaim(8); err == nil {
				binary.LittleEndian.PutUint64(c.Bytes, sent[i])
				if err := w.outbox(i).Commit(c); err == nil {
					sent[i]++
				}
			}
		}
		if mode == views.Persistent {
			w.sync(honest...)
		}
		w.pass(tick)
	}
	for range draw.IntN(30) {
		if !w.paused[s.place] && draw.IntN(2) == 0 {
			if c, err := w.outbox(s.place).TryClaim(8); err == nil {
				w.outbox(s.place).Commit(c)
			}
		}
		if mode == views.Persistent {
			w.sync(s.place)
		}
		step(true)
	}
	stays := slices.Clone(honest)
	if draw.IntN(2) == 0 { // a change is under way, or comes
		leaver := draw.IntN(len(honest))
		w.members[honest[leaver]].Leave()
		stays = slices.Delete(stays, leaver, leaver+1)
		honest = slices.Clone(stays)
		for range draw.IntN(3) {
			step(false)
		}
	}
	w.paused[s.place] = true
	for range 1 + draw.IntN(40) {
		s.spoil(w.members[stays[0]].View())
		step(true)
	}
	for range int(8 * failAfter / tick) {
		step(false)
	}

	v := w.members[stays[0]].View()
	for _, i := range stays {
		m := w.members[i]
		if err := m.Err(); err != nil || m.View().ID != v.ID || len(m.View().Members) != len(stays) {
			t.Errorf("node %d is in view %d with %d members, halted: %v; node %d spoils its row", i+1, m.View().ID, len(m.View().Members), err, s.place+1)
		}
		for _, k := range stays {
			numbers := got[i].from[order.NodeID(k+1)]
			if uint64(len(numbers)) != sent[k] || !consecutive(numbers) {
				t.Errorf("node %d was given %d messages of node %d, which sent %d", i+1, len(numbers), k+1, sent[k])
			}
		}
		if mode != views.Unordered && !slices.Equal(got[i].all, got[stays[0]].all) {
			t.Errorf("node %d was given another order than node %d", i+1, stays[0]+1)
		}
		for _, down := range w.downs[i] {
			violation = violation || errors.Is(down.Err, fabric.ErrViolation)
			if down.Member.ID != order.NodeID(s.place+1) && slices.Contains(stays, int(down.Member.ID)-1) {
				t.Errorf("node %d suspects node %d: %v", i+1, down.Member.ID, down.Err)
			}
		}
	}
	return violation
}

// consecutive reports whether numbers count from 0.
func consecutive(numbers []uint64) bool {
	for i, n := range numbers {
		if n != uint64(i) {
			return false
		}
	}
	return true
}
