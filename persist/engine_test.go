package persist

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// fillTo stores entries of 1 MiB behind an index.
func fillTo(t *testing.T, e engine.Log, from, to uint64) {
	t.Helper()
	data := bytes.Repeat([]byte("x"), 1<<20)
	for i := from; i <= to; i++ {
		if err := e.StoreLogs([]*journal.Entry{{Index: i, Data: data}}); err != nil {
			t.Fatalf("entry %d: %v", i, err)
		}
	}
}

func madeEngine(t *testing.T, e Engine) string {
	t.Helper()
	dir := testutil.MemoryDir(t)
	if err := engine.Create(e.(engine.Driver), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func opened(t *testing.T, e Engine, dir string) engine.Log {
	t.Helper()
	s, err := engine.Open(engine.Opening{Context: t.Context()}, e.(engine.Driver), dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The engine begins the next segment after it said that the entry which filled the last one is
// durable.
func TestALogThatIsClosedAsASegmentBecomesFullGoesOn(t *testing.T) {
	t.Parallel()
	for off := range uint64(3) {
		dir := madeEngine(t, EngineWAL)
		last := uint64(segmentBytes>>20) - 1 + off
		e := opened(t, EngineWAL, dir)
		fillTo(t, e, 1, last)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = opened(t, EngineWAL, dir)
		if have, err := e.LastIndex(); err != nil || have != last {
			t.Fatalf("the last entry is %d, %v; want %d", have, err, last)
		}
		fillTo(t, e, last+1, last+1)
		e.Close()
	}
}

func TestACutAsASegmentBecomesFullLeavesALogThatGoesOn(t *testing.T) {
	t.Parallel()
	for off := range uint64(3) {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			dir := madeEngine(t, EngineWAL)
			e := opened(t, EngineWAL, dir)
			full := uint64(segmentBytes>>20) - 1 + off
			fillTo(t, e, 1, full)
			if err := e.DeleteRange(full, full); err != nil {
				t.Fatal(err)
			}
			fillTo(t, e, full, full+2)
			e.Close()
			e = opened(t, EngineWAL, dir)
			defer e.Close()
			if first, err := e.FirstIndex(); err != nil || first != 1 {
				t.Fatal(first, err)
			}
			for i := uint64(1); i <= full+2; i++ {
				var l journal.Entry
				if err := e.GetLog(i, &l); err != nil || len(l.Data) != 1<<20 || l.Index != i {
					t.Fatalf("entry %d: %d bytes, %v", i, len(l.Data), err)
				}
			}
		})
	}
}

func TestARangeOfEntriesIsDroppedFromEitherEnd(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, kind Engine) {
		dir := madeEngine(t, kind)
		e := opened(t, kind, dir)
		for i := uint64(1); i <= 1000; i++ {
			if err := e.StoreLogs([]*journal.Entry{{Index: i, Data: bytes.Repeat([]byte{byte(i)}, 3000)}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range [][2]uint64{{1, 333}, {900, 1000}, {334, 334}} {
			if err := e.DeleteRange(r[0], r[1]); err != nil {
				t.Fatal(err)
			}
		}
		e.Close()
		e = opened(t, kind, dir)
		defer e.Close()
		first, _ := e.FirstIndex()
		last, _ := e.LastIndex()
		if first != 335 || last != 899 {
			t.Fatalf("from %d to %d", first, last)
		}
		for i := first; i <= last; i++ {
			var l journal.Entry
			if err := e.GetLog(i, &l); err != nil || l.Data[0] != byte(i) {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		var l journal.Entry
		if err := e.GetLog(334, &l); err == nil {
			t.Fatal("an entry that was dropped")
		}
	})
}
