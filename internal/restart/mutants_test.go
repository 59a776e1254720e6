//go:build mutants

package restart

import (
	"testing"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
)

// A rule whose absence no history shows is not tested.
func TestRandomRestartsFindTheMutants(t *testing.T) {
	for _, name := range []mutant.Name{mutant.RestartAlone, mutant.ShortestLog} {
		t.Run(string(name), func(t *testing.T) {
			mutant.Set(name)
			defer mutant.Set("")
			for seed := range uint64(8000) {
				if err := broken(seed); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// What needs a few things to happen in one order is not left to chance.
func TestWhatIsForgottenIsFound(t *testing.T) {
	for name, history := range map[mutant.Name]func(*testing.T) error{
		mutant.VoteUnsynced: forgottenVote, mutant.PromiseUnsynced: forgottenPromise,
	} {
		mutant.Set(name)
		if err := history(t); err == nil {
			t.Errorf("%s: not found", name)
		}
		mutant.Set("")
	}
}

// broken is what a history finds, a violated invariant included.
func broken(seed uint64) (err error) {
	defer func() {
		if v, ok := recover().(invariants.Violation); ok {
			err = v
		}
	}()
	_, err = run(seed, nil)
	return err
}
