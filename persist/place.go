package persist

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// logsDir holds one directory for each log.
	logsDir = "logs"
	// asideDir holds those whose files nothing can be read from, as they were.
	asideDir = "damaged"
	// unfinished ends the names of what a crash may have left half made.
	unfinished = ".new"
	// maxName bounds the name of a directory; file systems take 255 bytes.
	maxName = 240
)

// escape makes the name of a directory of a log: letters, digits, - and _ stay, any other byte is %XX. That leaves the dot for the shard,
// and no name can lead out of the directory.
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

// place finds the directory of a log, or makes it, and settles the engine: a log that is there keeps its own.
func (s *Store) place(c *LogConfig) (dir string, err error) {
	name := c.ID.escape()
	if c.ID.Name == "" || c.ID.Shard < 0 || len(name) > maxName {
		return "", fmt.Errorf("%s: %v is no name for a log: it is empty, or needs more than %d bytes with what is special in it escaped",
			s.config.Dir, c.ID, maxName)
	}
	dir = filepath.Join(s.path(logsDir), name)
	known, err := s.Get(logKey(name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); missing(err) {
		if err := s.absent(dir, *c, known != nil); err != nil {
			return "", err
		}
	}
	l, err := readLogLabel(dir)
	if err != nil {
		return "", err
	}
	if (LogID{l.Name, l.Shard}) != c.ID {
		return "", damaged(dir, "log %s.%d is here, where %v should be", l.Name, l.Shard, c.ID)
	}
	if known == nil && !s.config.ReadOnly {
		if err := s.Put(map[string][]byte{logKey(name): {}}); err != nil {
			return "", err
		}
	}
	c.Engine, err = engineNamed(l.Engine, dir)
	return dir, err
}

// logKeys begin the values that say which logs were made, so that one of which all files are gone is not taken for one that never was.
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

// absent makes a log whose directory is not there, unless it should be.
func (s *Store) absent(dir string, c LogConfig, known bool) error {
	if known && !c.Repair {
		return damaged(dir, "it is missing")
	}
	if s.config.ReadOnly {
		return fmt.Errorf("%s: log %v: %w", s.config.Dir, c.ID, ErrNotFound)
	}
	return s.makeLog(dir, c)
}

// makeLog makes a log under another name and renames it when it is complete, so that a crash leaves all of it or none.
func (s *Store) makeLog(dir string, c LogConfig) error {
	temp := dir + unfinished
	if err := s.disk.RemoveAll(temp); err != nil {
		return named(err, temp)
	}
	if err := s.disk.Mkdir(temp); err != nil {
		return named(err, temp)
	}
	if err := createEngine(c.Engine, temp); err != nil {
		return named(err, temp)
	}
	err := writeLabel(s.disk, filepath.Join(temp, labelFile), label{Format, c.ID.Name, c.ID.Shard, c.Engine.String()})
	if err != nil {
		return err
	}
	if err := s.disk.Rename(temp, dir); err != nil {
		return named(err, dir)
	}
	return syncDir(s.disk, filepath.Dir(dir))
}

func readLogLabel(dir string) (label, error) {
	var l label
	path := filepath.Join(dir, labelFile)
	err := readLabel(path, &l)
	if missing(err) {
		err = damaged(path, "it is missing")
	}
	return l, err
}

func engineNamed(name, place string) (Engine, error) {
	for _, e := range []Engine{Bolt, WAL} {
		if e.String() == name {
			return e, nil
		}
	}
	return 0, fmt.Errorf("%s: %w: it is kept by engine %q, which this program does not have; use the one that wrote it",
		place, ErrNewerFormat, name)
}
