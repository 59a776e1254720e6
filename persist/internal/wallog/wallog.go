// Package wallog is the log engine wal, which is raft-wal.
package wallog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
	_ "github.com/squall-go/squall/persist/internal/values"
)

// Driver is the engine wal: segments that are only appended to. The zero value is the one that
// ships.
type Driver struct {
	Disk         SegmentDisk // nil: the real one
	SegmentBytes int         // 0: SegmentBytes
}

func init() {
	engine.Register(Driver{})
	engine.Explain(nil, nil, []error{wal.ErrClosed})
}

func (Driver) String() string { return "wal" }

// BlockBytes implements engine.Driver. Nothing is written twice, and a longer block is less work.
func (Driver) BlockBytes() int { return 1 << 20 }

// File implements engine.Driver.
func (Driver) File() (string, *engine.Schema) { return engine.WALListFile, engine.WALListSchema }

// SegmentBytes is how long a segment gets, but for its last entry. Every new one costs a few
// fsyncs, and dropping the front of a log frees whole ones only.
const SegmentBytes = 64 << 20

// walEngine is raft-wal with the parts of it replaced that it lets one replace:
//
//	codec   a block is its own encoding: nothing is copied on the way to the segment's buffer
//	files   fdatasync; names are synced whenever a file may be new; what kept the next segment from being made is not lost
//	meta    its list of segments is checked; it is closed with the log, and can be opened to be read only
type walEngine struct {
	*wal.WAL
	meta  *segmentList
	files *walFiles
	turn  *turn
	logs  []*raft.Log // memory of StoreLogs
}

// Open implements engine.Driver.
func (d Driver) Open(o engine.Opening, dir string) (engine.Abandoner, error) {
	files := &walFiles{disk: d.Disk, size: cmp.Or(d.SegmentBytes, SegmentBytes)}
	if files.disk == nil {
		files.disk = OSSegments{}
	}
	e := &walEngine{files: files, turn: &turn{}, meta: &segmentList{Opening: o}}
	var vfs types.VFS = files
	if o.ReadOnly {
		vfs = frozenFiles{files}
	}
	returned := false
	defer func() {
		switch {
		case !returned:
			_ = e.meta.Abandon() // it panicked, and may hold its locks
		case e.WAL == nil:
			_ = e.meta.Close()
		}
	}()
	filer := codecFiler{segment.NewFiler(dir, vfs), o, dir, e.turn}
	var err error
	e.WAL, err = wal.Open(dir, wal.WithLogger(hclog.NewNullLogger()), wal.WithSegmentSize(files.size), wal.WithCodec(blockCodec{}),
		wal.WithMetaStore(codecMeta{e.meta, filer, files}), wal.WithSegmentFiler(filer))
	returned = true
	if err != nil {
		return nil, walError(err)
	}
	return e, nil
}

// Abandon implements engine.Abandoner. Segments are closed when nothing refers to them any more.
func (e *walEngine) Abandon() error { return e.meta.Abandon() }

func walError(err error) error {
	if errors.Is(err, wal.ErrCorrupt) {
		return fmt.Errorf("%w: %w", engine.ErrDamaged, err)
	}
	return err
}

// StoreLogs says why there is no next segment, where the engine says only that the last one is
// full.
func (e *walEngine) StoreLogs(entries []*journal.Entry) error {
	for len(e.logs) < len(entries) {
		e.logs = append(e.logs, &raft.Log{Type: raft.LogCommand})
	}
	logs := e.logs[:len(entries)]
	for i, l := range entries {
		logs[i].Index, logs[i].Data = l.Index, l.Data
	}
	err := e.WAL.StoreLogs(logs)
	for _, l := range logs {
		l.Data = nil
	}
	if errors.Is(err, wal.ErrSealed) {
		if why := e.files.failure(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return walError(err)
}

// DeleteRange waits for the next segment to be on its way. The engine does not, and would cut the
// one and then go on with the other.
func (e *walEngine) DeleteRange(first, last uint64) error {
	e.turn.wait()
	return walError(e.WAL.DeleteRange(first, last))
}

// GetLog adds the index, which the codec leaves out.
func (e *walEngine) GetLog(index uint64, l *journal.Entry) error {
	var found raft.Log
	err := e.WAL.GetLog(index, &found)
	if errors.Is(err, raft.ErrLogNotFound) {
		return journal.ErrNoEntry
	}
	l.Index, l.Data = index, found.Data
	return walError(err)
}

func (e *walEngine) Close() error { return errors.Join(e.WAL.Close(), e.meta.Close()) }

// blockCodec stores the data of an entry and nothing else: a block knows its index.
type blockCodec struct{}

// blockCodecID stands in every segment.
const blockCodecID = 0x51_53_4C_42_00_01

func (blockCodec) ID() uint64 { return blockCodecID }

// Encode puts the data itself where the engine would take a copy from: it copies what it finds
// there into the segment's buffer, and forgets it.
func (blockCodec) Encode(l *raft.Log, w io.Writer) error {
	if b, ok := w.(*bytes.Buffer); ok && b.Len() == 0 {
		*b = *bytes.NewBuffer(l.Data)
		return nil
	}
	_, err := w.Write(l.Data)
	return err
}

func (blockCodec) Decode(b []byte, l *raft.Log) error {
	*l = raft.Log{Type: raft.LogCommand, Data: bytes.Clone(b)}
	return nil
}

// turn is the change from a segment that is full to the next one, which a goroutine of the engine
// makes.
type turn struct {
	mu    sync.Mutex
	ahead chan struct{} // closed when it has begun, with the engine locked; nil: there is none
}

// full says that it will come.
func (t *turn) full() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead == nil {
		t.ahead = make(chan struct{})
	}
}

func (t *turn) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ahead != nil {
		close(t.ahead)
		t.ahead = nil
	}
}

func (t *turn) wait() {
	t.mu.Lock()
	ahead := t.ahead
	t.mu.Unlock()
	if ahead != nil {
		<-ahead
	}
}

// codecMeta and codecFiler write the codec's ID where the engine would write that of its own codec,
// and then not know it again.
type codecMeta struct {
	*segmentList
	filer codecFiler
	files *walFiles
}

// Load ends the change of segments that a crash, or the end of the process, came before. The engine
// would take the full one for the one to be written, and refuse everything.
func (m codecMeta) Load(dir string) (types.PersistentState, error) {
	s, err := m.segmentList.Load(dir)
	if err != nil || len(s.Segments) == 0 {
		return s, err
	}
	last := &s.Segments[len(s.Segments)-1]
	w, err := m.filer.tail(*last)
	if engine.Missing(err) {
		return s, nil // the engine makes it
	}
	if err != nil || !w.full {
		return s, err
	}
	if !m.filer.ReadOnly { // what filled it may not be synced, and it is not treated as the segment to be written any more
		f, err := m.files.OpenWriter(dir, segment.FileName(*last))
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			return s, err
		}
	}
	now := time.Now()
	last.SealTime, last.MaxIndex, last.IndexStart = now, w.next-1, uint64(w.index)
	s.Segments = append(s.Segments, ofBlocks(types.SegmentInfo{
		ID: s.NextSegmentID, BaseIndex: last.MaxIndex + 1, MinIndex: last.MaxIndex + 1, SizeLimit: uint32(m.files.size), CreateTime: now,
	}))
	s.NextSegmentID++
	return s, m.CommitState(s)
}

func (m codecMeta) CommitState(s types.PersistentState) error {
	m.filer.turn.begin()
	segments := make([]types.SegmentInfo, len(s.Segments))
	for i, info := range s.Segments {
		segments[i] = ofBlocks(info)
	}
	s.Segments = segments
	return m.files.noted(m.files.disk.Transact(func() error { return m.segmentList.CommitState(s) }))
}

func (m codecMeta) SetStable(key, value []byte) error {
	return m.files.disk.Transact(func() error { return m.segmentList.SetStable(key, value) })
}

type codecFiler struct {
	types.SegmentFiler
	engine.Opening
	dir  string
	turn *turn
}

// tail goes through the last segment before the engine does. Of one that is to be repaired, it
// drops what the engine would get wrong. It also drops a group that a crash interrupted within the
// index at its end: the engine would drop the group and keep the index.
func (f codecFiler) tail(i types.SegmentInfo) (*walk, error) {
	w, err := walkSegment(f.Opening, f.dir, i)
	drop := err == nil && w.sealed && !w.full || errors.Is(err, engine.ErrDamaged) && f.Repair
	if !drop || f.ReadOnly {
		return w, err
	}
	w.full = false
	return w, endSegment(f.dir, i, w.end())
}

func (f codecFiler) Create(i types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.SegmentFiler.Create(ofBlocks(i))
	return tail{w, f.turn}, err
}

// tail is the segment that is written.
type tail struct {
	types.SegmentWriter
	turn *turn
}

// Append knows before the engine that a segment is full.
func (t tail) Append(entries []types.LogEntry) error {
	err := t.SegmentWriter.Append(entries)
	if full, _, _ := t.Sealed(); full && err == nil {
		t.turn.full()
	}
	return err
}

func (f codecFiler) RecoverTail(i types.SegmentInfo) (types.SegmentWriter, error) {
	w, err := f.SegmentFiler.RecoverTail(ofBlocks(i))
	return tail{w, f.turn}, err
}

// Open reads through a segment that has no index. The engine ends one without it when it cuts the
// end of the log, and would not open it again.
func (f codecFiler) Open(i types.SegmentInfo) (types.SegmentReader, error) {
	if i.IndexStart > 0 {
		return openSegment(f.dir, ofBlocks(i))
	}
	if _, err := f.tail(i); err != nil {
		return nil, err
	}
	return f.RecoverTail(i)
}

func ofBlocks(i types.SegmentInfo) types.SegmentInfo {
	i.Codec = blockCodecID
	return i
}

var errFrozen = fmt.Errorf("%w: it was opened to be read only", engine.ErrReadOnlyDisk)

// SegmentDisk is what the files of segments, and the list of them, are kept on. A test has one that
// forgets what was not synced, and fails.
type SegmentDisk interface {
	Make(path string, size int64) (SegmentFile, error) // a new file, with room for so much
	Open(path string) (SegmentFile, error)
	Remove(path string) error
	SyncDir(path string) error          // afterwards the names in the directory survive a crash
	Transact(change func() error) error // of the list, or of a value beside it: as a whole, and durable, or not at all
}

// SegmentFile is a segment that is written. What was not synced may be gone after a crash.
type SegmentFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error         // what was written, and what it takes to find it
	Direct() SegmentFile // the same file, for writes that go around the page cache; nil: there is no such thing
}

// OSSegments is the real one.
type OSSegments struct{}

func (OSSegments) Make(path string, size int64) (SegmentFile, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := engine.SetAside(f, size); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return osSegment{f}, nil
}

func (OSSegments) Open(path string) (SegmentFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osSegment{f}, nil
}

func (OSSegments) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (OSSegments) Remove(path string) error           { return os.Remove(path) }
func (OSSegments) Transact(change func() error) error { return change() }

type osSegment struct{ *os.File }

func (s osSegment) Sync() error { return engine.SyncData(s.File) }

func (s osSegment) Direct() SegmentFile {
	if f := openDirect(s.Name()); f != nil {
		return osSegment{f}
	}
	return nil
}

// walFiles are the segments' files.
type walFiles struct {
	disk SegmentDisk
	size int // of a segment, but for its last entry
	mu   sync.Mutex
	err  error // why the last file could not be made, or not be noted in the list
}

func (f *walFiles) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// noted keeps the reason for which the next segment could not be made: the engine makes it beside
// its caller, and has no one to return the error to.
func (f *walFiles) noted(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	return err
}

func (f *walFiles) ListDir(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Create makes a file and sets its room aside, so that what is written later needs no new blocks.
func (f *walFiles) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := f.disk.Make(filepath.Join(dir, name), int64(size))
	if f.noted(err) != nil {
		return nil, err
	}
	return &walFile{appender: newAppender(file, f.size), disk: f.disk, dir: dir}, nil
}

// Delete removes a file that is in the list no more. That need not be durable: the engine removes
// what is not in the list when it opens a log.
func (f *walFiles) Delete(dir, name string) error { return f.disk.Remove(filepath.Join(dir, name)) }

func (f *walFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	return os.Open(filepath.Join(dir, name))
}

// OpenWriter opens the segment that is written to. What the process before wrote and did not sync
// is read like everything else, and counts as durable from then on: so it is synced first, with its
// name.
func (f *walFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := f.disk.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	w := &walFile{appender: newAppender(file, f.size), disk: f.disk, dir: dir}
	if err := w.Sync(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// walFile is a segment that is written. Its first Sync makes its name durable, too.
type walFile struct {
	*appender
	disk  SegmentDisk
	dir   string
	named bool
}

func (f *walFile) Sync() error {
	if err := f.appender.Sync(); err != nil {
		return err
	}
	if f.named {
		return nil
	}
	if err := f.disk.SyncDir(f.dir); err != nil {
		return err
	}
	f.named = true
	return nil
}

// frozenFiles changes nothing.
type frozenFiles struct{ *walFiles }

func (frozenFiles) Delete(string, string) error { return nil }
func (frozenFiles) Create(string, string, uint64) (types.WritableFile, error) {
	return noFile{}, nil
}

func (f frozenFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return file, err
}

// noFile is a segment that would be made.
type noFile struct{}

func (noFile) ReadAt([]byte, int64) (int, error)  { return 0, io.EOF }
func (noFile) WriteAt([]byte, int64) (int, error) { return 0, errFrozen }
func (noFile) Sync() error                        { return errFrozen }
func (noFile) Close() error                       { return nil }
