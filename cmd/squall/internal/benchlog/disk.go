package benchlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
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

// setAside is how much of a file is set aside at a time, so that the writes find their place.
const setAside = 1 << 30

// writer does what every log must do at least: it writes a piece behind the others, and waits until the disk has it.
type writer struct {
	file  *os.File
	piece []byte
	at    int64
	end   int64 // of what is set aside
}

func newWriter(path string, pieceBytes int) (*writer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &writer{file: f, piece: make([]byte, pieceBytes)}
	fill(w.piece, 0)
	return w, w.room()
}

// room sets more of the file aside when it is needed.
func (w *writer) room() error {
	if w.at+int64(len(w.piece)) <= w.end {
		return nil
	}
	if err := allocate(w.file, w.end, setAside); err != nil {
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
	latency := newHistogram()
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
	s.Elapsed, s.CPU, s.Latency = last.Sub(first), proc.CPUTime()-cpu, latencyOf(latency)
	return s, context.Cause(ctx)
}

// newHistogram takes latencies in nanoseconds up to a minute.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

func latencyOf(h *hdrhistogram.Histogram) Latency {
	us := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	return Latency{Count: h.TotalCount(), P50Us: us(50), P99Us: us(99)}
}
