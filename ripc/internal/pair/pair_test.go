package pair

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/invariants"
)

// halves are the two ends of one direction, on shared rows.
func halves(ringBytes int, direct bool) (*Sender, *Receiver) {
	a, _, _ := fabric.NewMemory(ControlBytes + ringBytes)
	b, _, _ := fabric.NewMemory(ControlBytes + ringBytes)
	return NewSender(a, b, direct), NewReceiver(b, a, direct)
}

// A reply is for the call whose id it carries, or for none (RP8).
func TestAnIDIsGivenOutOnce(t *testing.T) {
	var calls Calls[string]
	a, b := calls.Begin("a"), calls.Begin("b")
	if got, ok := calls.End(a); !ok || got != "a" {
		t.Fatal(got, ok)
	}
	if _, ok := calls.End(a); ok {
		t.Error("a call ended twice")
	}
	c := calls.Begin("c") // in a's slot
	if c == a || calls.Open() != 2 {
		t.Errorf("id %d again, %d open", c, calls.Open())
	}
	for _, id := range []uint64{0, a, ^uint64(0), 77, b + 1<<32} {
		if _, ok := calls.End(id); ok {
			t.Errorf("there is a call with id %#x", id)
		}
	}
	if _, ok := calls.End(b); !ok {
		t.Fatal("a call is not open")
	}
	if v, ok := calls.Find(b + 1<<32); ok { // the use of a slot without a call is even: a peer can guess it
		t.Errorf("there is a call %q with the number of a slot that is not used", v)
	}
	calls.Begin("b")
	n := 0
	calls.All(func(id uint64, v string) {
		n++
		if got, ok := calls.End(id); !ok || got != v {
			t.Error(id, v, got, ok)
		}
	})
	if n != 2 || calls.Open() != 0 {
		t.Error(n, calls.Open())
	}
}

// checkNotices adds and takes notices.
func checkNotices() error {
	var n Notices
	frames := []*Frame{{ID: 1, Number: 1}, {ID: 2, Number: 2}, {ID: 1, Number: 3}}
	for i, f := range frames {
		replaced := n.Add(f)
		if i == 2 && replaced != frames[0] || i < 2 && replaced != nil {
			return fmt.Errorf("RP9: notice %d replaces %v", i, replaced)
		}
	}
	if n.Len() != 2 {
		return fmt.Errorf("RP9: %d notices wait", n.Len())
	}
	for _, want := range []uint64{3, 2} {
		if f := n.Take(); f == nil || f.Number != want {
			return fmt.Errorf("RP9: took %v, not number %d", f, want)
		}
	}
	if f := n.Take(); f != nil {
		return fmt.Errorf("RP9: took %v of none", f)
	}
	n.Add(frames[0])
	if f := n.Take(); f != frames[0] {
		return fmt.Errorf("RP9: took %v of a key that was taken before", f)
	}
	return nil
}

func TestTheLatestNoticeOfAKeyStays(t *testing.T) {
	if err := checkNotices(); err != nil {
		t.Error(err)
	}
}

// Notices of which one always waits take no more and more memory, and come in the order of their
// keys (RP9).
func TestTheListOfNoticesStaysShort(t *testing.T) {
	var n Notices
	for k := range uint64(100000) {
		n.Add(&Frame{ID: k, Number: 2 * k})
		if k%3 == 0 {
			if replaced := n.Add(&Frame{ID: k, Number: 2*k + 1}); replaced == nil || replaced.Number != 2*k {
				t.Fatalf("notice %d replaces %v", k, replaced)
			}
		}
		if k < 10 {
			continue // so many wait
		}
		want := 2 * (k - 10)
		if (k-10)%3 == 0 {
			want++
		}
		if f := n.Take(); f == nil || f.Number != want {
			t.Fatalf("RP9: took %v, not number %d", f, want)
		}
	}
	if n.Len() != 10 || cap(n.list) > 100 || len(n.places) != 10 {
		t.Errorf("%d notices wait in a list of %d, with %d places", n.Len(), cap(n.list), len(n.places))
	}
}

// A peer's words are believed only if they are possible (RP6).
func TestImpossibleWordsAreAViolation(t *testing.T) {
	for _, c := range []struct {
		name string
		kind Kind
		off  int
		word uint64
	}{
		{"freed more than was sent", Reply, freedOff, 1 << 20},
		{"gave back more than was sent", Message, windowOff + 8*3, 4096},
	} {
		tx, _ := halves(MinRingBytes, false)
		store(tx.peer, c.off, c.word)
		status := Accepted
		for status == Accepted {
			status = tx.Put(c.kind, 3, 0, [][]byte{make([]byte, 200)})
		}
		if status != WrongWords || !errors.Is(tx.Err(), fabric.ErrViolation) {
			t.Errorf("%s: %v, %v", c.name, status, tx.Err())
		}
	}
	tx, rx := halves(MinRingBytes, false)
	store(tx.peer, receivedOff+8*3, 1)
	if n := tx.Unreceived(3); n != 0 || !errors.Is(tx.Err(), fabric.ErrViolation) {
		t.Errorf("received more than was sent: %d, %v", n, tx.Err())
	}
	for _, sent := range []uint64{MinRingBytes + 16, 8, ^uint64(0) - 15} {
		store(tx.own, sentOff, sent)
		if f, err := rx.Next(); f != nil || !errors.Is(err, fabric.ErrViolation) {
			t.Errorf("sent %d: %v, %v", sent, f, err)
		}
	}
	tx, rx = halves(MinRingBytes, false)
	for range 2 {
		tx.Put(Message, 3, 0, [][]byte{make([]byte, 16)})
		if _, err := rx.Next(); err != nil {
			t.Fatal(err)
		}
	}
	tx.Put(Message, 3, 0, [][]byte{make([]byte, 16)})
	store(tx.own, sentOff, rx.taken/2) // after what is freed, and before what was taken
	if f, err := rx.Next(); f != nil || !errors.Is(err, fabric.ErrViolation) {
		t.Errorf("sent went back: %v, %v", f, err)
	}
}

// Frames that the application gave back once cannot be given back again.
func TestAFrameIsFreedOnce(t *testing.T) {
	tx, rx := halves(MinRingBytes, false)
	tx.Put(Message, 1, 0, [][]byte{[]byte("one")})
	f, err := rx.Next()
	if err != nil || string(f.Data) != "one" {
		t.Fatal(f, err)
	}
	rx.Received(f)
	if !rx.Free(f) || rx.Free(f) {
		t.Error("freed not once")
	}
	if tx.Unreceived(1) != 0 || rx.Held() != 0 {
		t.Error(tx.Unreceived(1), rx.Held())
	}
}

// A channel that its receiver closed takes nothing more, and its count is that of the closing,
// whatever the word in the row says later (RP7). An impossible count is a violation (RP6).
func TestAChannelThatWasClosedKeepsItsCount(t *testing.T) {
	tx, rx := halves(MinRingBytes, false)
	for range 3 {
		tx.Put(Request, 2, 0, [][]byte{[]byte("request")})
	}
	f, err := rx.Next()
	if err != nil {
		t.Fatal(err)
	}
	rx.Received(f)
	for _, count := range []uint64{4, 1 << 31} {
		if err := tx.Shut(2, count); !errors.Is(err, fabric.ErrViolation) || tx.IsShut(2) {
			t.Errorf("closed after %d messages of 3: %v", count, err)
		}
	}
	if err := tx.Shut(2, rx.Counted(2)); err != nil || !tx.IsShut(2) {
		t.Fatal(err)
	}
	store(tx.peer, receivedOff+8*2, 0) // the link brings it late
	if tx.Unreceived(2) != 2 || !tx.WasReceived(2, 1) || tx.WasReceived(2, 2) || tx.Err() != nil {
		t.Error(tx.Unreceived(2), tx.Err())
	}
	if status := tx.Put(Message, 2, 0, nil); status != Shut || !tx.Room(Message, 2, 0) {
		t.Error(status)
	}
	if status := tx.Put(Message, 3, 0, nil); status != Accepted {
		t.Error(status)
	}
	tx.Leave(3)
	if status := tx.Put(Message, 3, 0, nil); status != Shut || tx.IsShut(3) || tx.Unreceived(3) != 1 {
		t.Error("a channel that was left:", status, tx.Unreceived(3))
	}
}

func TestSendingAndReceivingAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("what a check would say is put together on the heap")
	}
	tx, rx := halves(1<<16, true)
	b := make([]byte, 64)
	n := testing.AllocsPerRun(2000, func() {
		if tx.Put(Message, 1, 7, [][]byte{b}) != Accepted {
			t.Fatal("no space")
		}
		f, _ := rx.Next()
		rx.Received(f)
		rx.Free(f)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPair(b *testing.B) {
	tx, rx := halves(1<<15, true)
	m := [][]byte{make([]byte, 64)}
	b.ReportAllocs()
	for b.Loop() {
		tx.Put(Message, 1, 7, m)
		f, _ := rx.Next()
		rx.Received(f)
		rx.Free(f)
	}
}
