//go:build mutants

package persist

import (
	"testing"

	"github.com/squall-go/squall/internal/mutant"
)

func TestADirectoryThatIsNotSyncedIsFound(t *testing.T) {
	mutant.Set(mutant.NoDirSync)
	defer mutant.Set("")
	if err := keeps(t); err == nil {
		t.Error("not found")
	}
}
