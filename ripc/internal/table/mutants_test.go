//go:build mutants

package table

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// Every deliberate fault is found by one of the worlds.
func TestEveryFaultOfATableIsFound(t *testing.T) {
	defer mutant.Set("")
	worlds := []func(uint64) error{runAccounts, runIntakes, runWorld, checkAnswers, checkLife}
	for _, name := range mutant.TableNames {
		mutant.Set(name)
		found := false
		for seed := uint64(0); seed < 1000 && !found; seed++ {
			for _, run := range worlds {
				if err := run(seed); err != nil {
					t.Logf("%s: %.120v", name, err)
					found = true
					break
				}
			}
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}
