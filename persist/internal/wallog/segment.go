package wallog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"

	"github.com/squall-go/squall/internal/crc"
	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
)

// A segment of raft-wal is a head and frames, each padded to 8 bytes:
//
//	head    magic 8 │ first block 8 │ id 8 │ codec 8
//	entry   1 │ 0 0 0 │ length 4 │ block
//	commit  3 │ 0 0 0 │ sum 4, of everything behind the commit before
//	index   2 │ 0 0 0 │ length 4 │ place of each entry, 4 bytes each
//
// One that is full ends with an index and a commit. The engine believes the lengths and places: a
// wrong one lets it set 64 MiB aside for a block, or take an entry for another one. So segments
// that are full are read here, and what the engine will go through in the last one is checked
// before.
const (
	segmentMagic    = 0x58eb6b0d
	segmentHead     = 32
	frameHead       = 8
	entryFrame      = 1
	indexFrame      = 2
	commitFrame     = 3
	maxSegmentBytes = 1 << 30
)

func isFrame(b []byte, kind byte) bool { return b[0] == kind && b[1] == 0 && b[2] == 0 && b[3] == 0 }

// framed is how long a frame with so many bytes is.
func framed(length int) int { return frameHead + (length+frameHead-1)&^(frameHead-1) }

// fullSegment reads the blocks of a segment that is full.
type fullSegment struct {
	path string
	file *os.File
	info types.SegmentInfo
}

func openSegment(dir string, info types.SegmentInfo) (*fullSegment, error) {
	s := &fullSegment{path: filepath.Join(dir, segment.FileName(info)), info: info}
	var err error
	if s.file, err = os.Open(s.path); err != nil {
		return nil, err
	}
	b, err := s.read(0, segmentHead)
	if err == nil && !headOf(b, info) {
		err = engine.Damaged(s.path, "its head is not that of segment %d, which begins with block %d", info.ID, info.BaseIndex)
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// headOf reports whether a segment begins with the head that belongs to it.
func headOf(b []byte, info types.SegmentInfo) bool {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	return word(0) == segmentMagic && word(8) == info.BaseIndex && word(16) == info.ID && word(24) == info.Codec
}

// read reads a part of the segment. That the file ends before is damage: it was longer.
func (s *fullSegment) read(at uint64, bytes int) ([]byte, error) {
	b := make([]byte, bytes)
	if _, err := s.file.ReadAt(b, int64(at)); errors.Is(err, io.EOF) {
		return nil, engine.Damaged(s.path, "it ends before %d", at+uint64(bytes))
	} else if err != nil {
		return nil, err
	}
	return b, nil
}

// GetLog implements types.SegmentReader.
func (s *fullSegment) GetLog(index uint64) (*types.PooledBuffer, error) {
	if index < s.info.MinIndex || index > s.info.MaxIndex {
		return nil, types.ErrNotFound
	}
	b, err := s.read(s.info.IndexStart+4*(index-s.info.BaseIndex), 4)
	if err != nil {
		return nil, err
	}
	at := uint64(binary.LittleEndian.Uint32(b))
	if at < segmentHead || at%frameHead != 0 || at >= s.info.IndexStart {
		return nil, engine.Damaged(s.path, "its index says that block %d is at %d", index, at)
	}
	if b, err = s.read(at, frameHead); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(b[4:])
	if !isFrame(b, entryFrame) || length > journal.MaxBlockBytes {
		return nil, engine.Damaged(s.path, "what should be block %d, at %d, is of kind %d and has %d bytes", index, at, b[0], length)
	}
	if b, err = s.read(at+frameHead, int(length)); err != nil {
		return nil, err
	}
	return &types.PooledBuffer{Bs: b}, nil
}

// Close implements types.SegmentReader.
func (s *fullSegment) Close() error { return s.file.Close() }

// walk goes from frame to frame of a segment that may be the last one, as the engine does to find
// its end.
type walk struct {
	engine.Opening
	file   []byte
	places []int  // of the entries
	next   uint64 // index of the block that comes next
	group  int    // entries behind the last commit
	good   int    // behind the last commit; 0: there is none
	index  int    // of a segment that is full: where its index is
	full   bool   // the group of the index is whole
	sealed bool   // the engine takes the segment for one that is full, though it may drop the index
	doubt  string // what is wrong with the group that is under way

	lie      string // what is wrong with a group that was committed
	lieEnd   int    // its commit
	believed bool   // there are entries behind it, so that the engine does not look at its sum
}

// walkSegment goes through a segment. What the engine would believe and should not is damage, with
// the place where the segment is still good.
func walkSegment(o engine.Opening, dir string, info types.SegmentInfo) (*walk, error) {
	f, err := os.Open(filepath.Join(dir, segment.FileName(info)))
	if err != nil {
		return nil, err
	}
	w := &walk{Opening: o, next: info.BaseIndex}
	err = engine.Mapped(f, func(file []byte) error {
		w.file = file
		defer func() { w.file = nil }()
		return w.run()
	})
	if err == nil && w.lie != "" {
		err = engine.Damaged(f.Name(), "after %d it %s", w.end(), w.lie)
	}
	return w, errors.Join(err, f.Close())
}

// end is where the segment is good to.
func (w *walk) end() int { return max(w.good, segmentHead) }

// run goes to the end. The engine drops the last group if its sum is wrong, and what was not
// committed.
func (w *walk) run() error {
	steps := 0
	for at := segmentHead; at+frameHead <= len(w.file); {
		if steps++; steps%4096 == 0 && w.Context.Err() != nil {
			return w.Context.Err()
		}
		length := 0
		switch w.file[at] {
		case commitFrame:
			w.commit(at)
		case entryFrame, indexFrame:
			length = int(binary.LittleEndian.Uint32(w.file[at+4:]))
			w.frame(at, length)
		default:
			at = len(w.file)
		}
		at += framed(length)
	}
	if w.lie != "" && !w.believed && !w.summed(w.lieEnd) {
		w.lie = ""
	}
	return nil
}

// summed reports whether the group that ends with a commit is as it was written. The first one
// begins with the head.
func (w *walk) summed(commit int) bool {
	return crc.Of(w.file[w.good:commit]) == binary.LittleEndian.Uint32(w.file[commit+4:])
}

func (w *walk) commit(at int) {
	if w.doubt == "" && w.group == 0 && (w.index == 0 || w.full) {
		w.doubt = "has the end of a group without blocks"
	}
	switch {
	case w.lie != "":
		w.believed = true
	case w.doubt != "":
		w.lie, w.lieEnd = w.doubt, at
	default:
		w.full = w.index > 0 && w.summed(at)
		w.group, w.good = 0, at+frameHead
	}
}

// frame looks at an entry or an index.
func (w *walk) frame(at, length int) {
	w.sealed = w.sealed || w.file[at] == indexFrame
	switch body := w.file[at+frameHead:]; {
	case w.lie != "":
		w.believed = w.believed || w.file[at] == entryFrame
	case w.doubt != "":
	case w.index > 0:
		w.doubt = "goes on after its index"
	case length > len(body):
		w.doubt = "ends before a block does"
	case w.file[at] == indexFrame:
		w.index = at + frameHead
		if !w.indexes(body[:length]) {
			w.doubt = "has an index of other blocks"
		}
	default:
		w.doubt = w.entry(at, body[:length])
	}
}

// entry takes an entry for the next block, and returns the reason if it is not valid. A damaged
// block is found when it is read.
func (w *walk) entry(at int, block []byte) string {
	if len(block) == 0 || len(block) > journal.MaxBlockBytes {
		return fmt.Sprintf("has a block of %d bytes", len(block))
	}
	if h, err := journal.Look(block); err == nil && h.Index != w.next {
		return fmt.Sprintf("has block %d where block %d should be", h.Index, w.next)
	}
	w.places = append(w.places, at)
	w.next++
	w.group++
	return ""
}

// indexes reports whether an index is that of the entries before it.
func (w *walk) indexes(b []byte) bool {
	if len(b) != 4*len(w.places) {
		return false
	}
	for i, place := range w.places {
		if int(binary.LittleEndian.Uint32(b[4*i:])) != place {
			return false
		}
	}
	return true
}

// endSegment lets a segment end at a place: the engine goes no further.
func endSegment(dir string, info types.SegmentInfo, at int) error {
	f, err := os.OpenFile(filepath.Join(dir, segment.FileName(info)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, frameHead), int64(at))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
