package persist

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
)

// metaFile holds the few values that a member must not forget: what it promised, and the views that
// it knows.
const metaFile = "meta.db"

var metaBucket = []byte("squall")

// engineTimeout is how long an engine waits for the lock of its file. The store's own lock was
// taken before, so the process that holds this one is no Squall.
const engineTimeout = time.Second

// meta is meta.db. A value stands behind a checksum of its key and itself, because the engine has
// one for its two head pages only.
type meta struct {
	holder
	path   string
	db     *bbolt.DB
	broken atomic.Bool // the engine panicked

	mu     sync.Mutex
	failed error // of the first Put that failed: what the file holds now is not known, so there is no second one
}

// createMeta makes the file under another name, so that a crash leaves all of it or nothing.
func createMeta(d disk, dir string) error {
	path := filepath.Join(dir, metaFile)
	temp := path + ".new"
	if err := d.RemoveAll(temp); err != nil {
		return named(err, temp)
	}
	if err := guard(temp, func() error { return initialise(temp) }); err != nil {
		return err
	}
	if err := d.Rename(temp, path); err != nil {
		return named(err, path)
	}
	return syncDir(d, dir)
}

func initialise(path string) error {
	db, err := bbolt.Open(path, 0o640, &bbolt.Options{Timeout: engineTimeout})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(metaBucket)
		return err
	})
	return errors.Join(err, db.Close())
}

// openMeta opens a file that is there. Its pages are checked first: the engine would follow damaged
// ones, and it takes a damaged head page for one that was never written, which would bring back
// what was true before the last Put.
func openMeta(dir string, readOnly bool) (*meta, error) {
	m := &meta{path: filepath.Join(dir, metaFile)}
	defer func() {
		if m.db == nil {
			_ = m.abandon()
		}
	}()
	if err := checkPages(context.Background(), m.path, metaSchema); err != nil {
		return nil, err
	}
	err := guard(m.path, func() (err error) {
		m.db, err = bbolt.Open(m.path, 0o640, &bbolt.Options{Timeout: engineTimeout, ReadOnly: readOnly, OpenFile: m.holder.open})
		return err
	})
	if err == nil && !readOnly { // the process before may have ended between a write and its sync
		err = m.run(m.db.Sync)
	}
	if err == nil {
		err = m.checkAll()
	}
	if err != nil && m.db != nil {
		err = errors.Join(err, m.close())
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// checkAll looks at every value once, so that a damaged one is found when a member starts and not
// in the middle of its work.
func (m *meta) checkAll() error {
	return m.view(func(b *bbolt.Bucket) error {
		return b.ForEach(func(key, stored []byte) error {
			_, err := m.unpack(string(key), stored)
			return err
		})
	})
}

func (m *meta) view(look func(*bbolt.Bucket) error) error {
	return m.run(func() error {
		return m.db.View(func(tx *bbolt.Tx) error {
			b := tx.Bucket(metaBucket)
			if b == nil {
				return damaged(m.path, "the bucket %q is missing", metaBucket)
			}
			return look(b)
		})
	})
}

// get returns nil for a key that has no value.
func (m *meta) get(key string) (value []byte, err error) {
	err = m.view(func(b *bbolt.Bucket) error {
		if stored := b.Get([]byte(key)); stored != nil {
			value, err = m.unpack(key, stored)
		}
		return err
	})
	return value, err
}

// keys lists what has a value.
func (m *meta) keys() (keys []string, err error) {
	err = m.view(func(b *bbolt.Bucket) error {
		return b.ForEach(func(key, _ []byte) error {
			keys = append(keys, string(key))
			return nil
		})
	})
	return keys, err
}

// put is one transaction: durable as a whole when it returns nil.
func (m *meta) put(values map[string][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return fmt.Errorf("%s: nothing is written after an error: %w", m.path, m.failed)
	}
	m.failed = m.run(func() error {
		return m.db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(metaBucket)
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

func (m *meta) unpack(key string, stored []byte) ([]byte, error) {
	if len(stored) < 4 {
		return nil, damaged(m.path, "the value of %q has no checksum", key)
	}
	value := append([]byte{}, stored[4:]...)
	if binary.LittleEndian.Uint32(stored) != valueSum(key, value) {
		return nil, damaged(m.path, "the value of %q has a wrong checksum", key)
	}
	return value, nil
}

func valueSum(key string, value []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(key), castagnoli), castagnoli, value)
}

func (m *meta) close() error {
	if m.broken.Load() {
		return named(m.abandon(), m.path)
	}
	return guard(m.path, m.db.Close)
}

// run has the engine do something, and notes whether it panicked.
func (m *meta) run(do func() error) error {
	err := guard(m.path, do)
	if hasPanicked(err) {
		m.broken.Store(true)
	}
	return err
}
