package wallog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// written is the last segment of a log with so many blocks of one record each, and its path.
func written(t *testing.T, blocks int) (file []byte, path string) {
	t.Helper()
	dir := testutil.MemoryDir(t)
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "ticks"}, Engine: Driver{}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range blocks {
		if !l.Append(&persist.Record{Version: order.Version{View: 1, Seq: order.Seq(n)}, Time: order.Time(n + 1), Sender: 1, Data: make([]byte, 10+n)}) {
			t.Fatal("the log is full")
		}
		if err := l.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	path, err = lastSegment(filepath.Join(dir, "logs", "ticks.0"))
	if err == nil {
		file, err = os.ReadFile(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file[:2048], path // the rest is zeros
}

// indexes returns the indexes of the blocks in a file.
func indexes(file []byte) (all []uint64) {
	for b := range blocksIn(file, len(file)) {
		all = append(all, b.Index)
	}
	return all
}

func TestBlocksBeginWhereFramesDo(t *testing.T) {
	t.Parallel()
	file, _ := written(t, 3)
	for moved := range 2*frameHead + 1 {
		var want []uint64
		if moved%frameHead == 0 {
			want = []uint64{1, 2, 3}
		}
		if got := indexes(slices.Concat(file[:segmentHead], make([]byte, moved), file[segmentHead:])); !slices.Equal(got, want) {
			t.Errorf("moved by %d bytes: blocks %v, want %v", moved, got, want)
		}
	}
}

func TestWhatIsForgottenOfASegmentIsEverythingAfterTheLastBlock(t *testing.T) {
	t.Parallel()
	file, path := written(t, 4)
	dir := t.TempDir()
	path = filepath.Join(dir, filepath.Base(path))
	for last := range uint64(5) {
		err := os.WriteFile(path, file, 0o600)
		if err == nil {
			err = Driver{}.ForgetTail(dir, last)
		}
		left, e := os.ReadFile(path)
		if err := errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		if got, want := indexes(left), []uint64{1, 2, 3, 4}[:last]; !slices.Equal(got, want) {
			t.Errorf("blocks %v are left, want %v", got, want)
		}
	}
}

// The file may end within the padding of the block that is the last one.
func TestASegmentThatEndsWithinItsLastBlockIsLookedThrough(t *testing.T) {
	t.Parallel()
	whole, segment := written(t, 5)
	blocks := 0
	for b := range blocksIn(whole, len(whole)) {
		for cut := b.at + 1; cut <= b.at+b.bytes; cut++ { // what follows is a hole
			zeros := append(slices.Clone(whole[:cut]), make([]byte, len(whole)-cut)...)
			var want, got []foundBlock
			blocksIn(zeros, len(zeros))(func(f foundBlock) bool { want = append(want, f); return true })
			blocksIn(whole[:cut], len(whole))(func(f foundBlock) bool { got = append(got, f); return true })
			if !slices.Equal(got, want) {
				t.Fatalf("in front of a hole at %d there are %d blocks, and %d where zeros are", cut, len(got), len(want))
			}
		}
		for end := b.at + b.bytes; end <= b.at+framed(b.bytes); end++ {
			if torn, err := tornIn(whole[:end], end, segment, b.Index); err != nil || torn.Blocks != 0 {
				t.Errorf("block %d of %d bytes, in a segment of %d: %+v, %v", b.Index, b.bytes, end, torn, err)
			}
		}
		blocks++
	}
	if blocks != 5 {
		t.Errorf("%d blocks, not 5", blocks)
	}
}
