//go:build mutants

package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// coreFlaws are the mutants of the core with the checkers that must each find them alone.
var coreFlaws = map[mutant.Name]string{
	mutant.Unstable:       "atomic",
	mutant.OneTooMany:     "halt",
	mutant.EarlyRelease:   "content fifo atomic",
	mutant.LateRelease:    "release",
	mutant.LazyNulls:      "loss stall",
	mutant.EagerNulls:     "quiet",
	mutant.EarlyDelivered: "content atomic",
	mutant.AfterHalt:      "halt",
}

func TestEveryMutantOfTheCoreIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.Names {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			flaw{checkers: coreFlaws[name]}.find(t)
		})
	}
}

// A checker that no mutant trips alone is not a checker.
func TestEveryCheckerFindsSomething(t *testing.T) {
	var trips []string
	for _, f := range fabricFlaws {
		trips = append(trips, strings.Fields(f.checkers)...)
	}
	for _, checkers := range coreFlaws {
		trips = append(trips, strings.Fields(checkers)...)
	}
	for _, c := range newWorld(Draw(1, Limits{}), Options{}).checkers {
		if !slices.Contains(trips, c.name()) {
			t.Errorf("no mutant trips %s", c.name())
		}
	}
}
