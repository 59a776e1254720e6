//go:build mutants

package attach

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

func TestEveryMutantOfAttachingIsFound(t *testing.T) {
	defer mutant.Set("")
	for _, name := range mutant.AttachNames {
		mutant.Set(name)
		found := ""
		for history, play := range histories {
			if play() != nil {
				found = history
			}
		}
		if found == "" {
			t.Errorf("%s: not found", name)
		}
		t.Logf("%s: %s", name, found)
	}
}
