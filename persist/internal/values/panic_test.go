package values

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// An engine that panics within a transaction keeps its locks, and closing it would wait for them
// for ever.
func TestAnEngineThatPanickedIsAbandoned(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	if err := Create(filepath.Join(dir, engine.MetaFile)); err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if m.db.NoSync || m.db.NoGrowSync { // what is acknowledged is on the disk
		t.Errorf("NoSync %v, NoGrowSync %v", m.db.NoSync, m.db.NoGrowSync)
	}
	tx, err := m.db.Begin(true) // never ends
	if err != nil {
		t.Fatal(err)
	}
	if err := m.run(func() error { panic("a page that cannot be read") }); !errors.Is(err, engine.ErrDamaged) {
		t.Error(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- m.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not close")
		_ = tx.Rollback()
		return
	}
	again, err := bbolt.Open(m.path, 0o640, &bbolt.Options{Timeout: 5 * time.Second}) // its lock is free
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
