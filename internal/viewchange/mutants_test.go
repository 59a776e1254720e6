//go:build mutants

package viewchange

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// A rule whose absence no history shows is not tested.
func TestRandomHistoriesFindTheMutants(t *testing.T) {
	for _, name := range []mutant.Name{mutant.PlainHalf, mutant.TrimByMaximum, mutant.NoEchoQuorum} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			defer mutant.Set("")
			for seed := range uint64(4000) {
				if err := drawn(t, seed).judge(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not found in 4000 histories")
		})
	}
}

func TestATakeoverThatDecidesAnewIsFound(t *testing.T) {
	mutant.Set(mutant.NoAdoption)
	defer mutant.Set("")
	if err := takeover(t); err == nil {
		t.Error("not found")
	}
}
