package copy

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/show"
)

// stagePrefix begins the name of the directory in which a push is put together. No entry may begin
// so.
const stagePrefix = ".squall-recv-"

// stage is a directory inside the receiver's in which files are complete before they get their
// names: on the same disk, so that a rename is all that is missing, and easy to throw away.
//
// Life of a stage: made → filled → placed → kept, or undone. Closing it removes what is in it.
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
		return show.Reason(err)
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
		return show.Reason(err)
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

// slot is the name of an entry in the stage.
func slot(i int) string { return strconv.Itoa(i) }

// fill makes an entry in the stage, with its content, which comes next.
func (s *stage) fill(i int, content io.Reader) error {
	e := &s.entries[i]
	switch e.Kind {
	case directory:
		return nil // it is made in its place
	case link:
		return s.dir.Symlink(e.To, slot(i))
	}
	f, err := s.dir.OpenFile(slot(i), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, content, e.Size)
	if err == nil && s.sync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return stamp(s.dir, slot(i), e)
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

// place gives everything its name. If that fails, nothing is placed (C4).
func (s *stage) place() error {
	for i := range s.entries {
		if err := s.placeOne(i); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.entries[i].Path, err), s.rollBack())
		}
	}
	// Only now, and the deepest first: a directory that may not be written to could not have been
	// filled.
	for i := range slices.Backward(s.entries) {
		e := &s.entries[i]
		if e.Kind != directory || !s.made[e.Path] {
			continue
		}
		if err := stamp(s.root, e.Path, e); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", e.Path, err), s.rollBack())
		}
	}
	return nil
}

func (s *stage) placeOne(i int) error {
	e := &s.entries[i]
	if err := s.mkdir(path.Dir(e.Path)); err != nil {
		return err
	}
	switch {
	case e.Kind == directory:
		return s.mkdir(e.Path)
	case s.force:
		return s.replace(i)
	}
	return s.link(i)
}

// mkdir makes a directory and its parents. It does not change existing directories.
func (s *stage) mkdir(dir string) error {
	if _, known := s.made[dir]; known {
		return nil
	}
	if err := s.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	err := s.root.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if info, err := s.root.Lstat(dir); err != nil || !info.IsDir() {
			return errors.Join(fmt.Errorf("%s is no directory any more", dir), err)
		}
		s.made[dir] = false
		return nil
	}
	if err != nil {
		return err
	}
	s.made[dir] = true
	s.undo = append(s.undo, func() error { return s.root.Remove(dir) })
	return nil
}

// link places a file only if no other file has taken its name meanwhile, which a rename would not
// notice.
func (s *stage) link(i int) error {
	p := s.entries[i].Path
	err := s.root.Link(path.Join(s.name, slot(i)), p)
	if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without hard links
		if _, there := s.root.Lstat(p); there == nil {
			err = fs.ErrExist
		} else if err = s.root.Rename(path.Join(s.name, slot(i)), p); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("it exists by now (--force overwrites): %w", err)
	}
	s.undo = append(s.undo, func() error { return s.root.Remove(p) })
	return nil
}

// replace places a file over what is there, and keeps that until the push is kept.
func (s *stage) replace(i int) error {
	p, old := s.entries[i].Path, path.Join(s.name, "old-"+slot(i))
	err := s.root.Link(p, old)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.undo = append(s.undo, func() error { return s.root.Remove(p) })
	case err != nil:
		// A file system without hard links: the old file is lost as soon as the new one is there.
		s.undo = append(s.undo, func() error { return fmt.Errorf("%s: the old file cannot be had back", p) })
	default:
		s.undo = append(s.undo, func() error { return s.root.Rename(old, p) })
	}
	if err := s.root.Rename(path.Join(s.name, slot(i)), p); err != nil {
		s.undo = s.undo[:len(s.undo)-1] // nothing happened
		return err
	}
	return nil
}

// rollBack undoes what was placed, the last first.
func (s *stage) rollBack() error {
	var errs []error
	for dir, own := range s.made {
		if own {
			_ = s.root.Chmod(dir, 0o700) // or it could not be emptied
		}
	}
	for _, undo := range slices.Backward(s.undo) {
		errs = append(errs, undo())
	}
	s.undo = nil
	return errors.Join(errs...)
}

// keep gives up what could undo it, and waits until the names are on the disk too, if --sync asks
// for it.
func (s *stage) keep() error {
	s.undo = nil
	if !s.sync {
		return nil
	}
	for dir := range s.made {
		d, err := s.root.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
