package wallog

import (
	"testing"

	"github.com/squall-go/squall/persist/internal/engine"
)

func TestTheListOfSegmentsIsNotOpenedWithoutSyncs(t *testing.T) {
	t.Parallel()
	list := &segmentList{Opening: engine.Opening{Create: true}}
	if _, err := list.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if db := list.db; db.NoSync || db.NoGrowSync {
		t.Errorf("NoSync %v, NoGrowSync %v", db.NoSync, db.NoGrowSync)
	}
}
