//go:build mutants

package squalltest

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// mutantSeeds is within how many seeds each fault of sessions, and of clients, has to be found.
const mutantSeeds = 600

func TestEveryMutantOfObjectsIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.ObjectNames {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			for seed := uint64(1); seed <= mutantSeeds; seed++ {
				if _, err := play(Config{}, seed, newCounter, count, right, false); err != nil {
					text := err.Error()
					t.Logf("seed %d: %.200s", seed, text)
					return
				}
			}
			t.Errorf("%d seeds did not show it", mutantSeeds)
		})
	}
}
