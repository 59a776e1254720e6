//go:build mutants

package pair

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

// Every deliberate fault is found by the worlds, those of senders that wait, or by the test of
// notices.
func TestEveryFaultOfAPairIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.PairNames {
		mutant.Set(name)
		found := checkNotices() != nil
		for seed := uint64(0); seed < 3000 && !found; seed++ {
			play := run
			if name == mutant.PairUntold {
				play = runRoom
			}
			err := play(seed)
			found = err != nil
			if found {
				t.Logf("%s: %.120v", name, err)
			}
		}
		if !found {
			t.Errorf("not found: %s", name)
		}
	}
}
