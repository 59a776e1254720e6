package relay

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// source is an object whose commands send as much to one destination as they have bytes of
// arguments.
type source struct {
	machine.Machine
	to  machine.Destination
	seq uint64
}

func (s *source) Execute(_ *machine.Execution, args, out []byte) ([]byte, bool) {
	for range args {
		s.Send(s.to, "op", nil)
	}
	return out, false
}

func (s *source) apply(data []byte) {
	s.seq++
	s.Apply(&machine.Record{View: 1, Seq: s.seq, Sender: 1, Data: data}, s, new(machine.Result))
}

func newSource() *source {
	s := &source{to: machine.Destination{Kind: machine.ToObject, Name: "book"}}
	s.apply(machine.AppendKnows(nil, machine.Header{}, 7, []string{"op"}))
	s.apply(machine.AppendEnable(nil, machine.Header{}, 1, []string{"op"}))
	return s
}

// TestAWayConfirmsWhatWasExecutedOrDropped sends over a way that loses items, with some that no
// message carries. The destination executes an item only after the one that is said to come before
// it.
func TestAWayConfirmsWhatWasExecutedOrDropped(t *testing.T) {
	type item struct {
		before, at invoke.Cursor
		attempt    uint64
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		s, w := newSource(), &Way{}
		var flying []item
		var answers []invoke.Cursor // that have not come yet
		var last invoke.Cursor      // that the destination has executed
		all, dropped := map[invoke.Cursor]bool{}, map[invoke.Cursor]bool{}
		for step := 0; step < 300 || w.Confirmed() != s.lastOf(all); step++ {
			if step > 20_000 {
				t.Fatalf("seed %d: confirmed %v of %v", seed, w.Confirmed(), s.lastOf(all))
			}
			if w.sent.Less(w.confirmed) {
				t.Fatalf("seed %d: %v is confirmed, and %v was sent", seed, w.confirmed, w.sent)
			}
			if n := len(answers); n > 0 && rnd.IntN(3) == 0 { // an answer may overtake others
				i, before := rnd.IntN(n), w.Confirmed()
				w.Confirm(answers[i])
				if answers = slices.Delete(answers, i, i+1); w.Confirmed().Less(before) {
					t.Fatalf("seed %d: %v is confirmed after %v", seed, w.Confirmed(), before)
				}
			}
			switch rnd.IntN(6) {
			case 0:
				if step < 300 {
					s.apply(append(machine.AppendCommand(nil, machine.Header{}), make([]byte, rnd.IntN(4))...))
					for _, x := range s.Outgoing(s.to, invoke.Cursor{}) {
						if !all[x.Cursor] && rnd.IntN(8) == 0 {
							dropped[x.Cursor] = true
						}
						all[x.Cursor] = true
					}
				}
			case 1:
				for _, x := range w.Next(&s.Machine, s.to, 1+rnd.IntN(3)) {
					if dropped[x.Cursor] {
						w.Drop(x.Cursor)
						continue
					}
					flying = append(flying, item{w.Before(), x.Cursor, w.Attempt()})
					w.Sent(x.Cursor)
				}
			case 2, 3:
				if len(flying) == 0 {
					continue
				}
				x := flying[0]
				flying = flying[1:]
				if rnd.IntN(6) == 0 || last.Less(x.before) {
					w.Lose(x.attempt, errors.New("lost"))
					continue
				}
				if last.Less(x.at) {
					for c := range all { // RO8
						if last.Less(c) && c.Less(x.at) && !dropped[c] {
							t.Fatalf("seed %d: %v is executed after %v, and %v is not", seed, x.at, last, c)
						}
					}
					last = x.at
				}
				answers = append(answers, x.at)
			case 4:
				if len(answers) == 0 {
					_ = w.Restart()
				}
			case 5:
				for c := range all {
					if last.Less(c) && !w.Confirmed().Less(c) && !dropped[c] {
						t.Fatalf("seed %d: %v is confirmed, and the last one executed is %v", seed, w.Confirmed(), last)
					}
				}
				if rnd.IntN(3) == 0 {
					s.apply(machine.AppendHanded(nil, machine.Header{}, s.to, w.Confirmed()))
				}
			}
		}
	}
}

func (s *source) lastOf(all map[invoke.Cursor]bool) (last invoke.Cursor) {
	for c := range all {
		if last.Less(c) {
			last = c
		}
	}
	return last
}
