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
