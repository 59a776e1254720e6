package persist

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/squall-go/squall/internal/journal"
)

// Errors, to be tested with errors.Is. What wraps them says where, and what to do.
var (
	// ErrOtherCluster is returned for a directory that another cluster wrote.
	ErrOtherCluster = errors.New("the directory belongs to another cluster")
	// ErrOtherNode is returned for a directory that another node wrote.
	ErrOtherNode = errors.New("the directory belongs to another node")
	// ErrInUse is returned while another process, or another Store of this one, has the directory
	// open.
	ErrInUse = errors.New("the directory is in use")
	// ErrReadOnlyDisk is returned where nothing can be written: the file system or the directory
	// does not let this process.
	ErrReadOnlyDisk = errors.New("the disk cannot be written")
	// ErrDiskFull is returned when the disk, or the quota, has no room left.
	ErrDiskFull = errors.New("the disk is full")
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
	// ErrMissing is returned, as an ErrDamaged, for a log that was made and of which all files are
	// gone.
	ErrMissing = errors.New("it is missing")
	// ErrOtherLog is returned for a directory of a log that has the name of another one.
	ErrOtherLog = errors.New("the directory belongs to another log")
	// ErrSnapshot is the ErrDamaged of a log's snapshot: the records can be read, and what it stood
	// for is not among them.
	ErrSnapshot error = snapshotDamaged{}
	// ErrNotFound is returned for a version, a time or a snapshot that is not here.
	ErrNotFound = journal.ErrNotFound
	// ErrTruncated is returned for what lies before the first record that is kept.
	ErrTruncated = journal.ErrTruncated
)

// causes says what the errors of a disk and of an engine mean, and what to do.
var causes = []struct {
	cause, means error
	advice       string // empty: it is that on damage of the file
}{
	{syscall.ENOSPC, ErrDiskFull, "free some space there and start again: what was acknowledged is kept"},
	{syscall.EDQUOT, ErrDiskFull, "raise the quota and start again: what was acknowledged is kept"},
	{syscall.EROFS, ErrReadOnlyDisk, "mount it writable, or name another directory"},
	{fs.ErrPermission, ErrReadOnlyDisk, "let this user write there, or name another directory"},
	{bolterrors.ErrTimeout, ErrInUse, inUseAdvice},
	{bolterrors.ErrInvalid, ErrDamaged, ""},
	{bolterrors.ErrChecksum, ErrDamaged, ""},
	{bolterrors.ErrVersionMismatch, ErrDamaged, ""},
	{bolterrors.ErrInvalidMapping, ErrDamaged, ""},
}

const (
	inUseAdvice = "stop the other process or name another directory; " +
		"to read the logs of a member that runs, ask it: squall log … HOST:PORT"
	storeAdvice = "if the other members have their logs, move the directory away and start this member with an empty one: " +
		"it fetches everything from them; `squall log verify DIRECTORY` says what can still be read"
	logAdvice = "its member, when it is started again, drops what is damaged and gets it from the others; " +
		"`squall log verify DIRECTORY` says what can still be read"
)

// ownFile reports whether a file is one of the files that identify a member: it can do without any
// other.
func ownFile(place string) bool {
	name := filepath.Base(place)
	return name == identityFile || name == metaFile
}

// onDamage is what to do about a damaged file.
func onDamage(place string) string {
	if ownFile(place) {
		return storeAdvice
	}
	return logAdvice
}

// directoryDamaged is the ErrDamaged of a file that belongs to no log.
type directoryDamaged struct{}

func (directoryDamaged) Error() string        { return "the directory is damaged" }
func (directoryDamaged) Is(target error) bool { return target == ErrDamaged }

// snapshotDamaged is the ErrDamaged of a snapshot.
type snapshotDamaged struct{}

func (snapshotDamaged) Error() string        { return "the snapshot is damaged" }
func (snapshotDamaged) Is(target error) bool { return target == ErrDamaged }

// damageOf is what a damaged file is.
func damageOf(place string) error {
	switch {
	case ownFile(place):
		return directoryDamaged{}
	case filepath.Base(place) == snapshotFile:
		return ErrSnapshot
	}
	return ErrDamaged
}

// named wraps an error with its place, what it means and what to do about it. An error that has its
// name, or its place, keeps it.
func named(err error, place string) error {
	if err == nil {
		return nil
	}
	for _, c := range causes {
		if errors.Is(err, c.means) {
			return at(place, err)
		}
	}
	for _, c := range causes {
		if errors.Is(err, c.cause) {
			return fmt.Errorf("%s: %w (%w): %s", place, c.means, err, cmp.Or(c.advice, onDamage(place)))
		}
	}
	return at(place, err)
}

// at puts the place before an error that does not begin with it, or with a file in it.
func at(place string, err error) error {
	if text := err.Error(); strings.HasPrefix(text, place+":") || strings.HasPrefix(text, place+"/") {
		return err
	}
	return fmt.Errorf("%s: %w", place, err)
}

// damaged says what is wrong with a file.
func damaged(place, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s; %s", place, damageOf(place), fmt.Sprintf(format, args...), onDamage(place))
}

// panicked is the error of an engine that panicked. It may hold its locks for ever, so that it
// cannot be closed: its file is.
type panicked struct{ error }

func (p panicked) Unwrap() error { return p.error }

func hasPanicked(err error) bool { return errors.As(err, new(panicked)) }

// guard runs what an engine does with a file and turns its panic into an error. An engine trusts
// the pages of its file: damaged ones lead it to bounds that do not hold, or to addresses behind
// the end of the mapping.
func guard(place string, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = panicked{damaged(place, "the engine failed on it: %v", r)}
		}
	}()
	return named(do(), place)
}
