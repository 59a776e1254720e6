package persist

import (
	"bytes"
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
)

// segmentBytes is how long a segment gets, but for its last entry. Every new one costs a few fsyncs, and dropping the front of a log frees whole
// ones only.
const segmentBytes = 64 << 20

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
}

func openWAL(o opening, dir string) (engine, error) {
	files := &walFiles{}
	e := &walEngine{files: files, turn: &turn{}, meta: &segmentList{opening: o}}
	var vfs types.VFS = files
	if o.readOnly {
		vfs = frozenFiles{files}
	}
	defer func() {
		if e.WAL == nil {
			_ = e.meta.Close()
		}
	}()
	filer := codecFiler{segment.NewFiler(dir, vfs), o, dir, e.turn}
	var err error
	e.WAL, err = wal.Open(dir, wal.WithLogger(hclog.NewNullLogger()), wal.WithSegmentSize(segmentBytes), wal.WithCodec(blockCodec{}),
		wal.WithMetaStore(codecMeta{e.meta, filer}), wal.WithSegmentFiler(filer))
	if err != nil {
		return nil, walError(err)
	}
	return e, nil
}

func walError(err error) error {
	if errors.Is(err, wal.ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// StoreLogs says why there is no next segment, where the engine says only that the last one is full.
func (e *walEngine) StoreLogs(logs []*raft.Log) error {
	err := e.WAL.StoreLogs(logs)
	if errors.Is(err, wal.ErrSealed) {
		if why := e.files.failure(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
	}
	return walError(err)
}

// DeleteRange waits for the next segment to be on its way. The engine does not, and would cut the one and then go on with the other.
func (e *walEngine) DeleteRange(first, last uint64) error {
	e.turn.wait()
	return walError(e.WAL.DeleteRange(first, last))
}

func (e *walEngine) StoreLog(l *raft.Log) error { return e.StoreLogs([]*raft.Log{l}) }

// GetLog adds the index, which the codec leaves out.
func (e *walEngine) GetLog(index uint64, l *raft.Log) error {
	err := e.WAL.GetLog(index, l)
	l.Index = index
	return walError(err)
}

func (e *walEngine) Close() error { return errors.Join(e.WAL.Close(), e.meta.Close()) }

// blockCodec stores the data of an entry and nothing else: a block knows its index.
type blockCodec struct{}

// blockCodecID stands in every segment.
const blockCodecID = 0x51_53_4C_42_00_01

func (blockCodec) ID() uint64 { return blockCodecID }

// Encode puts the data itself where the engine would take a copy from: it copies what it finds there into the segment's buffer, and forgets it.
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

// turn is the change from a segment that is full to the next one, which a goroutine of the engine makes.
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

// codecMeta and codecFiler write the codec's ID where the engine would write that of its own codec, and then not know it again.
type codecMeta struct {
	*segmentList
	filer codecFiler
}

// Load ends the change of segments that a crash, or the end of the process, came before. The engine would take the full one for the one to be
// written, and refuse everything.
func (m codecMeta) Load(dir string) (types.PersistentState, error) {
	s, err := m.segmentList.Load(dir)
	if err != nil || len(s.Segments) == 0 {
		return s, err
	}
	last := &s.Segments[len(s.Segments)-1]
	w, err := m.filer.tail(*last)
	if missing(err) {
		return s, nil // the engine makes it
	}
	if err != nil || !w.full {
		return s, err
	}
	now := time.Now()
	last.SealTime, last.MaxIndex, last.IndexStart = now, w.next-1, uint64(w.index)
	s.Segments = append(s.Segments, ofBlocks(types.SegmentInfo{
		ID: s.NextSegmentID, BaseIndex: last.MaxIndex + 1, MinIndex: last.MaxIndex + 1, SizeLimit: segmentBytes, CreateTime: now,
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
	return m.segmentList.CommitState(s)
}

type codecFiler struct {
	types.SegmentFiler
	opening
	dir  string
	turn *turn
}

// tail goes through the last segment before the engine does. Of one that is to be repaired, it drops what the engine would get wrong. It also drops a
// group that a crash interrupted within the index at its end: the engine would drop the group and keep the index.
func (f codecFiler) tail(i types.SegmentInfo) (*walk, error) {
	w, err := walkSegment(f.opening, f.dir, i)
	drop := err == nil && w.sealed && !w.full || errors.Is(err, ErrDamaged) && f.repair
	if !drop || f.readOnly {
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

// Open reads through a segment that has no index. The engine ends one without it when it cuts the end of the log, and would not open it again.
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

var errFrozen = fmt.Errorf("%w: it was opened to be read only", ErrReadOnlyDisk)

// walFiles are the segments' files.
type walFiles struct {
	mu  sync.Mutex
	err error // why the last file could not be made
}

func (f *walFiles) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
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
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o640)
	if err == nil {
		if err = setAside(file, int64(size)); err != nil {
			err = errors.Join(err, file.Close(), os.Remove(file.Name()))
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = err; err != nil {
		return nil, err
	}
	return &walFile{appender: newAppender(file), dir: dir}, nil
}

func (f *walFiles) Delete(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		return err
	}
	return osDisk{}.SyncDir(dir)
}

func (f *walFiles) OpenReader(dir, name string) (types.ReadableFile, error) {
	return os.Open(filepath.Join(dir, name))
}

func (f *walFiles) OpenWriter(dir, name string) (types.WritableFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &walFile{appender: newAppender(file), dir: dir}, nil
}

// walFile is a segment that is written. Whoever made it may have died before its name was durable, so the first Sync sees to that, of a file that was
// there already, too.
type walFile struct {
	*appender
	dir   string
	named bool
}

func (f *walFile) Sync() error {
	if err := syncData(f.appender.File); err != nil {
		return err
	}
	if f.named {
		return nil
	}
	f.named = true
	return osDisk{}.SyncDir(f.dir)
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
