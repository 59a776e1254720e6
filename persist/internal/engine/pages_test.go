package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// smallFile makes a bbolt file of the smallest pages, with the buckets of a schema, branches, long
// values and a list of free pages.
func smallFile(tb testing.TB, s *Schema, noFreelist bool) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "small.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{PageSize: minPage, NoSync: true, NoFreelistSync: noFreelist})
	if err != nil {
		tb.Fatal(err)
	}
	for round := range 3 {
		err := db.Update(func(tx *bbolt.Tx) error {
			for n, name := range s.Buckets {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				for i := range uint64(60 * n) {
					key := binary.BigEndian.AppendUint64(nil, i+1)
					if err := b.Put(key, bytes.Repeat([]byte{byte(round)}, int(i*7%300+i/50*3000))); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.TrimRight(whole, "\x00")
}

func accepted(file []byte, s *Schema) error {
	return (&pages{ctx: context.Background(), path: "small.db", file: file, schema: s}).check()
}

func TestAWholeFileIsAccepted(t *testing.T) {
	t.Parallel()
	for _, s := range []*Schema{MetaSchema, BoltLogSchema, WALListSchema} {
		for _, noFreelist := range []bool{false, true} {
			file := smallFile(t, s, noFreelist)
			file = append(file, make([]byte, minPage-len(file)%minPage)...)
			if err := accepted(file, s); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestACheckThatIsNotWantedAnyMoreIsNoDamage(t *testing.T) {
	t.Parallel()
	file := smallFile(t, BoltLogSchema, true)
	file = append(file, make([]byte, minPage)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &pages{ctx: ctx, path: "small.db", file: file, schema: BoltLogSchema, visits: 255}
	if err := p.check(); !errors.Is(err, context.Canceled) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// FuzzPages gives the check any file: it ends, and does not take more memory than a few files.
func FuzzPages(f *testing.F) {
	for _, s := range []*Schema{BoltLogSchema, WALListSchema} {
		f.Add(smallFile(f, s, true))
		f.Add(smallFile(f, s, false))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		err := accepted(file, BoltLogSchema)
		runtime.ReadMemStats(&after)
		if took := time.Since(start); took > 10*time.Second || after.TotalAlloc-before.TotalAlloc > uint64(1<<20+64*len(file)) {
			t.Errorf("%v, %d bytes of memory for a file of %d: %v", took, after.TotalAlloc-before.TotalAlloc, len(file), err)
		}
	})
}

// FuzzWhatIsAcceptedIsFollowed changes some bytes of a file, and has the engine follow what the
// check accepts: all of it, for reading and for writing. What the engine finds by itself in a
// goroutine of its own ends the process.
func FuzzWhatIsAcceptedIsFollowed(f *testing.F) {
	files := [][]byte{smallFile(f, BoltLogSchema, true), smallFile(f, BoltLogSchema, false)}
	for i := range uint32(40) {
		f.Add(byte(i), i*1000+8, uint64(0xFF), byte(i))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, which byte, at uint32, value uint64, width byte) {
		whole := files[int(which)%len(files)]
		file := make([]byte, (len(whole)+minPage-1)/minPage*minPage)
		copy(file, whole)
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], value)
		copy(file[int(at)%len(file):], b[:1<<(width%4)])
		if which&0x80 != 0 { // the heads are good, whatever they say
			reseal(file, minPage)
		}
		if accepted(file, BoltLogSchema) != nil {
			return
		}
		path := filepath.Join(dir, "fuzz.db")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, noFreelist := range []bool{true, false} {
			followed(t, path, noFreelist)
		}
	})
}

// followed has the engine go through a file, and change it.
func followed(t *testing.T, path string, noFreelist bool) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: noFreelist, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	keys := 0
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error { keys++; return nil })
		})
	})
	if err != nil || keys == 0 {
		t.Fatalf("%d keys, %v", keys, err)
	}
	for round := range 3 {
		err = db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("logs"))
			c := b.Cursor()
			if k, _ := c.First(); k != nil {
				if err := c.Delete(); err != nil {
					return err
				}
			}
			last, _ := c.Last()
			return errors.Join(b.Put(binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(last)+1), make([]byte, 700*round)),
				tx.Bucket([]byte("conf")).Put([]byte("key"), []byte("value")))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckPages(t.Context(), path, BoltLogSchema); err != nil {
		t.Fatalf("what the engine made of it: %v", err)
	}
}

// A process whose sync of a head page failed ends, and the next one goes on with what the system
// has in memory. When the power goes then, the head page before the last one is missing.
func TestAHeadThatAFailedSyncLeftOutIsNoDamage(t *testing.T) {
	t.Parallel()
	file := smallFile(t, BoltLogSchema, false)
	file = append(file, make([]byte, minPage-len(file)%minPage)...)
	le := binary.LittleEndian
	older := PageHead + 48
	if le.Uint64(file[minPage+older:]) < le.Uint64(file[older:]) {
		older += minPage
	}
	le.PutUint64(file[older:], le.Uint64(file[older:])-2)
	reseal(file, minPage)
	if err := accepted(file, BoltLogSchema); err != nil {
		t.Error(err)
	}
}

// pageOf finds a page in use with some flags and at least some elements.
func pageOf(t *testing.T, file []byte, flags uint16, count int) (at int) {
	t.Helper()
	p := &pages{ctx: t.Context(), path: "small.db", file: file, schema: BoltLogSchema}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	for id := range p.high {
		if g := pageIn(file[id*p.size:]); p.visited(id) && g.id == id && g.flags == flags && g.count >= count {
			return int(id * p.size)
		}
	}
	t.Fatalf("no page with flags %#x and %d elements", flags, count)
	return 0
}

func TestEachRuleOfPagesIsChecked(t *testing.T) {
	t.Parallel()
	whole := smallFile(t, BoltLogSchema, false)
	whole = append(whole, make([]byte, minPage-len(whole)%minPage)...)
	le := binary.LittleEndian
	leaf, branch, list := pageOf(t, whole, leafPage, 3), pageOf(t, whole, branchPage, 3), pageOf(t, whole, freelistPage, 3)
	element := func(page, i int) int { return page + PageHead + elementSize*i }
	keyAt := func(file []byte, i int) int { return element(leaf, i) + int(le.Uint32(file[element(leaf, i)+4:])) }
	for _, x := range []struct {
		what  string
		wrong string
		do    func(file []byte)
	}{
		{"another id", "says that it is page", func(f []byte) { f[leaf]++ }},
		{"more pages than there are", "with 4294967295 more", func(f []byte) { le.PutUint32(f[leaf+12:], 1<<32-1) }},
		{"more pages than it uses", "ways lead to|pages more|listed as free", func(f []byte) { le.PutUint32(f[leaf+12:], 2) }},
		{"no kind", "has flags 0x3", func(f []byte) { f[leaf+8] = 3 }},
		{"too many elements", "and space for", func(f []byte) { le.PutUint16(f[leaf+10:], 0xFFFF) }},
		{"a branch of nothing", "and 0 elements", func(f []byte) { le.PutUint16(f[branch+10:], 0) }},
		{"two ways to a page", "two ways lead", func(f []byte) { copy(f[element(branch, 1)+8:][:8], f[element(branch, 0)+8:][:8]) }},
		{"a way round", "two ways lead", func(f []byte) { le.PutUint64(f[element(branch, 1)+8:], uint64(branch/minPage)) }},
		{"a way out of the file", "and there are", func(f []byte) { le.PutUint64(f[element(branch, 1)+8:], 1<<40) }},
		{"a value after the page", "does not lie within it", func(f []byte) { le.PutUint32(f[element(leaf, 2)+12:], 1<<31) }},
		{"a key elsewhere", "does not lie within it", func(f []byte) { f[element(leaf, 1)+4]++ }},
		{"a key out of order", "out of order", func(f []byte) { f[keyAt(f, 1)] = 0xFF }},
		{"an entry that is left out", "comes after entry", func(f []byte) { f[keyAt(f, 1)+7]++; f[keyAt(f, 2)+7]++ }},
		{"an entry with flags", "has flags", func(f []byte) { f[element(leaf, 1)] = 1 }},
		{"too many free pages", "has space for", func(f []byte) { le.PutUint16(f[list+10:], 0xFFFE) }},
		{"a count of free pages aside", "has space for", func(f []byte) {
			le.PutUint16(f[list+10:], countAside)
			le.PutUint64(f[list+PageHead:], 1<<62)
		}},
		{"a page that is free twice", "as free after page", func(f []byte) { copy(f[list+PageHead+8:][:8], f[list+PageHead:][:8]) }},
		{"a page that is in use and free", "in use, and listed as free|as free after", func(f []byte) {
			le.PutUint16(f[list+10:], 1)
			le.PutUint64(f[list+PageHead:], uint64(leaf/minPage))
		}},
		{"a bucket of another name", "where its buckets are", func(f []byte) {
			for at := bytes.Index(f, []byte("logs")); at >= 0; at = bytes.Index(f, []byte("logs")) {
				copy(f[at:], "lots")
			}
		}},
		{"a head page", "1 of its 2 head pages", func(f []byte) { f[PageHead+20]++ }},
		{"a head in the place of the other", "are of transactions", func(f []byte) { f[PageHead+48] += 3; reseal(f, minPage) }},
		{"a file that is longer", "and needs", func(f []byte) {
			le.PutUint64(f[PageHead+40:], 1<<50)
			le.PutUint64(f[minPage+PageHead+40:], 1<<50)
			reseal(f, minPage)
		}},
	} {
		file := bytes.Clone(whole)
		x.do(file)
		if err := accepted(file, BoltLogSchema); err == nil || !regexp.MustCompile(x.wrong).MatchString(err.Error()) || !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v, not %q", x.what, err, x.wrong)
		}
	}
}

// A page that takes in one more than it needs is damaged, also where the next page is not in use.
func TestAPageThatIsLongerThanItNeedsIsDamaged(t *testing.T) {
	t.Parallel()
	whole := smallFile(t, BoltLogSchema, true)
	whole = append(whole, make([]byte, minPage-len(whole)%minPage)...)
	p := &pages{ctx: t.Context(), path: "small.db", file: whole, schema: BoltLogSchema}
	if err := p.check(); err != nil {
		t.Fatal(err)
	}
	tried := 0
	for id := range p.high {
		g := pageIn(whole[id*p.size:])
		if after := id + g.overflow + 1; !p.visited(id) || g.id != id || after >= p.high || p.visited(after) {
			continue
		}
		file := bytes.Clone(whole)
		file[int(id*p.size)+12]++
		if err := accepted(file, BoltLogSchema); !errors.Is(err, ErrDamaged) {
			t.Errorf("page %d with %d more: %v", id, g.overflow+1, err)
		}
		tried++
	}
	if tried == 0 {
		t.Error("each page is in use")
	}
}

// What reads a log counts from the index of its first entry.
func TestAnIndexThatNoLogReachesIsDamage(t *testing.T) {
	t.Parallel()
	for index, good := range map[uint64]bool{0: false, 1: true, MaxIndex - 1: true, MaxIndex: false, 1<<64 - 1: false} {
		p := &pages{path: "small.db", schema: BoltLogSchema}
		if err := p.value("logs", element{key: binary.BigEndian.AppendUint64(nil, index)}); (err == nil) != good || !good && !errors.Is(err, ErrDamaged) {
			t.Errorf("index %d: %v", index, err)
		}
	}
}

// reseal gives the head pages the checksums that they should have.
func reseal(content []byte, size int) {
	for _, at := range []int{PageHead, size + PageHead} {
		sum := fnv.New64a()
		sum.Write(content[at:][:HeadBytes-8])
		binary.LittleEndian.PutUint64(content[at+HeadBytes-8:], sum.Sum64())
	}
}
