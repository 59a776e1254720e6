// Package values keeps the values of a store in a file of bbolt.
package values

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/persist/internal/engine"
)

func init() {
	engine.CreateValues, engine.OpenValues = Create, func(dir string, readOnly bool) (engine.Values, error) { return Open(dir, readOnly) }
	engine.Explain([]error{berrors.ErrTimeout},
		[]error{berrors.ErrInvalid, berrors.ErrChecksum, berrors.ErrVersionMismatch, berrors.ErrInvalidMapping},
		[]error{berrors.ErrDatabaseNotOpen})
}

var bucket = []byte(engine.MetaBucket)

// Values is meta.db, which holds the few values that a member must not forget: what it promised,
// and the views that it knows. A value stands behind a checksum of its key and itself, because the
// engine has one for its two head pages only.
type Values struct {
	engine.Holder
	path   string
	db     *bbolt.DB
	broken atomic.Bool // the engine panicked

	mu     sync.Mutex
	failed error // of the first Put that failed: what the file holds now is not known, so there is no second one
}

// Create makes an empty file.
func Create(path string) error {
	db, err := bbolt.Open(path, 0o640, &bbolt.Options{Timeout: engine.Timeout})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	return errors.Join(err, db.Close())
}

// Open opens a file that is there. Its pages are checked first: the engine would follow damaged
// ones, and it takes a damaged head page for one that was never written, which would bring back
// what was true before the last Put.
func Open(dir string, readOnly bool) (*Values, error) {
	m := &Values{path: filepath.Join(dir, engine.MetaFile)}
	defer func() {
		if m.db == nil {
			_ = m.Abandon()
		}
	}()
	if err := engine.CheckPages(context.Background(), m.path, engine.MetaSchema); err != nil {
		return nil, err
	}
	err := engine.Guard(m.path, func() (err error) {
		m.db, err = bbolt.Open(m.path, 0o640, &bbolt.Options{Timeout: engine.Timeout, ReadOnly: readOnly, OpenFile: m.Holder.Open})
		return err
	})
	if err == nil && !readOnly { // the process before may have ended between a write and its sync
		err = m.run(m.db.Sync)
	}
	if err == nil {
		err = m.checkAll()
	}
	if err != nil && m.db != nil {
		err = errors.Join(err, m.Close())
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// checkAll looks at every value once, so that a damaged one is found when a member starts and not
// in the middle of its work.
func (m *Values) checkAll() error {
	return m.view(func(b *bbolt.Bucket) error {
		return b.ForEach(func(key, stored []byte) error {
			_, err := m.unpack(string(key), stored)
			return err
		})
	})
}

func (m *Values) view(look func(*bbolt.Bucket) error) error {
	return m.run(func() error {
		return m.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			if b == nil {
				return engine.Damaged(m.path, "the bucket %q is missing", engine.MetaBucket)
			}
			return look(b)
		})
	})
}

// Get returns nil for a key that has no value.
func (m *Values) Get(key string) (value []byte, err error) {
	err = m.view(func(b *bbolt.Bucket) error {
		if stored := b.Get([]byte(key)); stored != nil {
			value, err = m.unpack(key, stored)
		}
		return err
	})
	return value, err
}

// Keys lists what has a value.
func (m *Values) Keys() (keys []string, err error) {
	err = m.view(func(b *bbolt.Bucket) error {
		return b.ForEach(func(key, _ []byte) error {
			keys = append(keys, string(key))
			return nil
		})
	})
	return keys, err
}

// Put is one transaction: durable as a whole when it returns nil.
func (m *Values) Put(values map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return fmt.Errorf("%s: nothing is written after an error: %w", m.path, m.failed)
	}
	m.failed = m.run(func() error {
		return m.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucket)
			for key, value := range values {
				if err := change(b, key, value); err != nil {
					return fmt.Errorf("%q: %w", key, err)
				}
			}
			return nil
		})
	})
	return m.failed
}

func change(b *bbolt.Bucket, key string, value []byte) error {
	if value == nil {
		return b.Delete([]byte(key))
	}
	return b.Put([]byte(key), pack(key, value))
}

func pack(key string, value []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, valueSum(key, value)), value...)
}

func (m *Values) unpack(key string, stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, engine.Damaged(m.path, "the value of %q has no checksum", key)
	}
	value := append([]byte{}, stored[4:]...)
	if binary.LittleEndian.Uint32(stored) != valueSum(key, value) {
		return nil, engine.Damaged(m.path, "the value of %q has a wrong checksum", key)
	}
	return value, nil
}

func valueSum(key string, value []byte) uint32 {
	return crc.Add(crc.Of([]byte(key)), value)
}

// Close closes the file. After a panic of the engine it is abandoned.
func (m *Values) Close() error {
	if m.broken.Load() {
		return engine.Named(m.Abandon(), m.path)
	}
	return engine.Guard(m.path, m.db.Close)
}

// run has the engine do something, and notes whether it panicked.
func (m *Values) run(do func() error) error {
	err := engine.Guard(m.path, do)
	if engine.HasPanicked(err) {
		m.broken.Store(true)
	}
	return err
}
