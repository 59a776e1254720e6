package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/persist/journal"
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

// createEngine makes the files of an empty log in a directory that is not in use yet.
func createEngine(e Engine, dir string) error {
	if e != Bolt && e != WAL {
		return fmt.Errorf("%v is none: it is %v or %v", e, Bolt, WAL)
	}
	opened, err := openFiles(e, dir, false)
	if err != nil {
		return err
	}
	return opened.Close()
}

// openEngine opens the files of a log. Those that only a crash of the machine or somebody else can have damaged are followed
// by the engine without a doubt, so they are checked first.
func openEngine(e Engine, dir string, readOnly bool) (engine, error) {
	path := filepath.Join(dir, boltFile)
	if e == WAL {
		path = filepath.Join(dir, walMetaFile)
	}
	if _, err := os.Stat(path); missing(err) {
		return nil, damaged(path, "it is missing")
	}
	if err := checkHeads(e, path); err != nil {
		return nil, err
	}
	opened, err := openFiles(e, dir, readOnly)
	return opened, misread(err)
}

// misread says what it means if an engine cannot read what it wrote, and no file or lock is why.
func misread(err error) error {
	var file *fs.PathError
	var number syscall.Errno
	if err == nil || errors.As(err, &file) || errors.As(err, &number) || errors.Is(err, bolterrors.ErrDatabaseNotOpen) || errors.Is(err, wal.ErrClosed) {
		return err
	}
	for _, c := range causes {
		if errors.Is(err, c.means) || errors.Is(err, c.cause) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// checkHeads checks what is small: all of the segments' list, and the two head pages of a tree that holds a whole log.
func checkHeads(e Engine, path string) error {
	if e == WAL {
		return checkPages(path)
	}
	return checkTrunk(path)
}

func openFiles(e Engine, dir string, readOnly bool) (engine, error) {
	g := &guarded{place: dir}
	err := guard(dir, func() (err error) {
		if e == WAL {
			g.engine, err = openWAL(dir, readOnly)
		} else {
			g.engine, err = openBolt(dir, readOnly)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// guarded gives what an engine says its name, and turns its panics into errors.
type guarded struct {
	place  string
	engine engine
}

// plain are the errors of a store that are answers: they are given on as they are.
func plain(err error) bool { return err == nil || errors.Is(err, raft.ErrLogNotFound) }

func (g *guarded) FirstIndex() (i uint64, err error) {
	err = guard(g.place, func() (err error) { i, err = g.engine.FirstIndex(); return err })
	return i, err
}

func (g *guarded) LastIndex() (i uint64, err error) {
	err = guard(g.place, func() (err error) { i, err = g.engine.LastIndex(); return err })
	return i, err
}

func (g *guarded) GetLog(index uint64, l *raft.Log) error {
	var answer error
	err := guard(g.place, func() error {
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

func (g *guarded) StoreLog(l *raft.Log) error {
	return guard(g.place, func() error { return g.engine.StoreLog(l) })
}

func (g *guarded) StoreLogs(logs []*raft.Log) error {
	return guard(g.place, func() error { return g.engine.StoreLogs(logs) })
}

func (g *guarded) DeleteRange(first, last uint64) error {
	return guard(g.place, func() error { return g.engine.DeleteRange(first, last) })
}

func (g *guarded) Set(key, value []byte) error {
	return guard(g.place, func() error { return g.engine.Set(key, value) })
}

// Get returns nil for a key without a value, as one engine does; the other has an error for it.
func (g *guarded) Get(key []byte) (value []byte, err error) {
	err = guard(g.place, func() (err error) {
		value, err = g.engine.Get(key)
		if errors.Is(err, raftboltdb.ErrKeyNotFound) {
			value, err = nil, nil
		}
		return err
	})
	return value, err
}

func (g *guarded) Close() error { return guard(g.place, g.engine.Close) }
