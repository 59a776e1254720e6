package values

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// A damaged page of the engine may lead to the value of another key. Each of a few values stands
// for each other one.
func TestAValueOfAnotherKeyIsDamage(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	path := filepath.Join(dir, engine.MetaFile)
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{"a": []byte("one"), "b": []byte("two"), "ab": {}, "ba": []byte("one")}
	for key := range values {
		for other := range values {
			db, err := bbolt.Open(path, 0o640, &bbolt.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			err = db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket(bucket)
				for key, value := range values {
					if err := b.Put([]byte(key), pack(key, value)); err != nil {
						return err
					}
				}
				return b.Put([]byte(key), pack(other, values[other]))
			})
			if err := errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			m, err := Open(dir, false)
			if key != other {
				if !errors.Is(err, engine.ErrDamaged) {
					t.Fatalf("the value of %q is that of %q: %v", key, other, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := m.Get(key); err != nil || got == nil || !bytes.Equal(got, values[key]) {
				t.Errorf("%q has the value %q, %v; want %q", key, got, err, values[key])
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
