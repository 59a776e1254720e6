package persist

import (
	"fmt"
	"path/filepath"

	"github.com/squall-go/squall/persist/internal/engine"
)

// SetAside renames the files of a log that is not open, so that the store does not find them as a
// log any more, and returns the new name, or "" if there were no files. It is for a log whose files
// are damaged beyond repair. An operator may remove the renamed files to free the space. They stay
// in logs/, because the directories next to it may be on another disk.
func (s *Store) SetAside(id LogID) (to string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.still(id); err != nil {
		return "", err
	}
	if err := s.Put(map[string][]byte{logKey(id.escape()): nil, damageKey(id): nil}); err != nil {
		return "", err
	}
	from := filepath.Join(s.path(logsDir), id.escape())
	if !isThere(from) {
		return "", nil
	}
	return s.moveAside(id, from)
}

// SetSnapshotAside renames the snapshot of a log as SetAside renames all files: the log begins with
// its first record then.
func (s *Store) SetSnapshotAside(id LogID) (to string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.still(id); err != nil {
		return "", err
	}
	dir := filepath.Join(s.path(logsDir), id.escape())
	to, err = s.moveAside(id, filepath.Join(dir, engine.SnapshotFile))
	if err != nil {
		return "", err
	}
	return to, syncDir(s.disk, dir)
}

// still says why the files of a log may not be moved. The caller holds mu.
func (s *Store) still(id LogID) error {
	switch {
	case s.config.ReadOnly:
		return fmt.Errorf("%s: %w: it was opened to be read only", s.config.Dir, ErrReadOnlyDisk)
	case s.closed:
		return fmt.Errorf("%s: %w", s.config.Dir, ErrClosed)
	case s.open[id] != nil:
		return fmt.Errorf("%s: log %v: %w", s.config.Dir, id, ErrLogOpen)
	}
	return nil
}

// moveAside takes the next name that is free.
func (s *Store) moveAside(id LogID, from string) (to string, err error) {
	logs := s.path(logsDir)
	for n := 1; to == "" || isThere(to); n++ {
		to = filepath.Join(logs, fmt.Sprintf("%s%s%d", id.escape(), asideMark, n))
	}
	if err := s.disk.Rename(from, to); err != nil {
		return "", engine.Named(err, from)
	}
	return to, syncDir(s.disk, logs)
}
