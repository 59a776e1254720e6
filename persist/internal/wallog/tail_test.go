package wallog

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
)

// The file may end within the padding of the block that is the last one.
func TestASegmentThatEndsWithinItsLastBlockIsLookedThrough(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "test", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Log(t.Context(), persist.LogConfig{ID: persist.LogID{Name: "ticks"}, Engine: Driver{}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 { // a block each
		if !l.Append(&persist.Record{Version: order.Version{View: 1, Seq: order.Seq(n)}, Time: order.Time(n + 1), Sender: 1, Data: make([]byte, 10+n)}) {
			t.Fatal("the log is full")
		}
		if err := l.Sync(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	segment, err := lastSegment(filepath.Join(dir, "logs", "ticks.0"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:2048] // the rest is zeros
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
