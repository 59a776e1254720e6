// Package boltlog is the log engine bolt: entries in a file of bbolt.
package boltlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
	_ "github.com/squall-go/squall/persist/internal/values"
)

// Driver is the engine bolt: one file, a B+ tree.
type Driver struct{}

func init() { engine.Register(Driver{}) }

func (Driver) String() string { return "bolt" }

// blockBytes is how long a block gets. With every group bbolt writes the leaf at the end of its
// tree again, with the up to three entries that were in it, however long they are: short blocks
// next to a long group make little of that.
const blockBytes = 512 << 10

// BlockBytes implements engine.Driver.
func (Driver) BlockBytes() int { return blockBytes }

// File implements engine.Driver.
func (Driver) File() (string, *engine.Schema) { return engine.BoltFile, engine.BoltLogSchema }

// LostTail implements engine.Driver: a tree has no tail.
func (Driver) LostTail(string, uint64) (torn journal.Repaired, err error) { return torn, nil }

// ForgetTail implements engine.Driver.
func (Driver) ForgetTail(string, uint64) error { return nil }

// The buckets of the file: blocks by their index, in 8 bytes, and the log's own values.
var logs, conf = []byte("logs"), []byte("conf")

// boltEngine sets room in its file aside ahead of it. Otherwise bbolt would lengthen the file by
// 16 MiB at a time, each time with an fsync of everything that belongs to it.
type boltEngine struct {
	engine.Holder // its file; bbolt closes it
	db            *bbolt.DB
	size          int64  // of the file
	longest       int64  // entry so far
	buffer        []byte // memory of StoreLogs
}

// The file grows by as much as it has, within these bounds.
const (
	growMin = 1 << 20
	growMax = 128 << 20
)

// options leave the list of free pages out of the file: it would be written with every group, and
// is made from the tree instead.
func (e *boltEngine) options(o engine.Opening) *bbolt.Options {
	return &bbolt.Options{
		Timeout: engine.Timeout, ReadOnly: o.ReadOnly, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, OpenFile: e.Holder.Open,
	}
}

// Open implements engine.Driver.
func (Driver) Open(o engine.Opening, dir string) (engine.Abandoner, error) {
	e := &boltEngine{}
	defer func() {
		if e.db == nil && e.File != nil {
			_ = e.File.Close() // once more, unless bbolt panicked
		}
	}()
	db, err := bbolt.Open(filepath.Join(dir, engine.BoltFile), 0o600, e.options(o))
	if err != nil {
		return nil, err
	}
	e.db = db
	switch {
	case o.Create:
		err = e.makeBuckets()
	case !o.ReadOnly: // the process before may have ended between a write and its sync
		err = e.File.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if info, err := e.File.Stat(); err == nil {
		e.size = info.Size()
	}
	return e, nil
}

// StoreLogs sets room aside before the engine needs it. If there is none, the engine is not asked:
// it could not undo what it began.
func (e *boltEngine) StoreLogs(entries []*journal.Entry) error {
	need := int64(0)
	for _, l := range entries {
		need += int64(len(l.Data)) + boltEntryBytes
		e.longest = max(e.longest, int64(len(l.Data)))
	}
	need += boltAgain * max(e.longest, int64(blockBytes))
	if err := e.reserve(need); err != nil {
		return err
	}
	bytes := 0
	for _, l := range entries {
		bytes += len(l.Data) + besideData
	}
	b := slices.Grow(e.buffer[:0], bytes) // the values stay where they are until the commit
	e.buffer = nil
	if cap(b) <= keptBytes {
		e.buffer = b
	}
	return e.db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(logs)
		for _, l := range entries {
			from := len(b)
			b = encode(b, l)
			if err := bucket.Put(keyOf(l.Index), b[from:len(b):len(b)]); err != nil {
				return err
			}
		}
		return nil
	})
}

// keptBytes is how much memory of StoreLogs a log keeps at most.
const keptBytes = 4 << 20

// boltEntryBytes is more than what an entry takes besides its data: its part of a page that is not
// full, and of the pages above it.
const boltEntryBytes = 3 * 4096

// boltAgain is the largest number of entries that are written again with a group: the entries that
// share a leaf with its first one.
const boltAgain = 4

func (e *boltEngine) reserve(need int64) error {
	used, err := e.used()
	if err != nil {
		return err
	}
	if used += need + growMin/2; used <= e.size {
		return nil
	}
	size := max(used, e.size+min(max(e.size, growMin), growMax))
	if err := engine.SetAside(e.File, size); err != nil {
		return err
	}
	if err := e.File.Sync(); err != nil { // the length is durable before anything relies on it
		return err
	}
	e.size = size
	return nil
}

// used is how far the pages in use go, as the newer one of the two head pages says. What is free
// among them is not looked for.
func (e *boltEngine) used() (bytes int64, err error) {
	var newest uint64
	page := int64(0)
	for i := range int64(2) {
		h := make([]byte, engine.HeadBytes)
		if _, err := e.File.ReadAt(h, i*page+engine.PageHead); err != nil {
			return 0, err
		}
		page = int64(binary.LittleEndian.Uint32(h[8:])) // that of the machine that made the file
		if tx := binary.LittleEndian.Uint64(h[48:]); tx >= newest {
			newest, bytes = tx, page*int64(binary.LittleEndian.Uint64(h[40:]))
		}
	}
	return bytes, nil
}

func (e *boltEngine) makeBuckets() error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(logs)
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(conf)
		}
		return err
	})
}

func keyOf(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

func (e *boltEngine) FirstIndex() (uint64, error) { return e.index((*bbolt.Cursor).First) }
func (e *boltEngine) LastIndex() (uint64, error)  { return e.index((*bbolt.Cursor).Last) }

// index returns the index of an entry, 0 if there is none.
func (e *boltEngine) index(which func(*bbolt.Cursor) (key, value []byte)) (i uint64, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		if key, _ := which(tx.Bucket(logs).Cursor()); key != nil {
			i = binary.BigEndian.Uint64(key)
		}
		return nil
	})
	return i, err
}

// GetLog tells an entry that is not there from one that cannot be decoded.
func (e *boltEngine) GetLog(index uint64, l *journal.Entry) error {
	return e.db.View(func(tx *bbolt.Tx) error {
		value := tx.Bucket(logs).Get(keyOf(index))
		if value == nil {
			return journal.ErrNoEntry
		}
		data, ok := decode(index, value)
		if !ok {
			return fmt.Errorf("%w: entry %d is not as it was written", journal.ErrDamaged, index)
		}
		l.Index, l.Data = index, bytes.Clone(data)
		return nil
	})
}

// DeleteRange implements journal.Store.
func (e *boltEngine) DeleteRange(first, last uint64) error {
	return e.db.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket(logs).Cursor()
		for key, _ := c.Seek(keyOf(first)); key != nil && binary.BigEndian.Uint64(key) <= last; key, _ = c.Next() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Set implements journal.Store.
func (e *boltEngine) Set(key, value []byte) error {
	return e.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(conf).Put(key, value) })
}

// Get returns nil for a key without a value.
func (e *boltEngine) Get(key []byte) (value []byte, err error) {
	err = e.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket(conf).Get(key))
		return nil
	})
	return value, err
}

func (e *boltEngine) Close() error { return e.db.Close() }
