package smc_test

import (
	"testing"

	"github.com/squall-go/squall/smc"
)

// The loop is let in four times while a goroutine fills a window, and not for each few messages of
// a small one.
func TestAWindowIsFilledInShares(t *testing.T) {
	for window, shares := range map[int]int{4096: 4, 1 << 14: 4, 1024: 4, 256: 1, 16: 0} {
		s, got := smc.NewSender(window, make([]byte, smc.AreaBytes(8*window, window))), 0
		for range window {
			number, ok := s.Send(make([]byte, 8), smc.Small)
			if !ok {
				t.Fatalf("window %d: no space", window)
			}
			if s.EndsShare(number) {
				got++
			}
		}
		if got != shares {
			t.Errorf("window %d is filled in %d shares, want %d", window, got, shares)
		}
	}
}

// The part of a window that counts as many is a 32nd, also of a window that is smaller than that.
func TestManyIsAPartOfTheWindow(t *testing.T) {
	for window, least := range map[int]uint64{4: 1, 16: 1, 32: 1, 64: 2, 4096: 128} {
		s := smc.NewSender(window, make([]byte, smc.AreaBytes(4096, window)))
		if s.Many(least-1) || !s.Many(least) {
			t.Errorf("window %d: %d are many: %v, %d: %v", window, least-1, s.Many(least-1), least, s.Many(least))
		}
	}
}
