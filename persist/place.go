package persist

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/squall-go/squall/persist/internal/engine"
)

const (
	// logsDir holds one directory for each log.
	logsDir = "logs"
	// asideMark stands in the names there of what is damaged and was set aside, behind that of its
	// log. No log has a second dot in its name.
	asideMark = ".damaged."
	// unfinished ends the names of what a crash may have left half made.
	unfinished = ".new"
	// maxName bounds the name of a directory; file systems take 255 bytes.
	maxName = 240
)

// escape makes the name of a directory of a log: letters, digits, - and _ stay, any other byte is
// %XX. That leaves the dot for the shard, and no name can lead out of the directory.
func (id LogID) escape() string {
	var b strings.Builder
	for _, c := range []byte(id.Name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return fmt.Sprintf("%s.%d", b.String(), id.Shard)
}

// place finds the directory of a log, or makes it, and settles the engine: a log that is there
// keeps its own.
func (s *Store) place(c *LogConfig) (dir string, err error) {
	if !c.ID.named() {
		return "", fmt.Errorf("%s: %v is no name for a log: it is empty, or needs more than %d bytes with what is special in it escaped",
			s.config.Dir, c.ID, maxName)
	}
	name := c.ID.escape()
	dir = filepath.Join(s.path(logsDir), name)
	known, err := s.Get(logKey(name))
	if err != nil {
		return "", err
	}
	if err := s.reachLog(dir, *c, known != nil); err != nil {
		return "", err
	}
	l, err := s.labelOf(dir, c)
	if err != nil {
		return "", err
	}
	if known == nil && !s.config.ReadOnly {
		if err := s.Put(map[string][]byte{logKey(name): {}}); err != nil {
			return "", err
		}
	}
	c.driver, err = c.driverOf(l.Engine, dir)
	return dir, err
}

// named reports whether a log can have this name.
func (id LogID) named() bool { return id.Name != "" && id.Shard >= 0 && len(id.escape()) <= maxName }

// reachLog makes a log whose directory is not there, unless it should be.
func (s *Store) reachLog(dir string, c LogConfig, known bool) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return engine.Damaged(dir, "it is no directory")
	case err == nil || !engine.Missing(err):
		return nil // if it cannot be reached, reading it says why
	case isThere(dir):
		return engine.Damaged(dir, "it is a link that leads nowhere")
	case known && !c.Repair:
		return fmt.Errorf("%s: %w: %w; %s", dir, ErrDamaged, ErrMissing, engine.LogAdvice)
	case s.config.ReadOnly:
		return fmt.Errorf("%s: log %v: %w", s.config.Dir, c.ID, ErrNotFound)
	}
	return s.makeLog(dir, c)
}

// isThere reports whether a name leads to anything, if only to a link.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !engine.Missing(err)
}

// logsIn tells the directories of logs from what else is in logs/, which is left alone: files that
// an operator put there, and logs that were set aside.
func logsIn(dir string) (ids []LogID, foreign []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, engine.Named(err, dir)
	}
	for _, e := range entries {
		id, err := unescape(e.Name())
		switch {
		case err == nil && id.escape() == e.Name() && id.named() && isDir(filepath.Join(dir, e.Name()), e):
			ids = append(ids, id)
		case !strings.HasSuffix(e.Name(), unfinished):
			foreign = append(foreign, e.Name())
		}
	}
	return ids, foreign, nil
}

// isDir reports whether an entry is a directory, or a link to one.
func isDir(path string, e os.DirEntry) bool {
	if e.Type()&os.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// logKeys begin the values that say which logs were made, so that one of which all files are gone
// is not taken for one that never was.
const logKeys = "log/"

func logKey(name string) string { return logKeys + name }

// made are the directories of logs that there should be.
func made(keys []string) (names []string) {
	for _, key := range keys {
		if name, is := strings.CutPrefix(key, logKeys); is {
			names = append(names, name)
		}
	}
	return names
}

// unescape is whose log a directory is.
func unescape(dir string) (id LogID, err error) {
	at := strings.LastIndexByte(dir, '.')
	if at < 0 {
		return id, fmt.Errorf("%s: no log has a directory of this name", dir)
	}
	if id.Name, err = url.PathUnescape(dir[:at]); err == nil {
		id.Shard, err = strconv.Atoi(dir[at+1:])
	}
	return id, err
}

// makeLog makes a log under another name and renames it when it is complete, so that a crash leaves
// all of it or none.
func (s *Store) makeLog(dir string, c LogConfig) error {
	temp := dir + unfinished
	if err := s.disk.RemoveAll(temp); err != nil {
		return engine.Named(err, temp)
	}
	if err := s.disk.Mkdir(temp); err != nil {
		return engine.Named(err, temp)
	}
	d, err := driverOf(c.Engine)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := engine.Create(d, temp); err != nil {
		return engine.Named(err, temp)
	}
	err = writeLabel(s.disk, filepath.Join(temp, labelFile), label{Format, c.ID.Name, c.ID.Shard, d.String()})
	if err != nil {
		return err
	}
	if err := s.disk.Rename(temp, dir); err != nil {
		return engine.Named(err, dir)
	}
	return syncDir(s.disk, filepath.Dir(dir))
}

func readLogLabel(dir string) (label, error) {
	var l label
	path := filepath.Join(dir, labelFile)
	err := readLabel(path, &l)
	if engine.Missing(err) {
		err = engine.Damaged(path, "it is missing")
	}
	return l, err
}

// labelOf is the label of a log. One that is damaged says nothing that the directory's name and its
// files do not: repair writes it anew.
func (s *Store) labelOf(dir string, c *LogConfig) (label, error) {
	l, err := readLogLabel(dir)
	if name, ok := engineIn(dir); errors.Is(err, ErrDamaged) && c.Repair && ok {
		c.relabeled = true
		l = label{Format, c.ID.Name, c.ID.Shard, name}
		err = writeLabel(s.disk, filepath.Join(dir, labelFile), l)
	}
	if err == nil {
		err = l.check(dir, c.ID)
	}
	return l, err
}

// check compares a label with whose log its directory should be. It is no damage if they differ:
// the directory was renamed.
func (l *label) check(dir string, id LogID) error {
	if have := (LogID{l.Name, l.Shard}); have != id {
		return fmt.Errorf("%s: %w: its %s says that it is that of %v; call it %s again", dir, ErrOtherLog, labelFile, have, have.escape())
	}
	return nil
}

// engineIn returns the name of the engine whose files are in a directory, if there is one.
func engineIn(dir string) (name string, ok bool) {
	bolt, wal := isThere(filepath.Join(dir, engine.BoltFile)), isThere(filepath.Join(dir, engine.WALListFile))
	if wal {
		return "wal", !bolt
	}
	return "bolt", bolt
}

// driverOf returns the driver of a log that is there: the configured one if it has the name,
// otherwise that of this program.
func (c *LogConfig) driverOf(name, place string) (engine.Driver, error) {
	if d, is := c.Engine.(engine.Driver); is && d.String() == name {
		return d, nil
	}
	return driverAt(name, place)
}

// known are the engines of this version.
var known = []string{"bolt", "wal"}

func driverAt(name, place string) (engine.Driver, error) {
	d, err := driverNamed(name)
	switch {
	case err == nil:
		return d, nil
	case slices.Contains(known, name):
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	return nil, fmt.Errorf("%s: %w: it is kept by engine %q, which this program does not have; use the program that wrote it",
		place, ErrNewerFormat, name)
}
