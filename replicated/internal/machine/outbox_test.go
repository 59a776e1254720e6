package machine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// target is what sender sends to in these tests.
var target = machine.Destination{Kind: machine.ToObject, Name: "target"}

// sender is an object whose commands send as many commands to target as their argument has bytes.
type sender struct {
	machine.Machine
	seq, sent uint64
}

func (s *sender) Execute(_ *machine.Execution, args, out []byte) ([]byte, bool) {
	for range args {
		s.sent++
		if !s.Send(target, "op", fmt.Append(nil, s.sent)) {
			panic("the outbox is full")
		}
	}
	return out, false
}

func (s *sender) apply(view uint64, data []byte) {
	s.seq++
	s.Apply(&machine.Record{View: view, Seq: s.seq, Sender: 1, Data: data}, s, new(machine.Result))
}

// TestRO8RO9WhatAnObjectSendsIsExecutedOnceAndInOrder lets relays that come and go hand over what
// an object sent. A relay begins with what its copy of the sender has; relays may be at work at the
// same time. What a relay has in flight is lost with the relay, or refused while the relay goes on:
// then the target refuses what comes after it. Both objects are given to new members now and then.
func TestRO8RO9WhatAnObjectSendsIsExecutedOnceAndInOrder(t *testing.T) {
	type item struct {
		machine.Sent
		before invoke.Cursor
	}
	type relay struct {
		at    invoke.Cursor
		route []item // in flight, in order
	}
	refused := 0
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		s, o := &sender{}, enabled(t)
		s.apply(1, machine.AppendKnows(nil, machine.Header{}, 7, []string{"op"}))
		s.apply(1, machine.AppendEnable(nil, machine.Header{}, 1, []string{"op"}))
		var relays []*relay
		confirmed := invoke.Cursor{}
		deliver := func(r *relay) {
			x := r.route[0]
			r.route = r.route[1:]
			data := append(machine.AppendForwarded(nil, machine.Header{}, "sender", x.before, x.Cursor), x.Data...)
			switch status := o.apply(record(1, 1, data)).Status; status {
			case invoke.Done, invoke.Again:
			case invoke.Early:
				refused++
				r.at = invoke.Cursor{}
				return
			default:
				t.Fatalf("seed %d: %v", seed, status)
			}
			if confirmed.Less(x.Cursor) {
				confirmed = x.Cursor
			}
		}
		view := uint64(1)
		for step := 0; step < 400 || s.sent > uint64(len(o.executed)); step++ {
			if step > 100_000 {
				t.Fatalf("seed %d: %d of %d arrived", seed, len(o.executed), s.sent)
			}
			switch rnd.IntN(10) {
			case 0, 1:
				if step < 400 {
					s.apply(view, append(machine.AppendCommand(nil, machine.Header{}), make([]byte, rnd.IntN(4))...))
				}
			case 2: // another member relays, maybe while the one before still does
				if rnd.IntN(10) > 0 && len(relays) > 0 {
					continue
				}
				if len(relays) > rnd.IntN(3) {
					relays = relays[1:] // and what it had on its way is lost
				}
				relays = append(relays, &relay{})
				view++
			case 3:
				for _, r := range relays { // the target's shard refuses what is in flight: its sender has moved
					if rnd.IntN(4) == 0 {
						r.route = nil
					}
				}
			case 4:
				s.apply(view, machine.AppendHanded(nil, machine.Header{}, target, confirmed))
			case 5:
				var again sender
				if err := again.Decode(s.Append(nil)); err != nil {
					t.Fatal(err)
				}
				again.seq, again.sent = s.seq, s.sent
				var late object
				if err := late.Decode(o.Append(nil)); err != nil {
					t.Fatal(err)
				}
				late.executed, late.position = o.executed, o.position
				s, o = &again, &late
			default:
				if len(relays) == 0 {
					continue
				}
				r := relays[rnd.IntN(len(relays))]
				if next := s.Outgoing(target, r.at); len(next) > 0 && rnd.IntN(2) == 0 {
					before := r.at
					if len(next) == len(s.Outgoing(target, invoke.Cursor{})) {
						before = invoke.Cursor{}
					}
					r.route = append(r.route, item{next[0], before})
					r.at = next[0].Cursor
				} else if len(r.route) > 0 {
					deliver(r)
				}
			}
		}
		if len(o.executed) == 0 {
			t.Fatalf("seed %d: nothing was sent", seed)
		}
		for i, x := range o.executed {
			if want := fmt.Sprintf("1:%d", i+1); x != want {
				t.Fatalf("seed %d: command %d is %s, want %s", seed, i, x, want)
			}
		}
		s.apply(view, machine.AppendHanded(nil, machine.Header{}, target, confirmed))
		if left := s.Destinations(nil); len(left) != 0 {
			t.Fatalf("seed %d: %v has something to get", seed, left)
		}
	}
	if refused == 0 {
		t.Error("the target refused nothing")
	}
}

func TestAnOutboxSharesItsRoomAmongItsDestinations(t *testing.T) {
	var m machine.Machine
	m.Apply(&machine.Record{View: 1, Seq: 5, Data: machine.AppendTouch(nil, machine.Header{}, nil)}, nil, new(machine.Result))
	var all []machine.Destination
	for i, kind := range []machine.DestinationKind{machine.ToTask, machine.ToObject, machine.ToSubgroup} {
		to := machine.Destination{Kind: kind, Name: fmt.Sprint(i)}
		if !m.Send(to, "op", make([]byte, machine.MaxOutboxBytes/4)) {
			t.Fatalf("the outbox is full after %d", i)
		}
		all = append(all, to)
	}
	if m.Send(all[0], "op", make([]byte, machine.MaxOutboxBytes/4)) {
		t.Error("more is kept than the bound allows")
	}
	if got := m.Destinations(nil); !slices.Equal(got, []machine.Destination{all[1], all[2], all[0]}) {
		t.Errorf("destinations %v", got)
	}
	for i, to := range all {
		if got := m.Outgoing(to, invoke.Cursor{}); len(got) != 1 || got[0].Cursor != (invoke.Cursor{View: 1, Seq: 5, Index: uint64(i + 1)}) {
			t.Errorf("%v: %v", to, got)
		}
	}
	m.Apply(&machine.Record{View: 1, Seq: 6, Data: machine.AppendHanded(nil, machine.Header{}, all[0], invoke.Cursor{View: 1, Seq: 5, Index: 3})}, nil, new(machine.Result))
	if got := m.Destinations(nil); len(got) != 2 || !m.Send(all[0], "op", make([]byte, machine.MaxOutboxBytes/4)) {
		t.Errorf("after one was handed over: %v", got)
	}
	var b machine.Machine
	if err := b.Decode(m.Append(nil)); err != nil || !bytes.Equal(b.Append(nil), m.Append(nil)) {
		t.Errorf("decoded: %v", err)
	}
}
