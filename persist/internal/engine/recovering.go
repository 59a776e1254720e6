package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/squall-go/squall/internal/journal"
)

// misread says what it means if an engine cannot read what it wrote, and no file or lock is why.
func misread(err error) error {
	var file *fs.PathError
	var number syscall.Errno
	if err == nil || errors.As(err, &file) || errors.As(err, &number) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, c := range closed {
		if errors.Is(err, c) {
			return err
		}
	}
	for _, c := range causes {
		if errors.Is(err, c.means) || errors.Is(err, c.cause) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Recovering is an engine whose errors name its directory, and whose panics are errors.
type Recovering struct {
	place  string
	Engine Abandoner
	Until  context.Context // ends what reads; nil: nothing does
	broken atomic.Bool     // the engine panicked
}

// plain are the errors of a store that are answers: they are given on as they are.
func plain(err error) bool { return err == nil || errors.Is(err, journal.ErrNoEntry) }

func (g *Recovering) FirstIndex() (i uint64, err error) {
	err = g.run(func() (err error) { i, err = g.Engine.FirstIndex(); return err })
	return i, err
}

func (g *Recovering) LastIndex() (i uint64, err error) {
	err = g.run(func() (err error) { i, err = g.Engine.LastIndex(); return err })
	return i, err
}

func (g *Recovering) GetLog(index uint64, l *journal.Entry) error {
	var answer error
	err := g.run(func() error {
		if g.Until != nil && g.Until.Err() != nil {
			return g.Until.Err()
		}
		answer = g.Engine.GetLog(index, l)
		if plain(answer) {
			return nil
		}
		return misread(answer)
	})
	return errors.Join(err, onlyPlain(answer))
}

func onlyPlain(err error) error {
	if plain(err) {
		return err
	}
	return nil
}

func (g *Recovering) StoreLogs(logs []*journal.Entry) error {
	return g.run(func() error { return g.Engine.StoreLogs(logs) })
}

func (g *Recovering) DeleteRange(first, last uint64) error {
	return g.run(func() error { return g.Engine.DeleteRange(first, last) })
}

func (g *Recovering) Set(key, value []byte) error {
	return g.run(func() error { return g.Engine.Set(key, value) })
}

func (g *Recovering) Get(key []byte) (value []byte, err error) {
	err = g.run(func() (err error) { value, err = g.Engine.Get(key); return err })
	return value, err
}

// Close releases the files. An engine that panicked is abandoned.
func (g *Recovering) Close() error {
	if g.broken.Load() {
		return Named(g.Engine.Abandon(), g.place)
	}
	return g.run(g.Engine.Close)
}

// run has the engine do something, and notes whether it panicked.
func (g *Recovering) run(do func() error) error {
	err := Guard(g.place, do)
	if HasPanicked(err) {
		g.broken.Store(true)
	}
	return err
}

// Holder opens the file of a bbolt engine for it, and lets go of it where the engine cannot: its
// lock would last as long as this process.
type Holder struct{ File *os.File }

// Abandon unlocks and closes the file, if it was opened. Closing it does not unlock it, as long as
// the engine has it mapped. The engine may have closed it.
func (h *Holder) Abandon() error {
	if h.File == nil {
		return nil
	}
	_ = syscall.Flock(int(h.File.Fd()), syscall.LOCK_UN) // it fails if the file is closed
	if err := h.File.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// Open opens the file.
func (h *Holder) Open(path string, flag int, mode os.FileMode) (f *os.File, err error) {
	h.File, err = os.OpenFile(path, flag, mode)
	return h.File, err
}
