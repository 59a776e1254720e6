package smc

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/squall-go/squall/order"
)

// carry goes on with a new ring of the same size.
func carry(old *Sender, delivered order.Index) (*Sender, Receiver) {
	s, r := newRing(int(old.window), int(old.size-old.window*HeaderBytes))
	s.Carry(old, delivered)
	return s, r
}

func claimOf(t *testing.T, s *Sender, text string) Claim {
	t.Helper()
	c, ok := s.Claim(len(text))
	if !ok {
		t.Fatalf("no space for %q", text)
	}
	copy(c.Bytes, text)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// S6: whatever a claim is when its ring is taken over.
func TestWhatIsNotDeliveredMovesInItsOrderUnderItsNumber(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, nil, 0, "gone", "kept")
	open, abandoned, committed := claimOf(t, s, "open"), claimOf(t, s, "x"), claimOf(t, s, "committed")
	must(t, s.Abort(abandoned))
	must(t, s.Commit(committed))

	s, r := carry(s, 1)
	if n := publish(s, &r, 0); n != 1 {
		t.Fatalf("%d messages before the open one", n)
	}
	if err := s.Commit(open); !errors.Is(err, ErrMoved) || s.Foreign() != 1 {
		t.Fatalf("%v, %d claims lent", err, s.Foreign())
	}
	must(t, s.CommitMoved(open))
	later := claimOf(t, s, "later")
	must(t, s.Commit(later))
	if n := publish(s, &r, 1); n != 3 || s.Foreign() != 0 {
		t.Fatalf("%d messages, %d claims lent", n, s.Foreign())
	}
	expectTake(t, &r, 0, "kept")
	expectTake(t, &r, 1, "open")
	expect(t, &r, 2, Void)
	expectTake(t, &r, 3, "committed")
	expectTake(t, &r, 4, "later")
	if open.Number() != 3 || later.Number() != 6 {
		t.Errorf("S6: numbers %d and %d", open.Number(), later.Number())
	}
	for number, want := range map[uint64]order.Index{2: 0, 3: 1, 4: 2, 5: 3, 6: 4} {
		if i, ok := s.Published(number); i != want || !ok {
			t.Errorf("claim %d was published at %d, %v; want %d", number, i, ok, want)
		}
	}
	for _, number := range []uint64{0, 1, 7} { // of no claim, of one of the ring before, of one to come
		if i, ok := s.Published(number); ok {
			t.Errorf("claim %d, which is not published in this ring, was published at %d", number, i)
		}
	}
}

// S5, over several rings: a claim is filled in the first and finished in the last.
func TestAClaimIsFinishedOnceWhateverRingsItMovedThrough(t *testing.T) {
	finish := map[string]func(*Sender, Claim) error{"commit": (*Sender).CommitMoved, "abort": (*Sender).AbortMoved}
	for first, one := range finish {
		for second, two := range finish {
			a, _ := newRing(4, 64)
			c := claimOf(t, a, "far")
			b, _ := carry(a, 0)
			last, r := carry(b, 0)
			if err := one(b, c); !errors.Is(err, ErrMoved) {
				t.Errorf("%s in the middle: %v", first, err)
			}
			must(t, one(last, c))
			for lap := range order.Index(8) { // its slot belongs to later claims then
				if err := last.Commit(c); !errors.Is(err, ErrMoved) {
					t.Errorf("%s without the lock: %v", second, err)
				}
				if err := two(last, c); !errors.Is(err, ErrClaimDone) {
					t.Errorf("S5: %s after %s: %v", second, first, err)
				}
				publish(last, &r, lap)
				switch {
				case lap > 0:
					expectTake(t, &r, lap, "later")
				case first == "commit":
					expectTake(t, &r, 0, "far")
				default:
					expect(t, &r, 0, Void)
				}
				last.Release(lap + 1)
				must(t, last.Commit(claimOf(t, last, "later")))
			}
			again, _ := carry(last, 8)
			if err := two(again, c); !errors.Is(err, ErrClaimDone) {
				t.Errorf("S5: %s after %s, in a ring that never had it: %v", second, first, err)
			}
		}
	}
}

func TestAClaimOfThisRingIsFinishedInIt(t *testing.T) {
	s, r := newRing(4, 64)
	must(t, s.CommitMoved(claimOf(t, s, "here")))
	must(t, s.AbortMoved(claimOf(t, s, "not")))
	publish(s, &r, 0)
	expectTake(t, &r, 0, "here")
	if err := s.CommitMoved(Claim{}); !errors.Is(err, ErrClaimDone) {
		t.Error(err)
	}
	strange, _ := newRing(4, 64)
	if err := s.CommitMoved(claimOf(t, strange, "of another sender")); !errors.Is(err, ErrClaimDone) {
		t.Error(err)
	}
}

// S7, at its limit: a ring that is full, wherever it wraps, moves into an empty one.
func TestAFullRingMovesIntoOneOfItsSize(t *testing.T) {
	const window, ring = 8, 64
	for start := range window {
		for _, n := range []int{0, 1, 8, 9, 16, 24, 32} {
			s, _ := newRing(window, ring)
			for k := range start { // brings the ring to its start
				sendAll(t, s, nil, order.Index(k), "12345678")
				s.Release(order.Index(k + 1))
			}
			claims := 0
			for ok := true; ok; claims++ {
				_, ok = s.Claim(n)
			}
			next, _ := carry(s, order.Index(start))
			if next.InUse() != claims-1 || next.Foreign() != claims-1 || next.end > next.size {
				t.Errorf("S7: %d claims of %d bytes from %d on: %d moved, to [0, %d)", claims-1, n, start, next.InUse(), next.end)
			}
		}
	}
}

// A ring on plain memory keeps what cannot be sent now, and gives it on.
func TestAShelfKeepsWhatCannotBeSent(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, nil, 0, "one")
	must(t, s.Commit(claimOf(t, s, "two")))
	open := claimOf(t, s, "three")
	shelf := NewShelf(s)
	shelf.Carry(s, 0)
	must(t, shelf.CommitMoved(open))
	s, r := carry(shelf, 0)
	if n := publish(s, &r, 5); n != 3 {
		t.Fatalf("%d messages came back", n)
	}
	for i, want := range []string{"one", "two", "three"} {
		expectTake(t, &r, order.Index(5+i), want)
	}
}

// Goroutines fill and finish claims while the ring moves again and again: what was committed comes
// out once, in the order of the claims.
func TestRingsMoveUnderGoroutinesThatFillThem(t *testing.T) {
	const workers, each = 4, 300
	var lock sync.Mutex // the application's
	s, r := newRing(32, 1024)
	s.Open()
	committed := make([]string, 1+workers*each*2) // by claim number
	ring := func() *Sender {
		lock.Lock()
		defer lock.Unlock()
		return s
	}
	finish := func(c Claim, here, moved func(*Sender, Claim) error) error {
		err := here(ring(), c) // which may be taken over meanwhile
		if errors.Is(err, ErrMoved) {
			lock.Lock()
			defer lock.Unlock()
			return moved(s, c)
		}
		return err
	}
	shut := func() (open func()) { // S9
		lock.Lock()
		shutRing(s)
		return func() { s.Open(); lock.Unlock() }
	}
	claim := func(k int) (c Claim, ok bool) {
		if k%4 > 0 {
			return ring().TryClaim(20)
		}
		defer shut()()
		return s.Claim(20)
	}
	send := func(k int, data []byte) (number uint64, ok bool) {
		switch k % 3 {
		case 0:
			n, number := ring().TrySendBatch([][]byte{data})
			return number, n == 1
		case 1:
			return ring().TrySend(data)
		}
		defer shut()()
		return s.Send(data, Small)
	}
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for k := range each {
				text := fmt.Sprintf("%d.%d", w, k)
				number, ok := send(k, []byte(text))
				for !ok { // the loop below frees space
					number, ok = send(k, []byte(text))
				}
				committed[number] = text
				c, ok := claim(k)
				for !ok {
					c, ok = claim(k)
				}
				text = fmt.Sprintf("%020d", c.Number())
				copy(c.Bytes, text)
				var err error
				if (w+k)%5 == 0 {
					err = finish(c, (*Sender).Abort, (*Sender).AbortMoved)
				} else {
					err = finish(c, (*Sender).Commit, (*Sender).CommitMoved)
					committed[c.Number()] = text
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := finish(c, (*Sender).Commit, (*Sender).CommitMoved); !errors.Is(err, ErrClaimDone) {
					t.Errorf("S5: claim %d was finished twice: %v", c.Number(), err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()

	var out []string
	sent, taken := order.Index(0), order.Index(0)
	turn := func(k int) {
		if b, any := s.Publish(sent, 1+k%7); any {
			sent = b.Next
			must(t, r.See(b.Position))
		}
		for r.Next() < sent && (k%3 > 0 || taken == 0) {
			data, kind, err := r.Take()
			must(t, err)
			if kind != Void {
				out = append(out, string(data))
			}
			r.Pass()
			taken++
		}
		s.Release(taken)
		if k%11 == 0 {
			open := shut()
			s, r = carry(s, taken)
			open()
			sent, taken = 0, 0
		}
	}
	for k, over := 0, false; !over || s.InUse() > 0; k++ {
		turn(k)
		select {
		case <-done:
			over = true
		default:
		}
	}
	var want []string
	for _, text := range committed {
		if text != "" {
			want = append(want, text)
		}
	}
	if got, want := strings.Join(out, " "), strings.Join(want, " "); got != want {
		t.Errorf("S6: got\n%s\nwant\n%s", got, want)
	}
}
