package smc

import (
	"math"
	"testing"

	"github.com/squall-go/squall/order"
)

func large(t *testing.T, s *Sender, text string) Claim {
	t.Helper()
	c, ok := s.ClaimLarge(len(text))
	if !ok {
		t.Fatalf("no space for %q", text)
	}
	copy(c.Bytes, text)
	must(t, s.Commit(c))
	return c
}

func TestTheRecordOfALargeMessageIsTakenAsWhatItIs(t *testing.T) {
	s, r := newRing(8, 64)
	large(t, s, "record")
	must(t, s.Commit(claimOf(t, s, "small")))
	s.Publish(0, math.MaxInt)
	for i, want := range []Kind{Large, Small} {
		if data, kind, err := r.Take(order.Index(i)); err != nil || kind != want {
			t.Errorf("index %d is %v: %q, %v", i, kind, data, err)
		}
	}
	s.Release(2)
	for i := range 8 { // a slot that had a large message is used again
		sendAll(t, s, 2+order.Index(i), "x")
		expectTake(t, &r, 2+order.Index(i), "x")
		s.Release(3 + order.Index(i))
	}
}

// S8
func TestALargeMessageThatMovedWaitsForItsBodyAndHoldsUpWhatIsBehindIt(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, 0, "gone", "kept")
	c := large(t, s, "record")
	claim := claimOf(t, s, "behind")
	must(t, s.Commit(claim))
	s.Publish(2, math.MaxInt)

	s, r := carry(s, 1)
	if n, _ := s.Publish(0, math.MaxInt); n != 1 {
		t.Fatalf("S8: %d messages were published, one is before the large one", n)
	}
	if n, _ := s.Publish(1, math.MaxInt); n != 0 {
		t.Fatalf("S8: %d messages were published", n)
	}
	if s.Arrived(c.Number()); s.Released(c.Number()) {
		t.Fatal("it is released")
	}
	if n, _ := s.Publish(1, math.MaxInt); n != 2 {
		t.Fatalf("%d messages were published", n)
	}
	expectTake(t, &r, 0, "kept")
	if _, kind, _ := r.Take(1); kind != Large {
		t.Errorf("it is %v", kind)
	}
	expectTake(t, &r, 2, "behind")
	if s.Release(2); !s.Released(c.Number()) || s.Released(claim.Number()) {
		t.Error("the released messages are not the delivered ones")
	}
}
