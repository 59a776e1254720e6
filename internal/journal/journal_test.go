package journal

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/order"
)

// history makes records like the records of a log: gaps in the positions, views that change,
// senders that take turns.
func history(seed uint64, count, bytesMax int) []Record {
	r := rand.New(rand.NewPCG(seed, 1))
	at, now := order.Version{View: 1}, order.Time(1000)
	records := make([]Record, count)
	for i := range records {
		if r.IntN(20) == 0 {
			at = order.Version{View: at.View + order.ViewID(1+r.IntN(2)), Seq: order.Seq(r.IntN(3))}
		} else {
			at.Seq += order.Seq(1 + r.IntN(3))
		}
		now += order.Time(r.IntN(4)) // it stands still now and then; the journal's clock does not
		data := make([]byte, r.IntN(bytesMax+1))
		for k := range data {
			data[k] = byte(r.Uint32())
		}
		records[i] = Record{Version: at, Time: now, Sender: order.NodeID(1 + r.IntN(5)), Data: data}
	}
	return records
}

// write appends all records and stores a group after some of them.
func write(t testing.TB, j *Journal, s Store, records []Record, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range records {
		for !j.Append(&records[i]) {
			if !flush(j, s) {
				t.Fatalf("record %d: no room, and nothing to write", i)
			}
		}
		if r.IntN(4) == 0 {
			flush(j, s)
		}
	}
	for flush(j, s) {
	}
}

func flush(j *Journal, s Store) bool {
	logs := j.Next()
	if logs == nil {
		return false
	}
	j.Written(s.StoreLogs(logs))
	return true
}

func open(t testing.TB, s Store) *Book {
	t.Helper()
	b, _, err := OpenBook(s, "test")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// holds checks that a book reads exactly these records, by every way that there is.
func holds(t testing.TB, b *Book, want []Record) {
	t.Helper()
	if int(b.Count()) != len(want) {
		t.Fatalf("%d records, want %d", b.Count(), len(want))
	}
	n := 0
	for r, err := range b.Records(b.Origin()) {
		if err != nil {
			t.Fatal(err)
		}
		if n >= len(want) {
			t.Fatalf("more than %d records", len(want))
		}
		same(t, r, want[n])
		n++
	}
	if n != len(want) {
		t.Fatalf("the loop ended after %d of %d", n, len(want))
	}
	for i, w := range want {
		number, err := b.Find(w.Version)
		if err != nil || number != w.Number {
			t.Fatalf("record %d: Find(%v) = %d, %v", i, w.Version, number, err)
		}
		if number, err = b.FindTime(w.Time); err != nil || number != w.Number {
			t.Fatalf("record %d: FindTime(%d) = %d, %v", i, w.Time, number, err)
		}
		r, err := b.Read(number)
		if err != nil {
			t.Fatal(err)
		}
		same(t, r, w)
	}
}

func same(t testing.TB, r, w Record) {
	t.Helper()
	if r.Version != w.Version || r.Time != w.Time || r.Sender != w.Sender || r.Number != w.Number || !bytes.Equal(r.Data, w.Data) {
		t.Fatalf("read %v, want %v", r, w)
	}
}

var small = Config{Memory: 8 << 10, Block: 1 << 10}

func TestWhatWasAppendedIsReadBack(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s, records := newMemory(), history(seed, 300, 3000) // some take several blocks
			write(t, New(small), s, records, seed)
			holds(t, open(t, s), records)
			if len(s.logs) < 50 {
				t.Fatalf("%d blocks only", len(s.logs))
			}
		})
	}
}

func TestASignedLogIsReadBackAndItsHeadsAreThoseOfItsRecords(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	origin := Origin{Cluster: "c", Node: 7, Log: "l"}
	s, records := newMemory(), history(1, 200, 3000)
	c := small
	c.Chain = NewChain(origin, key, Head{})
	j := New(c)
	write(t, j, s, records, 1)
	b := open(t, s)
	holds(t, b, records)
	var head Head
	for i := range records {
		head = head.Extend(uint64(i), &records[i])
	}
	last, _ := b.Last()
	if b.End().Head != head || j.End() != b.End() {
		t.Fatalf("the journal ends at %v, the book at %v", j.End(), b.End())
	}
	if !origin.Vouches(key.Public().(ed25519.PublicKey), uint64(len(records)), &last.Seal) {
		t.Fatal("the last block is not signed")
	}
}

func TestALogGoesOnWhereItEnded(t *testing.T) {
	s, records := newMemory(), history(3, 300, 500)
	for at := 0; at < len(records); at += 50 {
		c := small
		c.After = open(t, s).End()
		write(t, New(c), s, records[at:at+50], uint64(at))
	}
	holds(t, open(t, s), records)
}

func TestAppendRefusesWhatThereIsNoRoomForAndTakesItAfterAWrite(t *testing.T) {
	j, s := New(Config{Memory: 1000}), newMemory()
	r := Record{Version: order.Version{View: 1}, Data: make([]byte, 400)}
	count := 0
	for ; j.Append(&r); count++ {
		r.Version.Seq++
	}
	if count != 2 || j.Appended() != 2 {
		t.Fatalf("%d records of 400 bytes in a memory of 1000", count)
	}
	if j.Take(); j.Append(&r) {
		t.Fatal("a group that is being written gave its room away")
	}
	j.Written(s.StoreLogs(j.Finish()))
	if n, _ := j.Durable(); n != 2 || j.Used() != 0 || !j.Append(&r) {
		t.Fatalf("%d durable, %d bytes in use", n, j.Used())
	}
}

func TestARecordLargerThanAllTheMemoryComesAlone(t *testing.T) {
	j, s := New(small), newMemory()
	r := Record{Version: order.Version{View: 1}, Data: bytes.Repeat([]byte("squall"), 5000)}
	if !j.Append(&r) {
		t.Fatal("refused")
	}
	next := Record{Version: order.Version{View: 1, Seq: 1}}
	groups := 0
	for ; flush(j, s); groups++ {
		if n, _ := j.Durable(); (n == 1) != (j.Used() == 0) {
			t.Fatalf("%d durable with %d bytes in use", n, j.Used())
		}
		if n, _ := j.Durable(); n == 0 && j.Append(&next) {
			t.Fatal("another one was taken before it was written")
		}
	}
	if groups < 3 {
		t.Fatalf("30 kB were written in %d groups of about 4", groups)
	}
	holds(t, open(t, s), []Record{r})
}

func TestWhatIsKeptIsReleasedOnceItIsWrittenOrTheDiskFailed(t *testing.T) {
	for _, fails := range []error{nil, errPower} {
		j := New(Config{Memory: 10 << 20, Block: 100 << 10, Group: 1 << 20})
		released := map[int]int{}
		for i, size := range []int{10, 50 << 10, 90 << 10, 3 << 20, 10, 40 << 10} {
			r := Record{Version: order.Version{View: 1, Seq: order.Seq(i)}, Data: make([]byte, size), Release: func() { released[i]++ }}
			if !j.Append(&r) {
				t.Fatal("no space")
			}
		}
		s := newMemory()
		for logs := j.Next(); logs != nil; logs = j.Next() {
			before := len(released)
			if n, _ := j.Durable(); before != int(n) {
				t.Fatalf("%d released, %d durable", before, n)
			}
			if err := s.StoreLogs(logs); err != nil {
				t.Fatal(err)
			}
			j.Written(fails)
		}
		for i := range 6 {
			if released[i] != 1 {
				t.Fatalf("with %v, record %d was released %d times", fails, i, released[i])
			}
		}
	}
}

func TestABrokenJournalTakesNothingAndNothingBecomesDurable(t *testing.T) {
	j := New(small)
	r := Record{Version: order.Version{View: 1}}
	j.Append(&r)
	j.Next()
	j.Written(errPower)
	r.Version.Seq++
	if n, _ := j.Durable(); n != 0 || j.Append(&r) || j.Next() != nil || !errors.Is(j.Err(), errPower) {
		t.Fatalf("durable %d, %v", n, j.Err())
	}
}

func TestAGroupIsAllThatAccumulatedAndOneIsUnderwayAtATime(t *testing.T) {
	j := New(Config{})
	for i := range 1000 {
		r := Record{Version: order.Version{View: 1, Seq: order.Seq(i)}, Data: make([]byte, 100)}
		j.Append(&r)
		if i == 499 && len(j.Next()) != 1 {
			t.Fatal("500 records are not one block")
		}
	}
	if j.Next() != nil {
		t.Fatal("a second group while the first is written")
	}
	if n, v := j.Durable(); n != 0 || v != (order.Version{}) {
		t.Fatal("durable before it was written")
	}
	j.Written(nil)
	if n, v := j.Durable(); n != 500 || v.Seq != 499 {
		t.Fatalf("durable %d %v", n, v)
	}
}

func TestA1VersionsAndTimesGrow(t *testing.T) {
	j := New(small)
	r := Record{Version: order.Version{View: 2, Seq: 5}, Time: 100}
	j.Append(&r)
	again := Record{Version: order.Version{View: 2, Seq: 6}, Time: 100}
	if j.Append(&again); again.Time != 101 {
		t.Fatalf("the time after 100 is %d", again.Time)
	}
	for _, bad := range []Record{
		{Version: order.Version{View: 2, Seq: 6}, Time: 200}, {Version: order.Version{View: 1, Seq: 9}, Time: 200},
	} {
		violates(t, "A1", func() { j.Append(&bad) })
	}
	violates(t, "A1", func() { j.AppendAt(Record{Version: order.Version{View: 3}, Time: 101}) })
}

func violates(t *testing.T, id string, f func()) {
	t.Helper()
	defer func() {
		if v, ok := recover().(invariants.Violation); !ok || v.ID != id {
			t.Fatalf("recovered %v, want a violation of %s", v, id)
		}
	}()
	f()
}

func TestAppendAllocatesNothingInTheLongRun(t *testing.T) {
	if invariants.Enabled {
		t.Skip("checks allocate what they would say")
	}
	j, s := New(Config{Memory: 1 << 20, Block: 128 << 10}), nothing{newMemory()}
	data, v := make([]byte, 100), order.Version{View: 1}
	cycle := func() {
		for i := range 4000 {
			r := Record{Version: v, Sender: order.NodeID(i % 3), Data: data}
			if v.Seq++; !j.Append(&r) {
				t.Fatal("no space")
			}
		}
		flush(j, s)
		flush(j, s)
	}
	for range 10 {
		cycle()
	}
	if n := testing.AllocsPerRun(10, cycle); n > 0 {
		t.Fatalf("%v allocations for 4000 records", n)
	}
}

// nothing takes all and keeps nothing.
type nothing struct{ *memory }

func (nothing) StoreLogs([]*Entry) error { return nil }
