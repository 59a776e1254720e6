package persist

import (
	"encoding/binary"
	"errors"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/internal/journal"
)

// boltEngine is raft-boltdb, with a file whose room is set aside ahead of it. Otherwise the engine
// would lengthen it by 16 MiB at a time, each time with an fsync of everything that belongs to the
// file.
type boltEngine struct {
	*raftboltdb.BoltStore
	holder        // its file; the engine closes it
	size    int64 // of the file
	longest int64 // entry so far
}

// The file grows by as much as it has, within these bounds.
const (
	growMin = 1 << 20
	growMax = 128 << 20
)

// options leave the list of free pages out of the file: it would be written with every group, and
// is made from the tree instead.
func (e *boltEngine) options(o opening, dir string) raftboltdb.Options {
	return raftboltdb.Options{
		Path: filepath.Join(dir, boltFile),
		BoltOptions: &bbolt.Options{
			Timeout: engineTimeout, ReadOnly: o.readOnly, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, OpenFile: e.open,
		},
	}
}

// openBolt opens the log of a directory.
func openBolt(o opening, dir string) (abandoner, error) {
	e := &boltEngine{}
	defer func() {
		if e.BoltStore == nil && e.file != nil {
			_ = e.file.Close() // once more, unless the engine panicked
		}
	}()
	s, err := raftboltdb.New(e.options(o, dir))
	if err != nil {
		return nil, err
	}
	e.BoltStore = s
	if !o.readOnly { // the process before may have ended between a write and its sync
		if err := e.file.Sync(); err != nil {
			return nil, errors.Join(err, e.Close())
		}
	}
	if info, err := e.file.Stat(); err == nil {
		e.size = info.Size()
	}
	return e, nil
}

// StoreLogs sets room aside before the engine needs it. If there is none, the engine is not asked:
// it could not undo what it began.
func (e *boltEngine) StoreLogs(logs []*raft.Log) error {
	need := int64(0)
	for _, l := range logs {
		need += int64(len(l.Data)) + boltEntryBytes
		e.longest = max(e.longest, int64(len(l.Data)))
	}
	need += boltAgain * max(e.longest, int64(EngineBolt.block()))
	if err := e.reserve(need); err != nil {
		return err
	}
	return e.BoltStore.StoreLogs(logs)
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
	if err := setAside(e.file, size); err != nil {
		return err
	}
	if err := e.file.Sync(); err != nil { // the length is durable before anything relies on it
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
		h := make([]byte, headBytes)
		if _, err := e.file.ReadAt(h, i*page+pageHead); err != nil {
			return 0, err
		}
		page = int64(binary.LittleEndian.Uint32(h[8:])) // that of the machine that made the file
		if tx := binary.LittleEndian.Uint64(h[48:]); tx >= newest {
			newest, bytes = tx, page*int64(binary.LittleEndian.Uint64(h[40:]))
		}
	}
	return bytes, nil
}

func (e *boltEngine) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// GetLog tells an entry that is not there from one that cannot be decoded.
func (e *boltEngine) GetLog(index uint64, l *raft.Log) error {
	err := e.BoltStore.GetLog(index, l)
	if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return err
	}
	return errors.Join(journal.ErrDamaged, err)
}
