package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/order"
)

// A2, A4: power fails at every call that changes the store, and what was there before is there
// afterwards, or what was wanted.
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

// The fragments of a record have together as many bytes as its header says: neither fewer nor more.
func TestFragmentsOfAnotherLengthAreDamage(t *testing.T) {
	records := history(2, 3, 300)
	records[1].Data = bytes.Repeat([]byte{1}, 5000)
	clean := newMemory()
	write(t, New(small), clean, records, 2)
	for _, more := range []int{-1, 0, 1} {
		s := clean.copy()
		for i := range s.logs {
			h, body, senders, err := decodeHeader(s.logs[i].Data)
			if err != nil {
				t.Fatal(err)
			}
			if h.Kind != Fragment {
				continue
			}
			h.Total += uint64(more)
			s.logs[i].Data = append(bytes.Clone(s.logs[i].Data[:bodyAt(h.Sealed)]), body...)
			s.logs[i].Data = encodeHeader(s.logs[i].Data, &h, []order.NodeID{order.NodeID(binary.LittleEndian.Uint64(senders))})
		}
		r, err := open(t, s).Read(1)
		var d *Damage
		if more == 0 && (err != nil || !bytes.Equal(r.Data, records[1].Data)) || more != 0 && !errors.As(err, &d) {
			t.Errorf("%d more bytes are announced: %d, %v", more, len(r.Data), err)
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

// No record that a snapshot stands for is read, wherever in a block the snapshot's version is, and
// all later records are read. This holds wherever the drop of the blocks is interrupted, and for a
// process that only reads.
func TestALogBeginsBehindItsSnapshot(t *testing.T) {
	records, s := history(6, 30, 1500), newMemory()
	write(t, New(small), s, records, 6)
	for at := range records {
		for fail := 1; ; fail++ {
			m := s.copy()
			b := open(t, m)
			m.calls, m.fail = 0, fail
			err := b.BeginBehind(records[at])
			behind(t, b, records, at) // what is read does not depend on what is dropped
			read, rerr := ReadBook(m, "test")
			if rerr != nil {
				t.Fatal(rerr)
			}
			again := open(t, m.again())
			for _, b := range []*Book{read, again} {
				if err := b.BeginBehind(records[at]); err != nil {
					t.Fatal(err)
				}
				behind(t, b, records, at)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) || fail > 3 {
				t.Fatalf("after record %d, call %d: %v", at, fail, err)
			}
		}
	}
}

// behind checks a book that begins behind one of the records.
func behind(t *testing.T, b *Book, records []Record, at int) {
	t.Helper()
	holds(t, b, records[at+1:])
	if have, ok := b.Snapshot(); !ok || have.Number != uint64(at) || have.Data != nil {
		t.Fatalf("the snapshot is of %v", have)
	}
	if v, now, err := b.Before(); v != records[at].Version || now != records[at].Time || err != nil {
		t.Fatalf("in front of it is %v at %v, %v", v, now, err)
	}
	r, some := b.Oldest()
	if some != (at+1 < len(records)) || some && (r.Number != uint64(at+1) || r.Version != records[at+1].Version || r.Time != records[at+1].Time) {
		t.Fatalf("the first one is %v, %v", r, some)
	}
	for _, v := range []order.Version{records[0].Version, records[at].Version} {
		if _, err := b.Find(v); !errors.Is(err, ErrTruncated) {
			t.Fatalf("version %v: %v", v, err)
		}
		if err := b.Reaches(v); !errors.Is(err, ErrTruncated) {
			t.Fatalf("version %v: %v", v, err)
		}
	}
	if _, err := b.FindTime(records[at].Time); !errors.Is(err, ErrTruncated) {
		t.Fatal(err)
	}
}

// The last block stays, and with it all fragments of its record: a log cannot begin in the middle
// of one.
func TestOfALastRecordInFragmentsNoneIsDropped(t *testing.T) {
	records, s := history(8, 10, 300), newMemory()
	records[9].Data = make([]byte, 20_000)
	write(t, New(small), s, records, 8)
	for name, drop := range map[string]func(*Book) error{
		"a drop":     func(b *Book) error { return b.DropBefore(10) },
		"a snapshot": func(b *Book) error { return b.BeginBehind(records[9]) },
	} {
		m := s.copy()
		if err := drop(open(t, m)); err != nil {
			t.Fatal(name, err)
		}
		holds(t, open(t, m), records[9:])
	}
}

// What a cut leaves of a log that begins behind a snapshot does, too, and a later snapshot takes
// its place.
func TestALogThatBeginsBehindASnapshotIsCut(t *testing.T) {
	records, s := history(7, 60, 1500), newMemory()
	write(t, New(small), s, records, 7)
	for at := 0; at < len(records); at += 7 {
		for number := at + 1; number <= len(records); number += 1 + (number-at)/2 {
			m := s.copy()
			b := open(t, m)
			for _, snapshot := range []int{at / 2, at} {
				if err := b.BeginBehind(records[snapshot]); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.CutFrom(uint64(number)); err != nil {
				t.Fatal(err)
			}
			j := New(small)
			j.Restart(b.End())
			behind(t, b, records[:number], at)
			write(t, j, m, records[number:], 8)
			b = open(t, m)
			if err := b.BeginBehind(records[at]); err != nil {
				t.Fatal(err)
			}
			behind(t, b, records, at)
		}
	}
}

// Of a log that ends before what its snapshot stands for nothing is left.
func TestALogThatEndsBeforeItsSnapshotGoesOnBehindIt(t *testing.T) {
	records, s := history(8, 40, 1500), newMemory()
	write(t, New(small), s, records, 8)
	for _, number := range []int{0, 1, 20, 39} {
		for fail := 1; ; fail++ {
			m := s.copy()
			b := open(t, m)
			if err := b.CutFrom(uint64(number)); err != nil {
				t.Fatal(err)
			}
			read, err := ReadBook(m, "test")
			if err == nil {
				err = read.BeginBehind(records[39])
			}
			if err != nil {
				t.Fatal(err)
			}
			behind(t, read, records, 39)
			m.calls, m.fail = 0, fail
			err = b.BeginBehind(records[39])
			b = open(t, m.again())
			if again := b.BeginBehind(records[39]); again != nil {
				t.Fatal(again)
			}
			behind(t, b, records, 39)
			if e := b.End(); e.Records != 40 || e.Version != records[39].Version || e.Time != records[39].Time {
				t.Fatalf("%+v", e)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) || fail > 6 {
				t.Fatalf("cut to %d, call %d: %v", number, fail, err)
			}
		}
	}
}
