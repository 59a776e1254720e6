package persist

import (
	"errors"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/persist/internal/engine"
)

// Errors, to be tested with errors.Is. What wraps them says where, and what to do.
var (
	// ErrOtherCluster is returned for a directory that another cluster wrote.
	ErrOtherCluster = errors.New("the directory belongs to another cluster")
	// ErrOtherNode is returned for a directory that another node wrote.
	ErrOtherNode = errors.New("the directory belongs to another node")
	// ErrInUse is returned while another process, or another Store of this one, has the directory
	// open.
	ErrInUse = engine.ErrInUse
	// ErrReadOnlyDisk is returned where nothing can be written: the file system or the directory
	// does not let this process.
	ErrReadOnlyDisk = engine.ErrReadOnlyDisk
	// ErrDiskFull is returned when the disk, or the quota, has no space left.
	ErrDiskFull = engine.ErrDiskFull
	// ErrNoStore is returned when a directory that is only to be read has no store in it.
	ErrNoStore = errors.New("no store of Squall is here")
	// ErrLogOpen is returned by a second Log of the same LogID.
	ErrLogOpen = errors.New("the log is open already")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("closed")
	// ErrNewerFormat is returned for what a later version of this program wrote.
	ErrNewerFormat = journal.ErrNewerFormat
	// ErrDamaged is returned for what was written and reads differently now. Nothing is repaired
	// unasked.
	ErrDamaged = journal.ErrDamaged
	// ErrMissing wraps ErrDamaged: the log was created, but all its files are gone.
	ErrMissing = errors.New("it is missing")
	// ErrOtherLog is returned for a directory of a log that has the name of another one.
	ErrOtherLog = errors.New("the directory belongs to another log")
	// ErrSnapshot is the ErrDamaged of a log's snapshot: the records can be read, and what it stood
	// for is not among them.
	ErrSnapshot = engine.ErrSnapshot
	// ErrNoEngine is returned for a log whose engine this program does not import. What wraps it names
	// the import.
	ErrNoEngine = engine.ErrNoEngine
	// ErrNotFound is returned for a version, a time or a snapshot that is not here.
	ErrNotFound = journal.ErrNotFound
	// ErrTruncated is returned for what lies before the first record that is kept.
	ErrTruncated = journal.ErrTruncated
)
