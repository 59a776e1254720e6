// Package engine is what the engines of logs have in common: the contract between a store and an
// engine, the errors of both, and the checks of what an engine would follow without a doubt.
//
// Life of an engine: its package registers a Driver as it is initialised → a store finds it by its
// name → Create makes the files of an empty log, Open checks those of one that is there, and opens
// them → the log is read and written through a Recovering, which makes errors of panics → Close.
//
// Packages boltlog and wallog have the drivers. Package values keeps the values of a store; both
// drivers import it, so that a program without logs needs neither.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/squall-go/squall/internal/journal"
)

// Driver makes and opens logs of one engine.
type Driver interface {
	String() string // its name, as it stands in the label of a log
	// BlockBytes is how long a block gets.
	BlockBytes() int
	// File is the file that is checked before a log is opened, and what is in it.
	File() (name string, holds *Schema)
	Open(o Opening, dir string) (Abandoner, error)
	// LostTail returns the damage of a log that ends with a block while its files show that there were
	// more, or what is left of a group whose write was interrupted.
	LostTail(dir string, last uint64) (torn journal.Repaired, err error)
	// ForgetTail makes what LostTail would find unreadable.
	ForgetTail(dir string, last uint64) error
}

// Log is what a log is kept in, until it is closed.
type Log interface {
	journal.Store
	io.Closer
}

// Abandoner is a Log whose file can be closed without it.
type Abandoner interface {
	Log
	Abandon() error
}

// Values keeps the values of a store. Put is all or nothing, and durable when it returns nil.
type Values interface {
	Get(key string) ([]byte, error) // nil if there is none
	Keys() ([]string, error)
	Put(values map[string][]byte) error
	Close() error
}

// What this program has. Only init functions write these, before anything reads them.
var (
	drivers []Driver
	// CreateValues makes an empty file of values, and OpenValues opens that of a directory; nil: this
	// program has no engine.
	CreateValues func(path string) error
	OpenValues   func(dir string, readOnly bool) (Values, error)
)

// Register lets stores find a driver.
func Register(d Driver) { drivers = append(drivers, d) }

// Find returns the driver with a name.
func Find(name string) (Driver, bool) {
	for _, d := range drivers {
		if d.String() == name {
			return d, true
		}
	}
	return nil, false
}

// The files of a store and of its logs.
const (
	IdentityFile = "squall.json"
	MetaFile     = "meta.db"
	SnapshotFile = "snapshot"
	BoltFile     = "log.db"
	WALListFile  = "wal-meta.db"
)

// Opening is how the files of a log are opened.
type Opening struct {
	Context  context.Context // ends what takes long
	Create   bool            // they are not there yet
	ReadOnly bool
	Repair   bool // what cannot be followed is dropped
}

// Create makes the files of an empty log in a directory that is not in use yet.
func Create(d Driver, dir string) error {
	opened, err := openFiles(Opening{Context: context.Background(), Create: true}, d, dir)
	if err != nil {
		return err
	}
	return opened.Close()
}

// Open opens the files of a log. The engine follows them without a doubt, so what it will
// follow is checked first.
func Open(o Opening, d Driver, dir string) (*Recovering, error) {
	name, holds := d.File()
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); Missing(err) {
		return nil, Damaged(path, "it is missing")
	}
	if err := CheckPages(o.Context, path, holds); err != nil {
		return nil, err
	}
	opened, err := openFiles(o, d, dir)
	return opened, misread(err)
}

func openFiles(o Opening, d Driver, dir string) (*Recovering, error) {
	g := &Recovering{place: dir}
	err := Guard(dir, func() (err error) {
		g.Engine, err = d.Open(o, dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// ErrNoEngine is returned by a program that does not import the engine that it needs.
var ErrNoEngine = errors.New("this program does not have the log engine")

// Import is the error for an engine that this program does not have: what to import.
func Import(name string) error {
	return fmt.Errorf("%w %q: import github.com/squall-go/squall/persist/%s", ErrNoEngine, name, name)
}
