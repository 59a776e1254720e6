package boltlog

import (
	"bytes"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

func TestRoomIsSetAsideBeforeTheFileNeedsIt(t *testing.T) {
	t.Parallel()
	dir, data := testutil.MemoryDir(t), bytes.Repeat([]byte("x"), 1<<20)
	if err := engine.Create(Driver{}, dir); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Opening{Context: t.Context()}, Driver{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := e.Engine.(*boltEngine)
	for i := uint64(1); i <= 30; i++ {
		if err := e.StoreLogs([]*journal.Entry{{Index: i, Data: data}}); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
		if used, err := b.used(); err != nil || used > b.size || used < int64(i)<<20 {
			t.Fatalf("after %d MiB %d bytes are used of %d, %v", i, used, b.size, err)
		}
	}
}

// What is acknowledged is on the disk because the engine syncs each transaction, and each growth of
// its file.
func TestNoLogIsOpenedWithoutSyncs(t *testing.T) {
	t.Parallel()
	if o := (&boltEngine{}).options(engine.Opening{}); o.NoSync || o.NoGrowSync {
		t.Errorf("%+v", o)
	}
}
