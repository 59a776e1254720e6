//go:build mutants

package client

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

func TestTheMutantOfLinksIsFound(t *testing.T) {
	mutant.Set(mutant.SteadyLink)
	defer mutant.Set("")
	for seed := range uint64(10) {
		if err := lateByThemselves(seed); err != nil {
			t.Log(err)
			return
		}
	}
	t.Error("10 seeds did not show it")
}

func TestEveryMutantOfRefusedCommandsIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range []mutant.Name{mutant.NoPermits, mutant.NoneSaid} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			if err := twoForEach(); err != nil {
				t.Log(err)
				return
			}
			for seed := range uint64(50) {
				if err := playKept(seed); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("50 seeds did not show it")
		})
	}
}
