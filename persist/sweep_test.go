package persist

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// A sweep changes each field of each page and frame of a store's files to what it should not be,
// one at a time, and looks what becomes of it: everything is there as it was, or an error says that
// it is damaged and repair leaves records that were appended.

// The bars of a harmed store: what one trial of it takes at most.
const (
	sweepPatience = 10 * time.Second
	sweepMemory   = 200 << 20
	sweepSample   = 60 // trials for each store with the tag system, and a third of them without it
)

// harmed is one change of a file.
type harmed struct {
	file string // relative to the store's directory
	what string
	do   func(content []byte) []byte
}

// pristine is a store that is to be harmed, file by file.
type pristine struct {
	name    string
	files   map[string][]byte // without the zeros at their ends
	sizes   map[string]int64
	records int
	closed  bool // the log was closed, so that no record of it may be missing unsaid
}

// pristines are the stores of a sweep: both engines, each closed and as a crash leaves it.
func pristines(t *testing.T) (all []*pristine) {
	t.Helper()
	for _, e := range []Engine{EngineBolt, EngineWAL} {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e, noteEvery: 4})
		for i := range 40 {
			s.mustPut(t, fmt.Sprintf("key %03d", i), make([]byte, 100+i*10))
		}
		s.mustPut(t, "large", make([]byte, 20_000)) // several pages, and a list of free ones
		s.mustPut(t, "large", nil)
		s.mustPut(t, "large", make([]byte, 9_000))
		n := 0
		step := func(by int) {
			appendSamples(t, l, n, n+by)
			n += by
		}
		for range 30 {
			step(3)
		}
		l.SetGlobal(sample(n - 1).Version)
		if err := l.Snapshot(sample(20).Version, writes("state")); err != nil {
			t.Fatal(err)
		}
		if err := l.Cut(sample(n - 11).Version); err != nil { // wal: another segment
			t.Fatal(err)
		}
		n -= 10
		for range 10 {
			step(2)
		}
		if err := l.Cut(sample(n - 6).Version); err != nil {
			t.Fatal(err)
		}
		n -= 5
		for range 5 {
			step(1)
		}
		all = append(all, taken(t, fmt.Sprintf("%v, crashed", e), dir, n, false))
		mustClose(t, s)
		all = append(all, taken(t, fmt.Sprintf("%v, closed", e), dir, n, true))
	}
	return all
}

func (s *Store) mustPut(t *testing.T, key string, value []byte) {
	t.Helper()
	if err := s.Put(map[string][]byte{key: value}); err != nil {
		t.Fatal(err)
	}
}

// taken is a copy of a store's files.
func taken(t *testing.T, name, dir string, records int, closed bool) *pristine {
	t.Helper()
	p := &pristine{name: name, files: map[string][]byte{}, sizes: map[string]int64{}, records: records, closed: closed}
	for _, pattern := range []string{"*", "logs/*/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			content, err := os.ReadFile(path)
			if err != nil {
				continue // a directory
			}
			file, err := filepath.Rel(dir, path)
			if err != nil {
				t.Fatal(err)
			}
			p.files[file], p.sizes[file] = bytes.Clone(bytes.TrimRight(content, "\x00")), int64(len(content))
			if strings.HasSuffix(file, ".wal") { // to set 64 MiB aside again for each trial takes long
				p.sizes[file] = int64(len(p.files[file]) + 1<<16)
			}
		}
	}
	return p
}

// put writes the store to a directory, one file of it harmed.
func (p *pristine) put(dir string, h harmed) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs", "ticks.0"), 0o755); err != nil {
		return err
	}
	for file, content := range p.files {
		size := p.sizes[file]
		if file == h.file {
			whole := make([]byte, min(size, int64(len(content))+8192))
			copy(whole, content)
			content = h.do(whole)
			if len(content) != len(whole) {
				size = int64(len(content))
			}
		}
		path := filepath.Join(dir, file)
		if err := errors.Join(os.WriteFile(path, content, 0o600), os.Truncate(path, size)); err != nil {
			return err
		}
	}
	return nil
}

// harms are all changes of a store.
func (p *pristine) harms(rnd *rand.Rand) (all []harmed) {
	var files []string
	for file := range p.files {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		s := &sweep{file: file, content: p.files[file], size: p.sizes[file], rnd: rnd}
		switch {
		case strings.HasSuffix(file, ".db"):
			s.pages()
			if strings.HasSuffix(file, engine.WALListFile) {
				s.list()
			}
		case strings.HasSuffix(file, ".wal"):
			s.segment()
		default:
			s.bytes(0, len(s.content), 12)
		}
		s.lengths()
		all = append(all, s.all...)
	}
	return all
}

// sweep collects the changes of a file.
type sweep struct {
	file    string
	content []byte
	size    int64
	rnd     *rand.Rand
	all     []harmed
}

func (s *sweep) add(what string, do func(content []byte) []byte) {
	s.all = append(s.all, harmed{s.file, what, do})
}

// field changes a number of some bytes to all that it should not be. The others are numbers of the
// same kind. seal repairs a checksum above it.
func (s *sweep) field(what string, at, width int, seal func(content []byte), others ...uint64) {
	var b [8]byte
	copy(b[:width], s.content[min(at, len(s.content)):])
	old, top := binary.LittleEndian.Uint64(b[:]), ^uint64(0)>>(64-8*width)
	values := append(others, 0, 1, old+1, old-1, top, top>>1+1, s.rnd.Uint64()&top)
	slices.Sort(values)
	for _, v := range slices.Compact(values) {
		if v &= top; v == old {
			continue
		}
		s.add(fmt.Sprintf("%s at %d: %#x instead of %#x", what, at, v, old), func(content []byte) []byte {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], v)
			copy(content[at:], b[:width])
			if seal != nil {
				seal(content)
			}
			return content
		})
	}
}

// bytes changes some bytes of a stretch.
func (s *sweep) bytes(from, to, count int) {
	for range min(count, to-from) {
		at, bit := from+s.rnd.IntN(to-from), byte(1<<s.rnd.IntN(8))
		s.add(fmt.Sprintf("a bit of byte %d", at), func(content []byte) []byte { content[at] ^= bit; return content })
	}
}

func (s *sweep) lengths() {
	for _, length := range []int64{0, 1, 7, 4095, 4096, 8192, 3 * 4096, s.size / 2, s.size - 1} {
		if length < int64(len(s.content)) {
			s.add(fmt.Sprintf("cut to %d bytes", length), func(content []byte) []byte { return content[:length:length] })
		}
	}
	for at := 0; at < len(s.content); at += 4096 {
		s.add(fmt.Sprintf("zeros at %d", at), func(content []byte) []byte { clear(content[at:min(at+4096, len(content))]); return content })
	}
}

// The layout of a bbolt file, as package engine checks it.
const (
	pageHead    = engine.PageHead
	headBytes   = engine.HeadBytes
	elementSize = 16

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketElement = 0x01
	bucketHead    = 16
)

// The layout of a segment, as package wallog reads it.
const (
	segmentHead = 32
	frameHead   = 8
	entryFrame  = 1
	indexFrame  = 2
	commitFrame = 3
)

// framed is how long a frame with so many bytes is.
func framed(length int) int { return frameHead + (length+frameHead-1)&^(frameHead-1) }

// The buckets and keys of a list of segments.
const (
	listBucket = "wal-meta"
	listKey    = "m"
	listSumKey = "sum"
)

// pages changes the fields of a bbolt file. It finds them by itself: every page is looked at, in
// use or not.
func (s *sweep) pages() {
	const size = 4096
	high := uint64(len(s.content)+size-1) / size
	for i := range uint64(2) {
		seal := func(content []byte) { reseal(content, size) }
		at := int(i)*size + pageHead
		for _, width := range []int{4, 4, 4, 4, 8, 8, 8, 8, 8, 8} {
			s.field("head", at, width, nil, high-1, high, 3)
			s.field("sealed head", at, width, seal, high-1, high, high+1, 3, 4, 1<<12, 1<<14)
			at += width
		}
	}
	for id := range high {
		at := int(id) * size
		s.field("id", at, 8, nil, id+1, 3, high)
		s.field("flags", at+8, 2, nil, branchPage, leafPage, 4, freelistPage, 3)
		s.field("count", at+10, 2, nil, 0xFFFF)
		s.field("overflow", at+12, 4, nil, high-id, high-id-1, high)
		s.bytes(at, min(at+size, len(s.content)), 4)
		head := append(bytes.Clone(s.content[at:min(at+pageHead, len(s.content))]), make([]byte, pageHead)...)
		flags, count := binary.LittleEndian.Uint16(head[8:]), int(binary.LittleEndian.Uint16(head[10:]))
		if id < 2 || binary.LittleEndian.Uint64(head) != id {
			continue // a head page, or the rest of another one
		}
		for i := range min(count, 64) {
			if i > 1 && i+1 < count && flags != freelistPage {
				continue // like the elements beside it
			}
			e := at + pageHead + elementSize*i
			switch flags {
			case branchPage:
				s.field("branch position", e, 4, nil)
				s.field("branch key", e+4, 4, nil)
				s.field("branch page", e+8, 8, nil, id, 3, high, high-1)
			case leafPage:
				s.field("leaf flags", e, 4, nil)
				s.field("leaf position", e+4, 4, nil)
				s.field("leaf key", e+8, 4, nil)
				s.field("leaf value", e+12, 4, nil)
				s.key(e)
			case freelistPage:
				s.field("free page", at+pageHead+8*i, 8, nil, id, 3, high)
			}
		}
	}
}

// reseal gives the head pages the checksums that they should have.
func reseal(content []byte, size int) {
	for _, at := range []int{pageHead, size + pageHead} {
		sum := fnv.New64a()
		sum.Write(content[at:][:headBytes-8])
		binary.LittleEndian.PutUint64(content[at+headBytes-8:], sum.Sum64())
	}
}

// key changes the key of an element, and what leads to a bucket.
func (s *sweep) key(e int) {
	if e+elementSize > len(s.content) {
		return
	}
	word := func(at int) int { return int(binary.LittleEndian.Uint32(s.content[e+at:])) }
	key, value := e+word(4), e+word(4)+word(8)
	if value+16 > len(s.content) {
		return
	}
	for at := key; at < value; at += max(1, (value-key)/3) {
		s.field("key", at, 1, nil)
	}
	if word(0) == bucketElement {
		s.field("bucket root", value, 8, nil, 3, 4, 5)
		s.field("bucket sequence", value+8, 8, nil)
	}
	if word(0) == bucketElement && word(12) >= bucketHead+pageHead+elementSize {
		at := value + bucketHead
		for _, width := range []int{8, 2, 2, 4, 4, 4, 4, 4} {
			s.field("bucket page", at, width, nil)
			at += width
		}
	}
}

// list changes the list of segments, with its checksum and without.
func (s *sweep) list() {
	for _, sealed := range []bool{false, true} {
		for segment := range 3 {
			for field := range reflect.TypeFor[types.SegmentInfo]().NumField() {
				for _, v := range []uint64{0, 1, 2, 1000, 1<<32 - 1, ^uint64(0), s.rnd.Uint64()} {
					s.relist(sealed, fmt.Sprintf("field %d of segment %d: %d", field, segment, v), func(p *types.PersistentState) {
						x := reflect.ValueOf(&p.Segments[segment%len(p.Segments)]).Elem().Field(field)
						if x.CanUint() {
							x.SetUint(v & (^uint64(0) >> (64 - 8*x.Type().Size())))
						} else if v == 0 || x.IsZero() {
							x.Set(reflect.ValueOf(p.Segments[0].CreateTime.Truncate(0)))
						}
						if !x.CanUint() && v == 0 {
							x.SetZero()
						}
					})
				}
			}
		}
		for _, v := range []uint64{0, 1, 2, ^uint64(0)} {
			s.relist(sealed, fmt.Sprintf("next segment %d", v), func(p *types.PersistentState) { p.NextSegmentID = v })
		}
		s.relist(sealed, "no segments", func(p *types.PersistentState) { p.Segments = nil })
		s.relist(sealed, "the last segment left out", func(p *types.PersistentState) { p.Segments = p.Segments[:len(p.Segments)-1] })
		s.relist(sealed, "the first segment left out", func(p *types.PersistentState) { p.Segments = p.Segments[1:] })
		s.relist(sealed, "segments in another order", func(p *types.PersistentState) { slices.Reverse(p.Segments) })
	}
}

func (s *sweep) relist(sealed bool, what string, change func(p *types.PersistentState)) {
	s.add(fmt.Sprintf("list, sealed %v: %s", sealed, what), func(content []byte) []byte {
		b, err := relisted(content, sealed, change)
		if err != nil {
			panic(err)
		}
		return b
	})
}

// relisted changes the list within a file.
func relisted(content []byte, sealed bool, change func(p *types.PersistentState)) ([]byte, error) {
	dir, err := os.MkdirTemp("", "squall-list-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, engine.WALListFile)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return nil, err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(listBucket))
		var p types.PersistentState
		if err := json.Unmarshal(b.Get([]byte(listKey)), &p); err != nil {
			return err
		}
		change(&p)
		raw, err := json.Marshal(p)
		if err != nil {
			return err
		}
		if sealed {
			sum := binary.LittleEndian.AppendUint32(nil, crc.Of(raw))
			err = b.Put([]byte(listSumKey), sum)
		}
		return errors.Join(err, b.Put([]byte(listKey), raw))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// segment changes the head and the frames of a segment.
func (s *sweep) segment() {
	for at := 0; at < segmentHead; at += 8 {
		s.field("segment head", at, 8, nil)
	}
	for at := segmentHead; at+frameHead <= len(s.content); {
		kind, length := s.content[at], int(binary.LittleEndian.Uint32(s.content[at+4:]))
		s.field("frame kind", at, 1, nil, entryFrame, indexFrame, commitFrame, 4)
		s.field("frame reserved", at+1, 1, nil)
		s.field("frame length", at+4, 4, nil, uint64(length+8), uint64(length-8), uint64(len(s.content)-at), 64<<20, 64<<20+1)
		if kind == commitFrame {
			at += frameHead
			continue
		}
		end := min(at+frameHead+length, len(s.content))
		if kind == indexFrame {
			for i := at + frameHead; i+4 <= end; i += 4 {
				s.field("place", i, 4, nil, 32, uint64(at))
			}
		}
		s.bytes(at+frameHead, end, 3)
		at += framed(length)
	}
}

// outcome is what became of a harmed store.
type outcome string

const (
	asBefore outcome = "nothing was lost"
	torn     outcome = "the last write was taken for an interrupted one"
	refusal  outcome = "the directory was refused"
	part     outcome = "a good part of the tree was taken for all of it, which nothing tells before the log was closed"
	mended   outcome = "repaired"
	aside    outcome = "set aside"
)

// trial opens, reads, verifies and repairs a harmed store. An error says what it must not do.
func (p *pristine) trial(ctx context.Context, dir string, h harmed) (outcome, error) {
	if _, err := Verify(context.Background(), dir, nil, nil); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerFormat) {
		return "", fmt.Errorf("verify: %w", err)
	}
	if _, err := p.readAll(ctx, Config{Dir: dir, ReadOnly: true}, LogConfig{}); err != nil && !saysDamage(err) {
		return "", fmt.Errorf("reading: %w", err)
	}
	got, err := p.readAll(ctx, Config{Dir: dir, Cluster: "test", Node: 1}, LogConfig{})
	if err == nil {
		return p.judge(got, h)
	}
	if !saysDamage(err) {
		return "", fmt.Errorf("opening: %w", err)
	}
	return p.repaired(ctx, dir)
}

func saysDamage(err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrOtherCluster) || errors.Is(err, ErrOtherNode) || errors.Is(err, ErrOtherLog)
}

// unnoted is how many records may be behind the last note of where a log that a crash left is
// certain to go.
const unnoted = 5

// harmsTail reports whether a harm takes the end of a write-ahead log away, or leads to a list of
// segments that is older than the last one.
func harmsTail(h harmed) bool {
	if strings.HasSuffix(h.file, "wal-meta.db") {
		return strings.HasPrefix(h.what, "sealed head")
	}
	return strings.HasSuffix(h.file, ".wal") && (strings.HasPrefix(h.what, "cut to") || strings.HasPrefix(h.what, "zeros"))
}

// judge compares how many records were read with how many there were. After a crash the last write
// may be missing, but that is told, unless nothing is left of it. A head whose checksum was made
// for it may lead to the tree before the last write, with all that was in it.
func (p *pristine) judge(got Info, h harmed) (outcome, error) {
	switch end := int(got.Last.Number) + 1; {
	case end == p.records && got.Count > 0:
		return asBefore, nil
	case !p.closed && end == p.records-1 && (got.Repaired.Blocks > 0 || strings.HasPrefix(h.what, "zeros")):
		return torn, nil
	case strings.HasPrefix(h.what, "sealed head") && end >= p.records-1:
		return torn, nil
	case !p.closed && end >= p.records-unnoted && harmsTail(h):
		return torn, nil
	case !p.closed && strings.HasPrefix(h.what, "bucket root") && end >= p.records-unnoted:
		return part, nil
	default:
		return "", fmt.Errorf("%d records of %d, and nothing is said: %+v", end, p.records, got)
	}
}

// repaired repairs the log, as its member or an operator does, and reads and writes what is left of
// it.
func (p *pristine) repaired(ctx context.Context, dir string) (outcome, error) {
	c := Config{Dir: dir, Cluster: "test", Node: 1}
	s, err := Open(ctx, c)
	if err != nil {
		return refusal, nil // the store's own files
	}
	how := mended
	repair := LogConfig{ID: ticks, Repair: true}
	l, err := s.Log(ctx, repair)
	if errors.Is(err, ErrSnapshot) {
		if _, err = s.SetSnapshotAside(ticks); err == nil {
			l, err = s.Log(ctx, repair)
		}
	}
	if errors.Is(err, ErrNewerFormat) || errors.Is(err, ErrOtherLog) {
		return refusal, s.Close()
	}
	if errors.Is(err, ErrDamaged) {
		how = aside
		if _, err = s.SetAside(ticks); err == nil {
			l, err = s.Log(ctx, repair)
		}
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("repair: %w", err), s.Close())
	}
	r := Record{Version: order.Version{View: 1000}, Time: sample(1000).Time, Sender: 1, Data: []byte("more")}
	if err := errors.Join(l.Import(ctx, r), l.Sync(ctx), s.Close()); err != nil {
		return "", fmt.Errorf("after repair: %w", err)
	}
	if report, err := Verify(context.Background(), dir, nil, nil); err != nil || !report.OK() {
		return "", fmt.Errorf("after repair: %+v, %w", report, err)
	}
	if _, err := p.readAll(ctx, c, LogConfig{}); err != nil {
		return "", fmt.Errorf("after repair: %w", err)
	}
	return how, nil
}

// readAll opens a store and reads every record and every value.
func (p *pristine) readAll(ctx context.Context, c Config, lc LogConfig) (i Info, err error) {
	s, err := Open(ctx, c)
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	lc.ID = ticks
	l, err := s.Log(ctx, lc)
	if err != nil {
		return i, err
	}
	i = l.Info()
	if _, content, err := l.OpenSnapshot(); err == nil {
		var b bytes.Buffer
		if _, err := b.ReadFrom(content); err != nil {
			return i, errors.Join(err, content.Close())
		}
		if err := content.Close(); err != nil {
			return i, err
		}
	} else if !errors.Is(err, ErrNotFound) {
		return i, err
	}
	for r, err := range l.Range(order.Version{}, order.Version{}) {
		if err != nil {
			return i, err
		}
		if want := sample(int(r.Number)); string(r.Data) != "more" && (!bytes.Equal(r.Data, want.Data) || r.Version != want.Version) {
			return i, fmt.Errorf("record %d has other content", r.Number)
		}
	}
	return i, nil
}

// A bucket of a log that a crash left leads to another good page of its file: what is lost by that
// lies behind the last note of the log's end.
func TestAPartOfATreeIsFoundOutInFrontOfTheNote(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of trials of one goroutine")
	}
	t.Parallel()
	for _, p := range pristines(t) {
		if p.closed || !strings.HasPrefix(p.name, "bolt") {
			continue
		}
		outcomes := map[outcome]int{}
		for _, h := range p.harms(rand.New(rand.NewPCG(1, 1))) {
			if !strings.HasPrefix(h.what, "bucket root") || !strings.HasPrefix(h.file, logsDir) {
				continue
			}
			dir := testutil.MemoryDir(t)
			if err := p.put(dir, h); err != nil {
				t.Fatal(err)
			}
			what, err := p.trial(t.Context(), dir, h)
			if err != nil {
				t.Errorf("%s: %s: %v", h.file, h.what, err)
			}
			outcomes[what]++
		}
		t.Log(outcomes)
		if outcomes[mended]+outcomes[aside] == 0 {
			t.Errorf("%v: nothing was found out", outcomes)
		}
	}
}
