package wallog

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/persist/internal/engine"
)

// The buckets and keys of the file with the list of segments. They are raft-wal's own, and one key
// more: the sum.
const (
	listBucket   = metadb.MetaBucket
	listKey      = metadb.MetaKey
	listSumKey   = "sum" // CRC-32C of the list, 4 bytes
	stableBucket = metadb.StableBucket
)

// segmentList is what raft-wal keeps its list of segments and the named values in. It replaces
// raft-wal's own because the engine believes the list: it makes a segment that is listed and
// missing, and deletes one that is here and not listed. So the list has a checksum, which changes
// with it in one transaction, and is compared with the files. It can be read only, too, and does
// not wait for ever for the lock of its file.
type segmentList struct {
	engine.Opening
	engine.Holder
	dir string
	db  *bbolt.DB
}

func (l *segmentList) path() string { return filepath.Join(l.dir, engine.WALListFile) }

// Load implements types.MetaStore.
func (l *segmentList) Load(dir string) (s types.PersistentState, err error) {
	l.dir = dir
	defer func() {
		if l.db == nil {
			_ = l.Abandon()
		}
	}()
	l.db, err = bbolt.Open(l.path(), 0o640, &bbolt.Options{ReadOnly: l.ReadOnly, Timeout: engine.Timeout, OpenFile: l.Holder.Open})
	if err != nil {
		return s, err
	}
	if l.Create {
		return s, l.db.Update(func(tx *bbolt.Tx) error {
			for _, name := range engine.WALListSchema.Buckets {
				if _, err := tx.CreateBucket([]byte(name)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	raw, err := l.list()
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, engine.Damaged(l.path(), "its list of segments cannot be read: %v", err)
	}
	return s, l.plausible(s)
}

// list reads the list and compares it with its checksum. One that was written before there were any
// has none.
func (l *segmentList) list() (raw []byte, err error) {
	err = l.db.View(func(tx *bbolt.Tx) error {
		var sum []byte
		known := 0
		b := tx.Bucket([]byte(listBucket))
		if err := b.ForEach(func(key, value []byte) error { known++; return nil }); err != nil {
			return err
		}
		if raw = bytes.Clone(b.Get([]byte(listKey))); raw == nil {
			return engine.Damaged(l.path(), "its list of segments is missing")
		}
		if sum = b.Get([]byte(listSumKey)); sum == nil && known == 1 {
			return nil
		}
		if len(sum) != 4 || known != 2 || binary.LittleEndian.Uint32(sum) != crc.Of(raw) {
			return engine.Damaged(l.path(), "its list of segments has a wrong checksum")
		}
		return nil
	})
	return raw, err
}

// plausible compares the list with what the engine makes, and with the files. The last segment may
// not be there: a crash may come before it is made.
func (l *segmentList) plausible(s types.PersistentState) error {
	for i := range s.Segments {
		x := &s.Segments[i]
		if what := implausible(s, i); what != "" {
			return engine.Damaged(l.path(), "segment %d of its list, which begins with block %d, %s", x.ID, x.BaseIndex, what)
		}
		info, err := os.Stat(filepath.Join(l.dir, segment.FileName(*x)))
		if engine.Missing(err) && i == len(s.Segments)-1 {
			return nil
		}
		if engine.Missing(err) {
			return engine.Damaged(filepath.Join(l.dir, segment.FileName(*x)), "it is missing")
		}
		if err != nil {
			return err
		}
		if entries := x.MaxIndex - x.BaseIndex + 1; x.IndexStart > 0 && (uint64(info.Size()) < x.IndexStart || (uint64(info.Size())-x.IndexStart)/4 < entries) {
			return engine.Damaged(filepath.Join(l.dir, segment.FileName(*x)), "it has %d bytes, and an index of %d blocks at %d", info.Size(), entries, x.IndexStart)
		}
	}
	if len(s.Segments) == 0 {
		return engine.Damaged(l.path(), "its list of segments is empty")
	}
	return nil
}

// implausible says what of a segment in a list cannot be; empty: nothing.
func implausible(s types.PersistentState, i int) string {
	x, last := &s.Segments[i], i == len(s.Segments)-1
	switch {
	case x.BaseIndex == 0 || x.MinIndex < x.BaseIndex || x.MinIndex >= engine.MaxIndex:
		return fmt.Sprintf("keeps them from block %d on", x.MinIndex)
	case x.ID >= s.NextSegmentID || s.NextSegmentID >= engine.MaxIndex:
		return fmt.Sprintf("should come before segment %d", s.NextSegmentID)
	case x.Codec != blockCodecID || x.SizeLimit == 0 || x.SizeLimit > maxSegmentBytes:
		return fmt.Sprintf("has codec %x and %d bytes", x.Codec, x.SizeLimit)
	case last != x.SealTime.IsZero():
		return "is not the last one and has no end, or is and has one"
	case last && (x.MaxIndex != 0 || x.IndexStart != 0):
		return fmt.Sprintf("has no end, and ends with block %d, before its index at %d", x.MaxIndex, x.IndexStart)
	case last:
		return ""
	case x.MaxIndex < x.MinIndex || s.Segments[i+1].BaseIndex != x.MaxIndex+1 || s.Segments[i+1].ID <= x.ID:
		return fmt.Sprintf("ends with block %d, and segment %d begins with block %d", x.MaxIndex, s.Segments[i+1].ID, s.Segments[i+1].BaseIndex)
	}
	return ""
}

// CommitState implements types.MetaStore: the list and its checksum change together, durably.
func (l *segmentList) CommitState(s types.PersistentState) error {
	if l.ReadOnly {
		return nil // what would be changed in it is this process's own
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return l.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(listBucket))
		if err := b.Put([]byte(listKey), raw); err != nil {
			return err
		}
		return b.Put([]byte(listSumKey), binary.LittleEndian.AppendUint32(nil, crc.Of(raw)))
	})
}

// GetStable implements types.MetaStore.
func (l *segmentList) GetStable(key []byte) (value []byte, err error) {
	err = l.db.View(func(tx *bbolt.Tx) error {
		value = bytes.Clone(tx.Bucket([]byte(stableBucket)).Get(key))
		return nil
	})
	return value, err
}

// SetStable implements types.MetaStore.
func (l *segmentList) SetStable(key, value []byte) error {
	if l.ReadOnly {
		return errFrozen
	}
	return l.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(stableBucket)).Put(key, value) })
}

// Close implements types.MetaStore. It may be called again.
func (l *segmentList) Close() error {
	if l.db == nil {
		return nil
	}
	return l.db.Close()
}
