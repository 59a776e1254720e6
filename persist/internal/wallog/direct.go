package wallog

import (
	"errors"
	"unsafe"
)

// sectorBytes is what writes around the page cache are aligned to, in the file and in memory: no
// device has larger sectors.
const sectorBytes = 4096

// appender appends to a file around the page cache. To write a log through the cache costs a copy
// and a page for every 4 KiB, which is not read again, and more processor time than all the rest of
// a log; where three processes write to one disk it is also what limits them.
//
// Whole sectors are written: the last one, as far as it has something, is kept and written again
// with what follows, as the page cache would do. Behind what was written last are zeros, up to the
// end of its sector: the first write to a file that was there already is at its end, too. A write
// in front of another one goes through the cache.
//
// A file system notes which of the blocks that were set aside are written, and a sync waits for
// that note, too. For a small write that takes longer than the write itself. So small writes have
// zeros behind them now and then, as many bytes as small writes had in a row, up to aheadBytes: the
// writes that follow change nothing that the file system has to note.
type appender struct {
	SegmentFile             // through the cache
	direct      SegmentFile // around it; nil: there is no such thing
	room        int64       // that is set aside
	end         int64       // behind what was written last, if the last write was made here; -1: it is not known
	high        int64       // behind everything that was written here
	zeroed      int64       // behind the zeros behind that
	small       int64       // bytes of the last small writes in a row
	staged      []byte      // memory for whole sectors, on the boundary of one. What lies in the last sector of the file stands at last
	last        []byte
}

// aheadBytes is how many zeros there are behind a write at most. A write of largeGroup bytes is no
// small one.
const aheadBytes = 256 << 10

// largeGroup is how many bytes make a write a large one.
const largeGroup = 64 << 10

func newAppender(f SegmentFile, room int) *appender {
	return &appender{SegmentFile: f, direct: f.Direct(), room: int64(room), end: -1}
}

// WriteAt implements io.WriterAt.
func (a *appender) WriteAt(p []byte, off int64) (int, error) {
	if a.direct == nil || len(p) == 0 || off < a.high {
		a.end, a.high = -1, max(a.high, off+int64(len(p)))
		return a.SegmentFile.WriteAt(p, off)
	}
	if off != a.end {
		if err := a.resume(off); err != nil {
			return 0, err
		}
	}
	before := len(a.last)
	at, whole := off-int64(before), (before+len(p)+sectorBytes-1)&^(sectorBytes-1)
	b := a.stage(whole + a.ahead(at+int64(whole), len(p)))
	copy(b, a.last)
	clear(b[before+copy(b[before:], p):])
	if _, err := a.direct.WriteAt(b, at); err != nil {
		if !noDirect(err) {
			a.end = -1
			return 0, err
		}
		err = a.direct.Close()
		a.direct, a.staged, a.last = nil, nil, nil
		if err != nil {
			return 0, err
		}
		return a.SegmentFile.WriteAt(p, off)
	}
	a.end = off + int64(len(p))
	a.high, a.zeroed = a.end, max(a.zeroed, at+int64(len(b)))
	a.last = append(a.last[:0], b[(before+len(p))&^(sectorBytes-1):before+len(p)]...)
	return len(p), nil
}

// ahead returns how many zeros a write of so many bytes has behind its sectors, which end at an
// offset.
func (a *appender) ahead(end int64, bytes int) int {
	if bytes >= largeGroup {
		a.small = 0
		return 0
	}
	if a.small = min(a.small+int64(bytes), aheadBytes); end <= a.zeroed {
		return 0
	}
	return max(0, int(min(a.small, a.room-end))) &^ (sectorBytes - 1)
}

// resume reads what lies in the sector of an offset before it.
func (a *appender) resume(off int64) error {
	before := off & (sectorBytes - 1)
	a.last = make([]byte, before, sectorBytes)
	if before == 0 {
		return nil
	}
	_, err := a.SegmentFile.ReadAt(a.last, off-before)
	return err
}

// stage is memory for n bytes, on the boundary of a sector.
func (a *appender) stage(n int) []byte {
	if cap(a.staged) < n {
		b := make([]byte, n+sectorBytes)
		skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (sectorBytes - 1)
		a.staged = b[skip : int(skip)+n]
	}
	return a.staged[:n]
}

// Close closes both.
func (a *appender) Close() error {
	if a.direct == nil {
		return a.SegmentFile.Close()
	}
	return errors.Join(a.direct.Close(), a.SegmentFile.Close())
}
