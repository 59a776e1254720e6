package persist

import (
	"testing"

	"go.etcd.io/bbolt"
)

// What is acknowledged is on the disk because the engine syncs each transaction, and each growth of
// its file.
func TestNoDatabaseIsOpenedWithoutSyncs(t *testing.T) {
	t.Parallel()
	if o := (&boltEngine{}).options(opening{}, t.TempDir()); o.NoSync || o.BoltOptions.NoSync || o.BoltOptions.NoGrowSync {
		t.Errorf("the log of the engine bolt: %+v, %+v", o, o.BoltOptions)
	}
	s, err := Open(StoreConfig{Dir: t.TempDir(), Cluster: "blue", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list := &segmentList{opening: opening{create: true}}
	if _, err := list.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for name, db := range map[string]*bbolt.DB{"the values of a store": s.meta.db, "the segments of the engine wal": list.db} {
		if db.NoSync || db.NoGrowSync {
			t.Errorf("%s: NoSync %v, NoGrowSync %v", name, db.NoSync, db.NoGrowSync)
		}
	}
}
