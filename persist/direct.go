package persist

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
type appender struct {
	segmentFile             // through the cache
	direct      segmentFile // around it; nil: there is no such thing
	end         int64       // behind what was written last, if that is where last is from; -1: it is not known
	high        int64       // behind everything that was written here
	staged      []byte      // memory for whole sectors, on the boundary of one. What lies in the last sector of the file stands at last
	last        []byte
}

func newAppender(f segmentFile) *appender {
	return &appender{segmentFile: f, direct: f.Direct(), end: -1}
}

// WriteAt implements io.WriterAt.
func (a *appender) WriteAt(p []byte, off int64) (int, error) {
	if a.direct == nil || len(p) == 0 || off < a.high {
		a.end, a.high = -1, max(a.high, off+int64(len(p)))
		return a.segmentFile.WriteAt(p, off)
	}
	if off != a.end {
		if err := a.resume(off); err != nil {
			return 0, err
		}
	}
	before := len(a.last)
	whole := (before + len(p) + sectorBytes - 1) &^ (sectorBytes - 1)
	b := a.stage(whole)
	copy(b, a.last)
	clear(b[before+copy(b[before:], p):])
	if _, err := a.direct.WriteAt(b, off-int64(before)); err != nil {
		if !noDirect(err) {
			a.end = -1
			return 0, err
		}
		err = a.direct.Close()
		a.direct, a.staged, a.last = nil, nil, nil
		if err != nil {
			return 0, err
		}
		return a.segmentFile.WriteAt(p, off)
	}
	a.end = off + int64(len(p))
	a.high = a.end
	a.last = append(a.last[:0], b[(before+len(p))&^(sectorBytes-1):before+len(p)]...)
	return len(p), nil
}

// resume reads what lies in the sector of an offset before it.
func (a *appender) resume(off int64) error {
	before := off & (sectorBytes - 1)
	a.last = make([]byte, before, sectorBytes)
	if before == 0 {
		return nil
	}
	_, err := a.segmentFile.ReadAt(a.last, off-before)
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
		return a.segmentFile.Close()
	}
	return errors.Join(a.direct.Close(), a.segmentFile.Close())
}
