package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/mapped"
	"github.com/squall-go/squall/internal/proc"
)

// errMemory says that what is measured would be no disk.
var errMemory = errors.New("is a file system in memory, where nothing has to wait for a disk: name a directory on a disk with --dir")

// checkDisk refuses directories that are not there, or not on a disk.
func checkDisk(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("--dir: %w", err)
	case !info.IsDir():
		return fmt.Errorf("--dir is %s: it is no directory", dir)
	case fileSystem(dir) == "tmpfs":
		return fmt.Errorf("--dir: %s %w", dir, errMemory)
	}
	return nil
}

// errNotAround says that there is one limit less here.
var errNotAround = fmt.Errorf("takes no writes around the page cache: %w", bench.ErrAbsent)

// checkAround tries a write around the page cache. That a disk has none is told in the row of that
// limit, and is no failure.
func checkAround(dir string) (err error) {
	probe, err := os.MkdirTemp(dir, "squall-bench-log-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(probe)) }()
	if err := tryAround(filepath.Join(probe, "pieces"), aligned(smallPiece)); err != nil {
		if refused(err) {
			return fmt.Errorf("%s (%s) %w", dir, fileSystem(dir), errNotAround)
		}
		return err
	}
	return nil
}

// tryAround writes a piece to a new file. File systems may take the open and refuse the write.
func tryAround(path string, piece []byte) error {
	f, err := openAround(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(piece, 0)
	return errors.Join(err, f.Close())
}

// sectorBytes is what writes around the page cache are aligned to, in memory as in the file: no
// disk has larger sectors.
const sectorBytes = 4 << 10

// aligned is memory on the boundary of a sector.
func aligned(n int) []byte {
	b := make([]byte, n+sectorBytes)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (sectorBytes - 1))
	return b[skip : skip+n]
}

// setAside is how much of a file is set aside at a time, so that the writes find their place.
const setAside = 1 << 30

// writer does the least that every log must do: it writes a piece behind the others, and waits
// until the piece is on the disk.
type writer struct {
	file  *os.File
	piece []byte
	at    int64
	end   int64 // of what is set aside
}

// pieces is what a writer writes, and how.
type pieces struct {
	Bytes  int  // at a time
	Around bool // the page cache, instead of through it
}

// newFile is how a writer's file is opened.
const newFile = os.O_CREATE | os.O_EXCL | os.O_WRONLY

func (p pieces) open(path string) (*os.File, error) {
	if p.Around {
		return openAround(path)
	}
	return os.OpenFile(path, newFile, 0o600)
}

func newWriter(path string, p pieces) (*writer, error) {
	f, err := p.open(path)
	if err != nil {
		return nil, err
	}
	w := &writer{file: f, piece: aligned(p.Bytes)}
	bench.Fill(w.piece, 0)
	return w, w.room()
}

// room sets more of the file aside when it is needed.
func (w *writer) room() error {
	if w.at+int64(len(w.piece)) <= w.end {
		return nil
	}
	if err := mapped.Reserve(w.file, w.end+setAside); err != nil {
		return fmt.Errorf("%s: set %d bytes aside: %w", w.file.Name(), setAside, err)
	}
	w.end += setAside
	return nil
}

// write writes one piece.
func (w *writer) write() error {
	if err := w.room(); err != nil {
		return err
	}
	if _, err := w.file.WriteAt(w.piece, w.at); err != nil {
		return err
	}
	w.at += int64(len(w.piece))
	return syncData(w.file)
}

// run writes from now on to the end of the window, and counts what began and ended inside.
func (w *writer) run(ctx context.Context, from, to time.Time) (*Sample, error) {
	latency := bench.NewHistogram()
	s := &Sample{}
	var first, last time.Time
	cpu := proc.CPUTime()
	for ctx.Err() == nil {
		start := time.Now()
		if err := w.write(); err != nil {
			return nil, err
		}
		now := time.Now()
		if now.After(to) {
			break
		}
		if start.Before(from) {
			continue
		}
		if first.IsZero() {
			first = start
		}
		last = now
		s.Bytes += uint64(len(w.piece))
		_ = latency.RecordValue(now.Sub(start).Nanoseconds()) // a minute is the most that it takes; longer ones are its most
	}
	s.Elapsed, s.CPU, s.Latency = last.Sub(first), proc.CPUTime()-cpu, bench.LatencyOf(latency)
	return s, context.Cause(ctx)
}
