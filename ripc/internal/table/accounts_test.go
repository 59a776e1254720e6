package table

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/ripc/internal/pair"
)

// party is a connection in a world of accounts.
type party struct {
	member Member[*party]
	bytes  int64 // that are counted for it
	wants  int64 // that it did not get, and for which it rests; 0: it goes on
	gone   bool
}

// runAccounts lets parties connect, take memory, give it back and leave, in an order from a seed. A
// party that gets no memory rests until it is told to look again.
func runAccounts(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	t := Accounts[*party]{Limits: Limits{Peers: 6, PeersPerAccount: 2, Bytes: 100 + r.Int64N(100), BytesPerAccount: 20 + r.Int64N(80)}}
	var all []*party
	take := func(p *party, n int64) {
		if p.wants = 0; t.Take(&p.member, n) {
			p.bytes += n
		} else {
			p.wants = n
		}
	}
	refund := func(p *party, n int64) {
		p.bytes -= n
		again := append([]*party(nil), t.Refund(p.member.Account, n)...)
		for _, other := range again {
			take(other, other.wants)
		}
	}
	for step := range 400 {
		switch op := r.IntN(8); {
		case op == 0:
			name, called := string(rune('a'+r.IntN(4))), r.IntN(2) == 0
			if t.Admits(name, 10, called) == nil {
				p := &party{bytes: 10}
				t.Enter(&p.member, p, name, 10, called)
				all = append(all, p)
			}
		case len(all) == 0:
		case op == 1: // it ends: what it had in use is given back later
			if p := all[r.IntN(len(all))]; !p.gone {
				p.gone, p.wants = true, 0
				t.Leave(&p.member)
			}
		case op < 5:
			if p := all[r.IntN(len(all))]; !p.gone && p.wants == 0 {
				take(p, 1+r.Int64N(20))
			}
		default:
			if p := all[r.IntN(len(all))]; p.bytes > 0 {
				refund(p, 1+r.Int64N(p.bytes))
			}
		}
		if err := checkAccounts(&t, all); err != nil {
			return fmt.Errorf("seed %d, step %d: %w", seed, step, err)
		}
	}
	return nil
}

func checkAccounts(t *Accounts[*party], all []*party) error {
	sums, total := map[*Account[*party]]int64{}, int64(0)
	for _, p := range all {
		sums[p.member.Account] += p.bytes
		total += p.bytes
	}
	if total != t.bytes || total > t.Limits.Bytes {
		return fmt.Errorf("EP1: %d bytes are counted, %d are in use, of %d", t.bytes, total, t.Limits.Bytes)
	}
	for a, n := range sums {
		if a.Bytes() != n || n > t.Limits.BytesPerAccount {
			return fmt.Errorf("EP1: %d bytes are counted for %s, %d are in use, of %d", a.Bytes(), a.Name, n, t.Limits.BytesPerAccount)
		}
		if known := t.Find(a.Name) == a; known != (a.peers > 0 || n > 0) {
			return fmt.Errorf("EP1: account %s with %d peers and %d bytes: known %v", a.Name, a.peers, n, known)
		}
	}
	for _, a := range t.all {
		for _, m := range a.starved {
			if m.Peer.gone || !m.starved {
				return fmt.Errorf("EP2: a peer of %s waits for memory: %v, and has left: %v", a.Name, m.starved, m.Peer.gone)
			}
		}
	}
	for _, p := range all {
		if p.wants > 0 && t.Fits(p.member.Account, p.wants) == nil {
			return fmt.Errorf("EP2: a peer of %s rests, which may have the %d bytes that it waits for", p.member.Account.Name, p.wants)
		}
	}
	return nil
}

// What is counted is what is in use, within the limits, and no peer rests for which there is memory
// (EP1, EP2).
func TestMemoryIsCountedAndNoPeerRestsForWhichThereIsSome(t *testing.T) {
	for seed := range testutil.Seeds[uint64](300, 20000) {
		if err := runAccounts(seed); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPartyWithTooManyConnectionsIsNotAdmitted(t *testing.T) {
	a := Accounts[int]{Limits: Limits{Peers: 3, PeersPerAccount: 1, Bytes: 100, BytesPerAccount: 50}}
	var one, two, three Member[int]
	a.Enter(&one, 1, "x", 10, true)
	for _, c := range []struct {
		name   string
		bytes  int64
		called bool
		admits bool
	}{{"x", 1, true, false}, {"x", 40, false, true}, {"x", 41, false, false}, {"y", 50, true, true}, {"y", 51, true, false}} {
		if err := a.Admits(c.name, c.bytes, c.called); (err == nil) != c.admits || err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	a.Enter(&two, 2, "x", 0, false)
	a.Enter(&three, 3, "y", 0, false)
	if err := a.Admits("z", 0, false); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if all, called := one.Account.Peers(); all != 2 || called != 1 || a.Len() != 2 {
		t.Error(all, called, a.Len())
	}
}

// checkAnswers pushes, pops and drops answers at random.
func checkAnswers(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	var q Answers
	var want []Answer
	bytes := 0
	for id := range uint64(300) {
		a := Answer{Kind: pair.Reply, ID: id, Data: make([]byte, r.IntN(40000))}
		if r.IntN(3) == 0 {
			a.Kind, a.Channel = pair.Message, 1+r.IntN(3)
		}
		switch r.IntN(8) {
		case 0:
			freed, channel := 0, 1+r.IntN(3)
			left := want[:0:0]
			for _, o := range want {
				if o.Kind == pair.Message && o.Channel == channel {
					freed += o.Bytes()
				} else {
					left = append(left, o)
				}
			}
			want, bytes = left, bytes-freed
			if got := q.Drop(channel); got != freed {
				return fmt.Errorf("EP7: %d bytes of channel %d were dropped, not %d", got, channel, freed)
			}
		case 1, 2:
			if len(want) > 0 {
				if q.First().ID != want[0].ID {
					return fmt.Errorf("EP7: answer %d comes before %d", q.First().ID, want[0].ID)
				}
				bytes -= q.Pop()
				want = want[1:]
			}
		default:
			if q.Fits(&a) {
				q.Push(a)
				want, bytes = append(want, a), bytes+a.Bytes()
			}
		}
		if q.Bytes() != bytes || q.Len() != len(want) || bytes > MaxAnswers {
			return fmt.Errorf("EP7: %d answers of %d bytes, want %d of %d", q.Len(), q.Bytes(), len(want), bytes)
		}
	}
	if q.Clear() != bytes || q.Len() != 0 {
		return errors.New("EP7: answers are left")
	}
	return nil
}

func TestAnswersWaitInOrderAndWithinTheirBound(t *testing.T) {
	for seed := range uint64(20) {
		if err := checkAnswers(seed); err != nil {
			t.Fatal(seed, err)
		}
	}
}

// checkLife keeps frames and gives them back, before and after the end of a pair.
func checkLife(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 3))
	var l Life
	kept, ended, freed := 0, false, 0
	for range 50 {
		switch op := r.IntN(10); {
		case op == 0:
			if l.End() == ended {
				return errors.New("EP8: a pair ends once")
			}
			ended = true
		case op < 5 && !ended:
			l.Keep()
			kept++
		case kept > 0:
			l.GiveBack()
			kept--
		}
		if l.Free() {
			freed++
		}
		if want := ended && kept == 0; freed > 1 || (freed == 1) != want && freed != 1 || freed == 1 && !want {
			return fmt.Errorf("EP8: freed %d times with %d frames in use, ended %v", freed, kept, ended)
		}
	}
	return nil
}

func TestThePairIsFreedOnceWhenNoFrameIsInUse(t *testing.T) {
	for seed := range uint64(100) {
		if err := checkLife(seed); err != nil {
			t.Fatal(seed, err)
		}
	}
}
