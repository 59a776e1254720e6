//go:build mutants

package multicast_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/sst"
	"github.com/squall-go/squall/views"
)

// Each fault of what is carried and cut is found by the random views, and as what it is.
func TestEveryMutantOfTheEndOfAViewIsFound(t *testing.T) {
	found := map[mutant.Name]string{
		mutant.ForgetOpen:   "S5",
		mutant.NoTrim:       "G4",
		mutant.EarlyRelease: "G3 G4 M6",
	}
	defer mutant.Set("")
	for name, want := range found {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			err := firstFault()
			if err == nil || !slices.Contains(strings.Fields(want), idOf(err)) {
				t.Fatalf("found as %v, want one of %s", err, want)
			}
			t.Log(err)
		})
	}
	for _, name := range mutant.CarryNames {
		if found[name] == "" {
			t.Errorf("nothing is said of %q", name)
		}
	}
}

// S3: a peer that looks between the two stores takes a message for a null.
func TestTheMutantOfTheOrderOfStoresIsFound(t *testing.T) {
	mutant.Set(mutant.PositionLate)
	defer mutant.Set("")
	nodes, _ := twoSharedOf(t, views.Ordered)
	g := &group{t: t, nodes: nodes}
	g.send(0, "a")
	sst.AfterStore = func() {
		hook := sst.AfterStore
		sst.AfterStore = nil
		nodes[1].Exchange()
		sst.AfterStore = hook
	}
	defer func() { sst.AfterStore = nil }()
	nodes[0].cycle()
	sst.AfterStore = nil
	for range 5 {
		g.settle()
	}
	if slices.Equal(nodes[0].log, nodes[1].log) {
		t.Errorf("both delivered %v", nodes[0].log)
	}
}

// firstFault is what goes wrong first in many runs.
func firstFault() error {
	for run := range uint64(3000) {
		if err := runViews(1, run); err != nil {
			return err
		}
	}
	return nil
}

// idOf is the promise or the invariant that an error names.
func idOf(err error) string {
	_, rest, _ := strings.Cut(err.Error(), "ordered: ")
	id, _, _ := strings.Cut(rest, ":")
	return id
}
