package smc

import (
	"testing"
)

func large(t *testing.T, s *Sender, text string) uint64 {
	t.Helper()
	number, ok := s.Send([]byte(text), Large)
	if !ok {
		t.Fatalf("no space for %q", text)
	}
	return number
}

func TestTheRecordOfALargeMessageIsTakenAsWhatItIs(t *testing.T) {
	s, r := newRing(8, 64)
	large(t, s, "record")
	must(t, s.Commit(claimOf(t, s, "small")))
	publish(s, &r, 0)
	expect(t, &r, 0, Large)
	expectTake(t, &r, 1, "small")
}

// S8
func TestALargeMessageThatMovedWaitsForItsBodyAndHoldsUpWhatIsBehindIt(t *testing.T) {
	s, _ := newRing(8, 64)
	sendAll(t, s, nil, 0, "gone", "kept")
	number := large(t, s, "record")
	claim := claimOf(t, s, "behind")
	must(t, s.Commit(claim))
	publish(s, nil, 2)

	s, r := carry(s, 1)
	if n := publish(s, &r, 0); n != 1 {
		t.Fatalf("S8: %d messages were published, one is before the large one", n)
	}
	if n := publish(s, &r, 1); n != 0 {
		t.Fatalf("S8: %d messages were published", n)
	}
	if s.Arrived(number); s.Released(number) {
		t.Fatal("it is released")
	}
	if n := publish(s, &r, 1); n != 2 {
		t.Fatalf("%d messages were published", n)
	}
	expectTake(t, &r, 0, "kept")
	expect(t, &r, 1, Large)
	expectTake(t, &r, 2, "behind")
	if s.Release(2); !s.Released(number) || s.Released(claim.Number()) {
		t.Error("the released messages are not the delivered ones")
	}
}
