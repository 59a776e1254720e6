package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/persist/internal/engine"
)

// disk is what the store does to directories. What an engine does inside its own files does not go
// through it. A test puts a disk underneath that forgets at a crash what was not synced.
type disk interface {
	Mkdir(path string) error
	Create(path string) (syncer, error) // empty, whatever was there
	Rename(from, to string) error       // atomic; replaces a file
	RemoveAll(path string) error
	SyncDir(path string) error // afterwards the names in the directory survive a crash
}

// syncer is a file that is written. What was not synced may be gone after a crash.
type syncer interface {
	io.Writer
	Sync() error
	Close() error
}

// osDisk is the real one.
type osDisk struct{}

func (osDisk) Mkdir(path string) error      { return os.Mkdir(path, 0o750) }
func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (osDisk) Create(path string) (syncer, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
}

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(d disk, path string) error {
	if mutant.Enabled && mutant.On(mutant.NoDirSync) {
		return nil
	}
	return engine.Named(d.SyncDir(path), path)
}

// makeDirs makes a directory and the missing ones above it, and syncs the parent of each that it
// made. The parent of the last one is synced in any case: the process that made it may have died
// before it could.
func makeDirs(d disk, path string) error {
	parent := filepath.Dir(path)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != path {
		if err := makeDirs(d, parent); err != nil {
			return err
		}
	}
	if err := d.Mkdir(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return engine.Named(err, path)
	}
	return syncDir(d, parent)
}

// writeAtomic replaces a file as a whole: whatever happens, the old content or the new one is there
// afterwards, and once it has returned the new one. The order makes it so: the bytes are durable
// before the name leads to them, and the name is durable before any caller relies on it.
// journal.ErrUnknown: either content is there.
func writeAtomic(d disk, path string, write func(io.Writer) error) error {
	temp := path + ".new"
	if err := writeSynced(d, temp, write); err != nil {
		return errors.Join(engine.Named(err, path), d.RemoveAll(temp))
	}
	if err := d.Rename(temp, path); err != nil {
		return engine.Named(err, path)
	}
	if err := syncDir(d, filepath.Dir(path)); err != nil {
		return fmt.Errorf("%w: %w", journal.ErrUnknown, err)
	}
	return nil
}

func writeSynced(d disk, path string, write func(io.Writer) error) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
