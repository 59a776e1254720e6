//go:build linux

package verbs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
)

// A storm has three members write to each other in random steps over the fake network.
//
//	line 1, word 0     sent: bytes of the stream that are written
//	line 2, word r     seen[r]: bytes of rank r that the owner has checked
//	lines 3 to 42      the round, stored and pushed line by line: a later line is never ahead of an earlier one
//	the bytes          a ring of the stream
const (
	stormLines = 43
	stormRing  = 40 << 10
	firstRound = 3
)

var stormShape = fabric.RowShape{ControlBytes: stormLines * fabric.LineBytes, RowBytes: stormLines*fabric.LineBytes + stormRing}

// stormer is a member's part.
type stormer struct {
	*node
	random   *rand.Rand
	all      []order.Rank
	sent     uint64
	seen     []uint64
	round    uint64
	line     int
	frozen   map[order.Rank][]byte
	failures map[order.Rank]int
}

func patternAt(r order.Rank, at uint64) byte { return byte(at*31 + at>>8 + uint64(r)*101 + 1) }

func (s *stormer) load(r order.Rank, off int) uint64 {
	return atomic.LoadUint64(fabric.Word(s.table.Row(r), off))
}

func (s *stormer) store(off int, v uint64) {
	atomic.StoreUint64(fabric.Word(s.own, off), v)
	s.table.PushLine(s.all, off&^(fabric.LineBytes-1))
}

// produce writes some of the stream, as far as all members that are not frozen have checked it.
func (s *stormer) produce(total uint64) {
	least := s.sent
	for _, r := range s.all {
		if r != s.self && !s.table.Frozen(r) {
			least = min(least, s.load(r, 2*fabric.LineBytes+8*int(s.self)))
		}
	}
	n := min(uint64(1+s.random.IntN(stormRing/2)), stormRing-(s.sent-least), total-s.sent)
	if n == 0 {
		return
	}
	bytes := s.own[stormShape.ControlBytes:]
	for at := s.sent; at < s.sent+n; at++ {
		bytes[at%stormRing] = patternAt(s.self, at)
	}
	start := s.sent % stormRing
	k := min(n, stormRing-start)
	s.table.Push(s.all, stormShape.ControlBytes+int(start), int(k))
	if n > k {
		s.table.Push(s.all, stormShape.ControlBytes, int(n-k))
	}
	s.sent += n
	s.store(fabric.LineBytes, s.sent)
}

// write stores the round in the next lines.
func (s *stormer) write() {
	for range 1 + s.random.IntN(2*stormLines) {
		if s.line == 0 {
			s.round++
			s.line = firstRound
		}
		s.store(s.line*fabric.LineBytes, s.round)
		s.line = (s.line + 1) % stormLines
	}
}

// check looks at all rows (F1, F2, F4, QP1).
func (s *stormer) check() error {
	for _, r := range s.all {
		if r == s.self {
			continue
		}
		row := s.table.Row(r)
		if was, is := s.frozen[r]; is && !bytes.Equal(was, row) {
			return fmt.Errorf("F4: the row of rank %d changed at rank %d after it was frozen", r, s.self)
		}
		last := s.load(r, firstRound*fabric.LineBytes)
		for l := firstRound + 1; l < stormLines; l++ {
			v := s.load(r, l*fabric.LineBytes)
			if v > last {
				return fmt.Errorf("F2: rank %d sees round %d in line %d of rank %d, and %d in the one before", s.self, v, l, r, last)
			}
			last = v
		}
		sent, ring := s.load(r, fabric.LineBytes), row[stormShape.ControlBytes:]
		for ; s.seen[r] < sent; s.seen[r]++ {
			if at := s.seen[r]; ring[at%stormRing] != patternAt(r, at) {
				return fmt.Errorf("F2: sent of rank %d is %d at rank %d, byte %d is wrong", r, sent, s.self, at)
			}
		}
		if off := 2*fabric.LineBytes + 8*int(r); atomic.LoadUint64(fabric.Word(s.own, off)) != sent {
			s.store(off, sent)
		}
	}
	return nil
}

// freeze freezes the row of a peer, and uses the own bytes again: the stream goes on where no
// frozen peer has to see it.
func (s *stormer) freeze(r order.Rank) {
	s.table.Freeze(r)
	s.frozen[r] = slices.Clone(s.table.Row(r))
	if s.table.Frozen((s.self+1)%3) && s.table.Frozen((s.self+2)%3) {
		for i := range s.own[stormShape.ControlBytes:] {
			s.own[stormShape.ControlBytes+i] = 0xee
		}
	}
}

// storm runs a storm from a seed and returns what is wrong.
func storm(t testing.TB, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 1))
	o := fake.Options{Seed: seed, SlowSends: random.IntN(3) == 0}
	breaks, freezes := random.IntN(4) == 0, random.IntN(3) == 0
	if breaks {
		o.BreakOneIn = 3000
	}
	w := newWorld(t, 3, stormShape, o)
	defer w.close(t)
	var all []*stormer
	for _, n := range w.nodes {
		all = append(all, &stormer{node: n, random: random, all: []order.Rank{0, 1, 2}, seen: make([]uint64, 3),
			frozen: map[order.Rank][]byte{}, failures: map[order.Rank]int{}})
	}
	total := uint64(random.IntN(4 * stormRing))
	for steps := 0; ; steps++ {
		s := all[random.IntN(3)]
		if steps > 300000 {
			return fmt.Errorf("nothing moves: rank %d sent %d of %d, saw %v", s.self, s.sent, total, s.seen)
		}
		s.table.Poll()
		if err := s.check(); err != nil {
			return err
		}
		if random.IntN(4) == 0 {
			s.produce(total)
		}
		if s.round < 40 && random.IntN(4) == 0 {
			s.write()
		}
		if random.IntN(2) == 0 {
			s.table.Flush()
		}
		if r := order.Rank(random.IntN(3)); freezes && r != s.self && random.IntN(200) == 0 {
			s.freeze(r)
		}
		for _, f := range s.table.Failures() {
			if s.failures[f.Rank]++; s.failures[f.Rank] > 1 {
				return fmt.Errorf("F5: rank %d sees a second failure of rank %d: %w", s.self, f.Rank, f.Err)
			}
			if !breaks && !freezes {
				return fmt.Errorf("rank %d: rank %d failed: %w", s.self, f.Rank, f.Err)
			}
			s.frozen[f.Rank] = slices.Clone(s.table.Row(f.Rank))
		}
		if steps%16 == 0 && finished(all, total) {
			return nil
		}
	}
}

// finished reports whether every member has seen everything of those that it has not frozen, and
// that have not frozen it.
func finished(all []*stormer, total uint64) bool {
	for _, s := range all {
		for _, o := range all {
			if o == s || s.table.Frozen(o.self) || o.table.Frozen(s.self) {
				continue
			}
			if o.sent != total || s.seen[o.self] != total || o.round < 40 || s.load(o.self, (stormLines-1)*fabric.LineBytes) < 39 {
				return false
			}
		}
	}
	return true
}

func TestStorm(t *testing.T) {
	Seeds(t, 40, 150, storm)
}

// litmus has two members write and check guards in random steps over the fake network.
func litmus(t testing.TB, seed uint64) error {
	random := rand.New(rand.NewPCG(seed, 4))
	w := newWorld(t, 2, fabrictest.GuardsShape, fake.Options{Seed: seed, SlowSends: random.IntN(3) == 0})
	defer w.close(t)
	rounds := 1 + random.Uint64N(500)
	parts := [2]fabrictest.Guards{{Rounds: rounds}, {Rounds: rounds}}
	var done [2]bool
	for range 300_000 {
		i := random.IntN(2)
		table := w.nodes[i].table
		for range random.IntN(3) {
			table.Poll()
		}
		var err error
		if done[i], err = parts[i].Step(table); err != nil {
			return fmt.Errorf("rank %d: %w", i, err)
		}
		if random.IntN(3) == 0 {
			table.Flush()
		}
		if f := table.Failures(); len(f) > 0 {
			return fmt.Errorf("rank %d: %w", i, f[0].Err)
		}
		if done[0] && done[1] {
			return nil
		}
	}
	return errors.New("nothing moves")
}

func TestGuardsOvertakeNothing(t *testing.T) { Seeds(t, 40, 400, litmus) }
