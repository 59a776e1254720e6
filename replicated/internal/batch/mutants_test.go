//go:build mutants

package batch_test

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

func TestEveryMutantOfBatchesIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range []mutant.Name{mutant.RecordDropped, mutant.RecordDoubled, mutant.Overtaking, mutant.RoomOvertaken} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			for seed := range uint64(200) {
				if _, err := play(seed); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("200 seeds did not show it")
		})
	}
}
