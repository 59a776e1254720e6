package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/order"
)

// A2, A4: power fails at every call that changes the store, and what was there before is there afterwards, or what was wanted.
func TestACutThatIsInterruptedIsDoneAsAWholeOrNotAtAll(t *testing.T) {
	records, s := history(5, 60, 1500), newMemory()
	write(t, New(small), s, records, 5)
	for number := uint64(0); number <= 60; number++ {
		for fail := 1; ; fail++ {
			m := s.copy()
			b := open(t, m)
			m.calls, m.fail = 0, fail
			err := b.CutFrom(number)
			if b = open(t, m.again()); int(b.Count()) != len(records) || err == nil {
				holds(t, b, records[:number])
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) || fail > 10 {
				t.Fatalf("cut at %d, call %d: %v", number, fail, err)
			}
		}
	}
}

// forgetful is a store that cannot say whether a cut was noted.
type forgetful struct{ *memory }

var errForgot = errors.New("not found")

func (forgetful) Get([]byte) ([]byte, error) { return nil, errForgot }

func TestALogIsNotOpenedIfNobodyKnowsWhetherACutWasInterrupted(t *testing.T) {
	if _, _, err := OpenBook(forgetful{newMemory()}, "log"); !errors.Is(err, errForgot) {
		t.Fatal(err)
	}
}

func TestALogGoesOnBehindACut(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		records, s := history(seed, 80, 1500), newMemory()
		write(t, New(small), s, records, seed)
		b := open(t, s)
		at := r.Uint64N(80)
		if err := b.CutFrom(at); err != nil {
			t.Fatal(err)
		}
		j := New(small)
		j.Restart(b.End())
		write(t, j, s, records[at:], seed+1)
		holds(t, open(t, s), records)
	}
}

func TestWhatIsDroppedFromTheFrontIsWholeBlocksAndNumbersStay(t *testing.T) {
	for seed := range uint64(30) {
		records, s := history(seed, 80, 1500), newMemory()
		write(t, New(small), s, records, seed)
		b := open(t, s)
		for number := uint64(0); number <= 80; number += 7 {
			if err := b.DropBefore(number); err != nil {
				t.Fatal(err)
			}
			origin := b.Origin()
			if origin > number || b.Count() == 0 {
				t.Fatalf("dropped before %d: begins at %d with %d", number, origin, b.Count())
			}
			holds(t, b, records[origin:])
			holds(t, open(t, s), records[origin:])
			if origin > 0 {
				if _, err := b.Find(records[origin-1].Version); !errors.Is(err, ErrTruncated) {
					t.Fatalf("what was dropped: %v", err)
				}
				if before, _, _ := b.Before(); before != records[origin-1].Version {
					t.Fatalf("before %d is %v", origin, before)
				}
			}
		}
	}
}

func TestALogThatStartsAgainGoesOnBehindARecordThatIsElsewhere(t *testing.T) {
	records, s := history(1, 50, 500), newMemory()
	write(t, New(small), s, records, 1)
	at := End{Records: 100, Version: order.Version{View: 90}, Time: 9000}
	for fail := 1; ; fail++ {
		m := s.copy()
		b := open(t, m)
		m.calls, m.fail = 0, fail
		err := b.Restart(at)
		b = open(t, m.again())
		if err != nil && b.Count() == 50 {
			continue
		}
		if e := b.End(); e.Records != 100 || e.Version != at.Version || e.Time != at.Time || b.Count() != 0 {
			t.Fatalf("call %d: %+v", fail, e)
		}
		j := New(Config{After: b.End()})
		r := Record{Version: order.Version{View: 90, Seq: 1}}
		j.Append(&r)
		flush(j, m)
		if r.Number != 100 || r.Time != 9001 {
			t.Fatalf("%v", r)
		}
		holds(t, open(t, m), []Record{r})
		if err == nil {
			return
		}
	}
}

// A3: of a record in fragments all are there, or it is dropped and that is said.
func TestA3ARecordOfWhichSomeFragmentsAreMissingIsDroppedAndReported(t *testing.T) {
	records := history(2, 10, 300)
	records[9].Data = make([]byte, 20_000)
	s := newMemory()
	write(t, New(small), s, records, 2)
	whole := len(s.logs)
	for missing := 1; missing < 20; missing++ {
		m := s.copy()
		m.logs = m.logs[:whole-missing]
		b, repaired, err := OpenBook(m, "test")
		if err != nil {
			t.Fatal(err)
		}
		holds(t, b, records[:9])
		if repaired.Record != 9 || repaired.Blocks == 0 || repaired.Version != records[9].Version {
			t.Fatalf("reported %+v", repaired)
		}
	}
}

// A5: a byte that changed is a Damage, and nothing is dropped for it unasked.
func TestDamageIsNamedAndCutOnlyWhenThatIsWanted(t *testing.T) {
	records, clean := history(4, 60, 900), newMemory()
	write(t, New(small), clean, records, 4)
	for i := range clean.logs {
		for _, at := range []int{0, 4, 60, headerBytes + 1, headerBytes + 30, len(clean.logs[i].Data) - 1} {
			t.Run(fmt.Sprintf("block=%d/byte=%d", i, at), func(t *testing.T) {
				s := clean.copy()
				s.logs[i].Data = append([]byte(nil), s.logs[i].Data...)
				s.logs[i].Data[min(at, len(s.logs[i].Data)-1)] ^= 0x10
				b, _, err := OpenBook(s, "test")
				if err == nil {
					for r, e := range b.Records(0) {
						if err = e; e == nil {
							same(t, r, records[r.Number])
						}
					}
				}
				var d *Damage
				if errors.Is(err, ErrNewerFormat) {
					return
				}
				if !errors.As(err, &d) || d.Block != uint64(i+1) {
					t.Fatalf("block %d: %v", i+1, err)
				}
				rep, err := Repair(s, "test")
				if err != nil {
					t.Fatal(err)
				}
				holds(t, open(t, s), records[:rep.Record])
				if len(s.logs) > i+1 || rep.Blocks < len(clean.logs)-i-1 {
					t.Fatalf("%d blocks are left of %d, and block %d is damaged: %+v", len(s.logs), len(clean.logs), i+1, rep)
				}
			})
		}
	}
}
