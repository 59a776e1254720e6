package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// crashed is a copy of a log of segments that was never closed, with five groups of ten records.
func crashed(t *testing.T) (dir, segment string) {
	t.Helper()
	from := testutil.MemoryDir(t)
	_, l := reopened(t, from, LogConfig{Engine: EngineWAL})
	for n := 0; n < 50; n += 10 {
		appendSamples(t, l, n, n+10)
	}
	dir = testutil.MemoryDir(t)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir, lastSegment(t, dir)
}

// lastSegment is the file of a log of segments that was made last.
func lastSegment(t *testing.T, dir string) string {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "logs", "ticks.0", "*.wal"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	return segments[len(segments)-1] // a name begins with the number of the first block
}

// frameOf is where the frame of the block around a record says how long that is.
func frameOf(whole []byte, at int) int { return bytes.LastIndex(whole[:at], []byte("SQLB")) - 1 }

// spoil damages a record, or what is there for it.
func spoil(t *testing.T, segment string, n int, where func(whole []byte, at int) int) {
	t.Helper()
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(whole, sample(n).Data)
	if at < 0 {
		t.Fatal("no such record")
	}
	whole[where(whole, at)] ^= 0xFF
	if err := os.WriteFile(segment, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamageBeforeTheLastGroupIsNoInterruptedWrite(t *testing.T) {
	t.Parallel()
	for n := 9; n < 30; n += 10 {
		dir, segment := crashed(t)
		spoil(t, segment, n, frameOf)
		s := mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
		_, err := s.Log(t.Context(), LogConfig{ID: ticks})
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("record %d: %v", n, err)
		}
		l, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
		if err != nil {
			t.Fatal(err)
		}
		kept := int(l.Info().Count)
		reads(t, l.Range(order.Version{}, order.Version{}), 0, kept)
		appendSamples(t, l, kept, kept+1)
		again := testutil.MemoryDir(t)
		if err := os.CopyFS(again, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		_, l = reopened(t, again, LogConfig{})
		reads(t, l.Range(order.Version{}, order.Version{}), 0, kept+1)
	}
}

func TestALogThatWasNotClosedIsOpenedAsItIs(t *testing.T) {
	t.Parallel()
	dir, _ := crashed(t)
	_, l := reopened(t, dir, LogConfig{})
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 50)
}

// What is dropped at the end after a crash is told, however it came to be unreadable. How many
// records the last group has depends on the writer.
func TestAWriteThatDidNotEndIsTold(t *testing.T) {
	t.Parallel()
	dir, segment := crashed(t)
	spoil(t, segment, 49, func(_ []byte, at int) int { return at })
	r, err := Verify(t.Context(), dir, nil, nil)
	if err != nil || !r.OK() || r.Logs[0].Torn == nil || r.Logs[0].Torn.Number < 40 {
		t.Fatalf("%+v, %v", r, err)
	}
	torn := int(r.Logs[0].Torn.Number)
	_, l := reopened(t, dir, LogConfig{})
	if got := l.Info(); int(got.Count) != torn || got.Repaired.Blocks == 0 || int(got.Repaired.Record) != torn || got.Repaired.Version != sample(torn).Version {
		t.Fatalf("%+v", got)
	}
	appendSamples(t, l, torn, torn+1)
	again := testutil.MemoryDir(t)
	if err := os.CopyFS(again, os.DirFS(dir)); err != nil { // another crash, and nothing was being written
		t.Fatal(err)
	}
	_, l = reopened(t, again, LogConfig{})
	if got := l.Info(); int(got.Count) != torn+1 || got.Repaired.Blocks != 0 {
		t.Errorf("%+v", got)
	}
}

// The end of the last segment is gone, and what remains is well formed: it is damage if it reaches
// behind the note of how far the log goes. The member then gets the rest from others.
func TestASegmentThatEndsBeforeTheNoteIsDamaged(t *testing.T) {
	t.Parallel()
	from := testutil.MemoryDir(t)
	_, l := reopened(t, from, LogConfig{Engine: EngineWAL, noteEvery: 2})
	for n := 0; n < 50; n += 10 {
		appendSamples(t, l, n, n+10)
	}
	harms := map[string]func(file *os.File, at, size int64) error{
		"cut off": func(file *os.File, at, _ int64) error { return file.Truncate(at) },
		"zeroed": func(file *os.File, at, size int64) error {
			_, err := file.WriteAt(make([]byte, size-at), at)
			return err
		},
	}
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			dir := testutil.MemoryDir(t)
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			kept := harmBehind(t, dir, harm)
			if r, err := Verify(t.Context(), dir, nil, nil); err != nil || r.OK() {
				t.Errorf("it is not found: %+v, %v", r, err)
			}
			s := mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
			if _, err := s.Log(t.Context(), LogConfig{ID: ticks}); !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			l, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Info(); int(got.Count) != kept || int(got.Repaired.Record) != kept {
				t.Errorf("%d records were kept, and %+v", kept, got)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), 0, kept)
			appendSamples(t, l, kept, kept+10)
			l = reopenedAs(t, dir, LogConfig{})
			reads(t, l.Range(order.Version{}, order.Version{}), 0, kept+10)
		})
	}
}

// noted is a store that has nothing but notes of where its log ends.
type noted struct {
	journal.Store
	values map[string][]byte
}

func (n noted) Get(key []byte) ([]byte, error) { return n.values[string(key)], nil }

func TestALogThatEndsBeforeANoteIsDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, key := range [][]byte{endKey, leastKey} {
		end := journal.End{Block: 5, Records: 50, Version: sample(49).Version}
		s := noted{values: map[string][]byte{string(key): encodeEnd(end)}}
		for block := range uint64(8) {
			torn, err := lostEnd(s, EngineWAL.(engine.Driver), dir, block)
			var d *journal.Damage
			if found := errors.As(err, &d); found != (block < end.Block) || err != nil && !found || torn.Blocks > 0 {
				t.Errorf("%s, the log ends with block %d: %v, %+v", key, block, err, torn)
			} else if found && (d.Block != block+1 || d.Record != end.Records || d.Version != end.Version) {
				t.Errorf("%s, the log ends with block %d: %+v", key, block, d)
			}
		}
	}
}

// notes counts how often the end of a log is noted.
type notes struct {
	engine.Log
	n int
}

func (c *notes) Set(key, value []byte) error {
	if bytes.Equal(key, leastKey) {
		c.n++
	}
	return c.Log.Set(key, value)
}

func TestTheEndOfALogIsNotedOnceInSoManyBlocks(t *testing.T) {
	t.Parallel()
	c := &notes{}
	s, l := reopened(t, testutil.MemoryDir(t), LogConfig{noteEvery: 4, wrap: func(e engine.Log) engine.Log { c.Log = e; return c }})
	for n := range 12 { // a block each
		appendSamples(t, l, n, n+1)
	}
	mustClose(t, s)
	if c.n != 3 {
		t.Errorf("noted %d times", c.n)
	}
}

// harmBehind harms the last segment of a store behind its first block, and returns how many records
// are before that place.
func harmBehind(t *testing.T, dir string, harm func(file *os.File, at, size int64) error) (kept int) {
	t.Helper()
	segment := lastSegment(t, dir)
	whole, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(segment, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	length := int(binary.LittleEndian.Uint32(whole[segmentHead+4:]))
	b, err := journal.Look(whole[segmentHead+frameHead:][:length])
	if err != nil {
		t.Fatal(err)
	}
	if err := harm(file, int64(segmentHead+frameHead+framed(length)), int64(len(whole))); err != nil {
		t.Fatal(err)
	}
	kept = int(b.First) + int(b.Count)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return kept
}
