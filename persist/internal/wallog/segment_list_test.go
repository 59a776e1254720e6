package wallog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

func TestTheListOfSegmentsIsNotOpenedWithoutSyncs(t *testing.T) {
	t.Parallel()
	list := &segmentList{Opening: engine.Opening{Create: true}}
	if _, err := list.Load(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	if db := list.db; db.NoSync || db.NoGrowSync {
		t.Errorf("NoSync %v, NoGrowSync %v", db.NoSync, db.NoGrowSync)
	}
}

// twoSegments is a list of a segment with blocks 1 to 10, whose index is at 1000, and one that is
// written.
func twoSegments() types.PersistentState {
	return types.PersistentState{NextSegmentID: 3, Segments: []types.SegmentInfo{
		ofBlocks(types.SegmentInfo{ID: 1, BaseIndex: 1, MinIndex: 1, MaxIndex: 10, IndexStart: 1000, SealTime: time.Unix(1, 0), SizeLimit: 1 << 20}),
		ofBlocks(types.SegmentInfo{ID: 2, BaseIndex: 11, MinIndex: 11, SizeLimit: 1 << 20}),
	}}
}

func TestASegmentThatIsShorterThanTheListSaysIsDamaged(t *testing.T) {
	t.Parallel()
	for bytes, damaged := range map[int64]bool{-1: true, 999: true, 1000: true, 1039: true, 1040: false, 2000: false} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			list, s := &segmentList{dir: testutil.MemoryDir(t)}, twoSegments()
			if bytes >= 0 {
				if err := os.WriteFile(filepath.Join(list.dir, segment.FileName(s.Segments[0])), make([]byte, bytes), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := list.plausible(s); errors.Is(err, engine.ErrDamaged) != damaged || (err != nil) != damaged {
				t.Error(err)
			}
		})
	}
}

func TestAListOfSegmentsWithAnythingElseIsDamaged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(*bbolt.Bucket) error
		damaged bool
	}{
		"as it was":      {func(*bbolt.Bucket) error { return nil }, false},
		"without a sum":  {func(b *bbolt.Bucket) error { return b.Delete([]byte(listSumKey)) }, false},
		"a sum cut off":  {func(b *bbolt.Bucket) error { return b.Put([]byte(listSumKey), []byte{1, 2, 3}) }, true},
		"another sum":    {func(b *bbolt.Bucket) error { return b.Put([]byte(listSumKey), []byte{1, 2, 3, 4}) }, true},
		"another list":   {func(b *bbolt.Bucket) error { return b.Put([]byte(listKey), []byte("{}")) }, true},
		"without a list": {func(b *bbolt.Bucket) error { return b.Delete([]byte(listKey)) }, true},
		"one key more":   {func(b *bbolt.Bucket) error { return b.Put([]byte("key"), nil) }, true},
		"one key for a sum": {func(b *bbolt.Bucket) error {
			return errors.Join(b.Delete([]byte(listSumKey)), b.Put([]byte("key"), nil))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			list := &segmentList{Opening: engine.Opening{Create: true}}
			if _, err := list.Load(testutil.MemoryDir(t)); err != nil {
				t.Fatal(err)
			}
			defer list.Close()
			err := list.CommitState(twoSegments())
			if err == nil {
				err = list.db.Update(func(tx *bbolt.Tx) error { return c.change(tx.Bucket([]byte(listBucket))) })
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := list.list(); errors.Is(err, engine.ErrDamaged) != c.damaged || (err != nil) != c.damaged {
				t.Error(err)
			}
		})
	}
}
