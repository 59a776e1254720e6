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

func TestRecordsThatGoBeforeTheirSnapshotIsThereAreFound(t *testing.T) {
	mutant.Set(mutant.DropBeforeSnap)
	defer mutant.Set("")
	if err := dropsNothing(t); err == nil {
		t.Error("not found")
	}
}

func TestRetentionOfWhatIsNotOnEveryDiskIsFound(t *testing.T) {
	mutant.Set(mutant.DropUnshared)
	defer mutant.Set("")
	if keepsWhatIsNotShared(t) {
		t.Error("not found")
	}
}
