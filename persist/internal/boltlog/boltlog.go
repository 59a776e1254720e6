// Package boltlog is the log engine bolt, which is raft-boltdb.
package boltlog

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
	_ "github.com/squall-go/squall/persist/internal/values"
)

// Driver is the engine bolt: one file, a B+ tree.
type Driver struct{}

func init() { engine.Register(Driver{}) }

func (Driver) String() string { return "bolt" }

// blockBytes is how long a block gets. With every group raft-boltdb writes the leaf at the end of
// its tree again, with the up to three entries that were in it, however long they are: short blocks
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

// boltEngine is raft-boltdb, with a file whose room is set aside ahead of it. Otherwise the engine
// would lengthen it by 16 MiB at a time, each time with an fsync of everything that belongs to the
// file.
type boltEngine struct {
	*raftboltdb.BoltStore
	engine.Holder             // its file; the engine closes it
	size          int64       // of the file
	longest       int64       // entry so far
	logs          []*raft.Log // memory of StoreLogs
}

// The file grows by as much as it has, within these bounds.
const (
	growMin = 1 << 20
	growMax = 128 << 20
)

// options leave the list of free pages out of the file: it would be written with every group, and
// is made from the tree instead.
func (e *boltEngine) options(o engine.Opening, dir string) raftboltdb.Options {
	return raftboltdb.Options{
		Path: filepath.Join(dir, engine.BoltFile),
		BoltOptions: &bbolt.Options{
			Timeout: engine.Timeout, ReadOnly: o.ReadOnly, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, OpenFile: e.Holder.Open,
		},
	}
}

// Open implements engine.Driver.
func (Driver) Open(o engine.Opening, dir string) (engine.Abandoner, error) {
	e := &boltEngine{}
	defer func() {
		if e.BoltStore == nil && e.File != nil {
			_ = e.File.Close() // once more, unless the engine panicked
		}
	}()
	s, err := raftboltdb.New(e.options(o, dir))
	if err != nil {
		return nil, err
	}
	e.BoltStore = s
	if !o.ReadOnly { // the process before may have ended between a write and its sync
		if err := e.File.Sync(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
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
	for len(e.logs) < len(entries) {
		e.logs = append(e.logs, &raft.Log{Type: raft.LogCommand})
	}
	logs := e.logs[:len(entries)]
	for i, l := range entries {
		logs[i].Index, logs[i].Data = l.Index, l.Data
	}
	err := e.BoltStore.StoreLogs(logs)
	for _, l := range logs {
		l.Data = nil
	}
	return err
}

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

// GetLog tells an entry that is not there from one that cannot be decoded.
func (e *boltEngine) GetLog(index uint64, l *journal.Entry) error {
	var found raft.Log
	err := e.BoltStore.GetLog(index, &found)
	l.Index, l.Data = found.Index, found.Data
	switch {
	case errors.Is(err, raft.ErrLogNotFound):
		return journal.ErrNoEntry
	case err == nil || errors.Is(err, berrors.ErrDatabaseNotOpen):
		return err
	}
	return errors.Join(journal.ErrDamaged, err)
}

// Get returns nil for a key without a value.
func (e *boltEngine) Get(key []byte) ([]byte, error) {
	value, err := e.BoltStore.Get(key)
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return nil, nil
	}
	return value, err
}
