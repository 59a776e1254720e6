package persist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/internal/journal"
)

// engine is what a log is kept in, until it is closed.
type engine interface {
	journal.Store
	io.Closer
}

// The files of the engines that are looked at before they are opened.
const (
	boltFile    = "log.db"
	walMetaFile = "wal-meta.db"
)

// abandoner is an engine whose file can be closed without it.
type abandoner interface {
	engine
	abandon() error
}

// opening is how the files of a log are opened.
type opening struct {
	ctx      context.Context // ends what takes long
	create   bool            // they are not there yet
	readOnly bool
	repair   bool      // what cannot be followed is dropped
	segments *walFiles // nil: real ones
}

// createEngine makes the files of an empty log in a directory that is not in use yet.
func createEngine(e Engine, dir string) error {
	if e != EngineBolt && e != EngineWAL {
		return fmt.Errorf("%v is none: it is %v or %v", e, EngineBolt, EngineWAL)
	}
	opened, err := openFiles(opening{ctx: context.Background(), create: true}, e, dir)
	if err != nil {
		return err
	}
	return opened.Close()
}

// openEngine opens the files of a log. The engine follows them without a doubt, so what it will
// follow is checked first.
func openEngine(o opening, e Engine, dir string) (*recovering, error) {
	path, holds := filepath.Join(dir, boltFile), boltLogSchema
	if e == EngineWAL {
		path, holds = filepath.Join(dir, walMetaFile), walListSchema
	}
	if _, err := os.Stat(path); missing(err) {
		return nil, damaged(path, "it is missing")
	}
	if err := checkPages(o.ctx, path, holds); err != nil {
		return nil, err
	}
	opened, err := openFiles(o, e, dir)
	return opened, misread(err)
}

// misread says what it means if an engine cannot read what it wrote, and no file or lock is why.
func misread(err error) error {
	var file *fs.PathError
	var number syscall.Errno
	if err == nil || errors.As(err, &file) || errors.As(err, &number) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, wal.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, c := range causes {
		if errors.Is(err, c.means) || errors.Is(err, c.cause) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func openFiles(o opening, e Engine, dir string) (*recovering, error) {
	g := &recovering{place: dir}
	err := guard(dir, func() (err error) {
		if e == EngineWAL {
			g.engine, err = openWAL(o, dir)
		} else {
			g.engine, err = openBolt(o, dir)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// recovering is an engine whose errors name its directory, and whose panics are errors.
type recovering struct {
	place  string
	engine abandoner
	until  context.Context // ends what reads; nil: nothing does
	broken atomic.Bool     // the engine panicked
}

// plain are the errors of a store that are answers: they are given on as they are.
func plain(err error) bool { return err == nil || errors.Is(err, raft.ErrLogNotFound) }

func (g *recovering) FirstIndex() (i uint64, err error) {
	err = g.run(func() (err error) { i, err = g.engine.FirstIndex(); return err })
	return i, err
}

func (g *recovering) LastIndex() (i uint64, err error) {
	err = g.run(func() (err error) { i, err = g.engine.LastIndex(); return err })
	return i, err
}

func (g *recovering) GetLog(index uint64, l *raft.Log) error {
	var answer error
	err := g.run(func() error {
		if g.until != nil && g.until.Err() != nil {
			return g.until.Err()
		}
		answer = g.engine.GetLog(index, l)
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

func (g *recovering) StoreLog(l *raft.Log) error {
	return g.run(func() error { return g.engine.StoreLog(l) })
}

func (g *recovering) StoreLogs(logs []*raft.Log) error {
	return g.run(func() error { return g.engine.StoreLogs(logs) })
}

func (g *recovering) DeleteRange(first, last uint64) error {
	return g.run(func() error { return g.engine.DeleteRange(first, last) })
}

func (g *recovering) Set(key, value []byte) error {
	return g.run(func() error { return g.engine.Set(key, value) })
}

// Get returns nil for a key without a value, as one engine does; the other has an error for it.
func (g *recovering) Get(key []byte) (value []byte, err error) {
	err = g.run(func() (err error) {
		value, err = g.engine.Get(key)
		if errors.Is(err, raftboltdb.ErrKeyNotFound) {
			value, err = nil, nil
		}
		return err
	})
	return value, err
}

// Close releases the files. An engine that panicked is abandoned.
func (g *recovering) Close() error {
	if g.broken.Load() {
		return named(g.engine.abandon(), g.place)
	}
	return g.run(g.engine.Close)
}

// run has the engine do something, and notes whether it panicked.
func (g *recovering) run(do func() error) error {
	err := guard(g.place, do)
	if hasPanicked(err) {
		g.broken.Store(true)
	}
	return err
}

// holder opens the file of a bbolt engine for it, and lets go of it where the engine cannot: its
// lock would last as long as this process.
type holder struct{ file *os.File }

// abandon unlocks and closes the file, if it was opened. Closing it does not unlock it, as long as
// the engine has it mapped. The engine may have closed it.
func (h *holder) abandon() error {
	if h.file == nil {
		return nil
	}
	_ = syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN) // it fails if the file is closed
	if err := h.file.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

func (h *holder) open(path string, flag int, mode os.FileMode) (f *os.File, err error) {
	h.file, err = os.OpenFile(path, flag, mode)
	return h.file, err
}
