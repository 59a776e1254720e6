package copy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/mapped"
)

// stagePrefix begins the name of the directory in which a push is put together. No entry may begin
// so.
const stagePrefix = ".squall-recv-"

// stage is a directory inside the receiver's in which files are complete before they get their
// names: on the same disk, so that a rename is all that is missing, and easy to throw away.
//
// Life of a stage: made → large files reserved → files filled → placed → kept, or undone. Closing
// it removes what is in it.
type stage struct {
	root    *os.Root // the receiver's directory; every path is resolved inside it
	dir     *os.Root // the stage
	lock    *os.File // held while the stage is in use; see sweep
	name    string
	entries []entry
	force   bool
	sync    bool
	made    map[string]bool // directories that are known to be there
	undo    []func() error  // of what was placed, in order
}

// newStage makes an empty stage.
func newStage(root *os.Root, entries []entry, force, sync bool) (*stage, error) {
	var random [6]byte
	rand.Read(random[:]) // it does not fail: the process would end
	s := &stage{
		root: root, name: stagePrefix + hex.EncodeToString(random[:]), entries: entries, force: force, sync: sync,
		made: map[string]bool{".": true},
	}
	if err := root.Mkdir(s.name, 0o700); err != nil {
		return nil, err
	}
	var err error
	if s.dir, err = root.OpenRoot(s.name); err != nil {
		return nil, errors.Join(err, root.Remove(s.name))
	}
	if s.lock, err = root.Open(s.name); err == nil {
		_, err = lockDirectory(s.lock)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// sweep removes stages that earlier processes left behind when they were killed. One that is in use
// is locked.
func sweep(root *os.Root) error {
	list, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range list {
		if d.IsDir() && strings.HasPrefix(d.Name(), stagePrefix) {
			errs = append(errs, sweepOne(root, d.Name()))
		}
	}
	return errors.Join(errs...)
}

func sweepOne(root *os.Root, name string) error {
	lock, err := root.Open(name)
	if err != nil {
		return err
	}
	defer lock.Close()
	if free, err := lockDirectory(lock); err != nil || !free {
		return err
	}
	return root.RemoveAll(name)
}

// refusals are why the entries cannot be placed: what is there already, and what is in the way
// (C3).
func (s *stage) refusals() (why []string) {
	own, err := s.root.Stat(".")
	if err != nil {
		return []string{err.Error()}
	}
	looked := map[string]string{".": ""} // directories, and what is wrong with them
	for i := range s.entries {
		e := &s.entries[i]
		fault := s.above(path.Dir(e.Path), own, looked)
		if fault == "" {
			fault = s.taken(e)
		}
		if fault != "" && !slices.Contains(why, fault) {
			if why = append(why, fault); len(why) > maxFaults {
				why[maxFaults] = "and more like these"
				break
			}
		}
	}
	return why
}

// above says why nothing can be placed in a directory. It need not be there, but nothing else may
// be in its place: no file, and no symbolic link, which could lead anywhere tomorrow.
func (s *stage) above(dir string, own fs.FileInfo, looked map[string]string) (fault string) {
	if fault, ok := looked[dir]; ok {
		return fault
	}
	defer func() { looked[dir] = fault }()
	if fault := s.above(path.Dir(dir), own, looked); fault != "" {
		return fault
	}
	info, err := s.root.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return reason(err)
	case !info.IsDir():
		return fmt.Sprintf("%s is there and no directory", dir)
	case !sameDisk(own, info):
		return fmt.Sprintf("%s is on another disk than the directory that receives: receive into it", dir)
	}
	return ""
}

// taken says why an entry's place is not free.
func (s *stage) taken(e *entry) string {
	info, err := s.root.Lstat(e.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return reason(err)
	case e.Kind == directory && info.IsDir():
		return ""
	case e.Kind == directory:
		return fmt.Sprintf("%s is there and no directory", e.Path)
	case info.IsDir():
		return fmt.Sprintf("%s is a directory there", e.Path)
	case s.force:
		return ""
	}
	return fmt.Sprintf("%s exists (--force overwrites)", e.Path)
}

// reason is an error without the operation in front of it.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Path, at.Err)
	}
	return err.Error()
}

// slot is the name of an entry in the stage.
func slot(i int) string { return strconv.Itoa(i) }

// reserve makes all files that are mapped, with their room; so a disk that is too small is found
// before anything is sent.
func (s *stage) reserve() error {
	for i := range s.entries {
		e := &s.entries[i]
		if !isLarge(e) {
			continue
		}
		f, err := s.dir.OpenFile(slot(i), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(mapped.Reserve(f, e.Size), f.Close()); err != nil {
			if errors.Is(err, mapped.ErrFull) {
				err = fmt.Errorf("%w for the %d bytes of %s", mapped.ErrFull, e.Size, e.Path)
			}
			return err
		}
	}
	return nil
}

// open maps a large file.
func (s *stage) open(i int) (*mapped.File, error) {
	f, err := s.dir.OpenFile(slot(i), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	m, err := mapped.Use(f, true)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// write makes a small file.
func (s *stage) write(i int, data []byte) error {
	f, err := s.dir.OpenFile(slot(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && s.sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%s: %w", s.entries[i].Path, err)
	}
	return nil
}

// complete makes what no piece carries, and gives everything but directories its mode and time.
func (s *stage) complete() error {
	for i := range s.entries {
		e := &s.entries[i]
		var err error
		switch {
		case e.Kind == directory:
			continue
		case e.Kind == link:
			err = s.dir.Symlink(e.To, slot(i))
		case e.Size == 0:
			err = s.write(i, nil)
		}
		if err == nil && e.Kind == file {
			err = stamp(s.dir, slot(i), e)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	return nil
}

// stamp sets mode and time.
func stamp(in *os.Root, name string, e *entry) error {
	at := time.Unix(0, e.Time)
	return errors.Join(in.Chmod(name, fs.FileMode(e.Mode)), in.Chtimes(name, at, at))
}

// close removes the stage with all that is in it, and keeps what was placed.
func (s *stage) close() error {
	err := s.dir.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return errors.Join(err, s.root.RemoveAll(s.name))
}
