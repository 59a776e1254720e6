package demo

import (
	"slices"
	"testing"
	"time"
)

func TestASeedDrawsTheSameTwice(t *testing.T) {
	for seed := range uint64(20) {
		a, b := newPlan(seed), newPlan(seed)
		var fates []fate
		for range 3 {
			f := a.fate()
			if g := b.fate(); f != g {
				t.Fatalf("seed %d: %s and %s", seed, f, g)
			}
			fates = append(fates, f)
			if d, e := a.hang(time.Second), b.hang(time.Second); d != e || d <= time.Second {
				t.Errorf("seed %d: a hang of %v and of %v", seed, d, e)
			}
		}
		if slices.Sort(fates); !slices.Equal(fates, []fate{hung, killed, leaves}) {
			t.Errorf("seed %d: %v", seed, fates)
		}
	}
}
