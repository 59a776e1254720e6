//go:build mutants

package sim

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// The failing seed of a mutant becomes a plan in which little more happens than what the mutant
// needs to show.
func TestFailingSeedsOfMutantsAreShrunk(t *testing.T) {
	defer mutant.Set("")
	for _, m := range []struct {
		name                    mutant.Name
		nodes, faults, messages int // at most
	}{
		{mutant.Unstable, 4, 1, 12},
		{mutant.NoCarry, 7, 1, 30},
		{mutant.EarlyPersisted, 3, 1, 12},
		{mutant.EagerNulls, 4, 1, 30},
	} {
		t.Run(string(m.name), func(t *testing.T) {
			mutant.Set(m.name)
			c := Campaign{First: 1, Count: mutantSeeds}
			if c.Run() == nil {
				t.Fatal("not found")
			}
			shrinksTo(t, c.Failed, Options{}, m.nodes, m.faults, m.messages)
		})
	}
}
