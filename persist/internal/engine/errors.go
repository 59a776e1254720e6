package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/squall-go/squall/internal/journal"
)

// Errors of package persist, which explains them. What wraps them says where, and what to do.
var (
	ErrInUse        = errors.New("the directory is in use")
	ErrReadOnlyDisk = errors.New("the disk cannot be written")
	ErrDiskFull     = errors.New("the disk is full")
	ErrDamaged      = journal.ErrDamaged
	// ErrSnapshot is the ErrDamaged of a log's snapshot.
	ErrSnapshot error = snapshotDamaged{}
)

// closed are the errors of engines that were closed.
var closed []error

type cause struct {
	cause, means error
	advice       string // empty: it is that on damage of the file
}

// Explain says what the errors of an engine mean: that another process has its file, that the file
// is damaged, and that it was closed. Only init functions call it.
func Explain(inUse, damage, ended []error) {
	for _, err := range inUse {
		causes = append(causes, cause{err, ErrInUse, InUseAdvice})
	}
	for _, err := range damage {
		causes = append(causes, cause{err, ErrDamaged, ""})
	}
	closed = append(closed, ended...)
}

// causes says what the errors of a disk and of an engine mean, and what to do.
var causes = []cause{
	{syscall.ENOSPC, ErrDiskFull, "free some space there and start again: what was acknowledged is kept"},
	{syscall.EDQUOT, ErrDiskFull, "raise the quota and start again: what was acknowledged is kept"},
	{syscall.EROFS, ErrReadOnlyDisk, "mount it writable, or name another directory"},
	{fs.ErrPermission, ErrReadOnlyDisk, "let this user write there, or name another directory"},
}

const (
	InUseAdvice = "stop the other process or name another directory; " +
		"to read the logs of a member that runs, ask it: squall log … HOST:PORT"
	StoreAdvice = "if the other members have their logs, move the directory away and start this member with an empty one: " +
		"it fetches everything from them; `squall log verify DIRECTORY` says what can still be read"
	LogAdvice = "its member, when it is started again, drops what is damaged and gets it from the others; " +
		"`squall log verify DIRECTORY` says what can still be read"
)

// ownFile reports whether a file is one of the files that identify a member: it can do without any
// other.
func ownFile(place string) bool {
	name := filepath.Base(place)
	return name == IdentityFile || name == MetaFile
}

// onDamage is what to do about a damaged file.
func onDamage(place string) string {
	if ownFile(place) {
		return StoreAdvice
	}
	return LogAdvice
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
	case filepath.Base(place) == SnapshotFile:
		return ErrSnapshot
	}
	return ErrDamaged
}

// Named wraps an error with its place, what it means and what to do about it. An error that has its
// name, or its place, keeps it.
func Named(err error, place string) error {
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

// Damaged says what is wrong with a file.
func Damaged(place, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s; %s", place, damageOf(place), fmt.Sprintf(format, args...), onDamage(place))
}

// panicked is the error of an engine that panicked. It may hold its locks for ever, so that it
// cannot be closed: its file is.
type panicked struct{ error }

func (p panicked) Unwrap() error { return p.error }

func HasPanicked(err error) bool { return errors.As(err, new(panicked)) }

// Guard runs what an engine does with a file and turns its panic into an error. An engine trusts
// the pages of its file: damaged ones lead it to bounds that do not hold, or to addresses behind
// the end of the mapping.
func Guard(place string, do func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = panicked{Damaged(place, "the engine failed on it: %v", r)}
		}
	}()
	return Named(do(), place)
}

// Missing reports whether an error says that a file is not there.
func Missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
