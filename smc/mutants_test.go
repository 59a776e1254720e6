//go:build mutants

package smc

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// S5: a claim that is finished at the very moment at which it moves is finished in the next ring.
func TestAClaimThatIsFinishedWhileItMovesIsFinished(t *testing.T) {
	for name, finish := range map[string]func(*Sender, Claim) error{"commit": (*Sender).Commit, "abort": (*Sender).Abort} {
		t.Run(name, func(t *testing.T) {
			old, _ := newRing(4, 64)
			c := claimOf(t, old, "now")
			var err error
			mutant.AtPause = func() {
				mutant.AtPause = nil
				err = finish(old, c)
			}
			defer func() { mutant.AtPause = nil }()
			s, _ := carry(old, 0)
			if err != nil || s.Foreign() != 0 || s.Unfinished() != 0 {
				t.Errorf("S5: finished with %v; the next ring has %d open claims, %d of them of the old one", err, s.Unfinished(), s.Foreign())
			}
			want := 0
			if name == "commit" {
				want = 1
			}
			if n, _ := s.Publish(0, 9); int(n) != want {
				t.Errorf("S6: %d messages are published, want %d", n, want)
			}
		})
	}
}

// S5: a claim that moves at the very moment at which it is finished is finished in the next ring,
// and nowhere else.
func TestAClaimThatMovesWhileItIsFinishedIsFinishedThere(t *testing.T) {
	old, _ := newRing(4, 64)
	c := claimOf(t, old, "now")
	var s *Sender
	mutant.AtPause = func() {
		mutant.AtPause = nil
		s, _ = carry(old, 0)
	}
	defer func() { mutant.AtPause = nil }()
	if err := old.Commit(c); !errors.Is(err, ErrMoved) || s.Foreign() != 1 {
		t.Fatalf("S5: committed with %v in a ring that was taken over; the next one has %d open claims of it", err, s.Foreign())
	}
	if err := s.CommitMoved(c); err != nil {
		t.Fatal(err)
	}
	if n, _ := s.Publish(0, 9); n != 1 {
		t.Errorf("S6: %d messages are published", n)
	}
}
