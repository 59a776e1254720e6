//go:build mutants

package smc

import (
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
