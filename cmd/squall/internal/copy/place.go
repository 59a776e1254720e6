package copy

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// place gives everything its name. If that fails, nothing is placed (C4).
func (s *stage) place() error {
	for i := range s.entries {
		if err := s.placeOne(i); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", s.entries[i].Path, err), s.takeBack())
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
			return errors.Join(fmt.Errorf("%s: %w", e.Path, err), s.takeBack())
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
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("it exists by now (--force overwrites): %w", fs.ErrExist)
	}
	if err != nil { // a file system without hard links
		if _, there := s.root.Lstat(p); there == nil {
			return fmt.Errorf("it exists by now (--force overwrites): %w", fs.ErrExist)
		}
		if again := s.root.Rename(path.Join(s.name, slot(i)), p); again != nil {
			return errors.Join(err, again)
		}
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

// takeBack undoes what was placed, the last first.
func (s *stage) takeBack() error {
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

// settle waits until the names are on the disk too, if --sync asks for it.
func (s *stage) settle() error {
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
