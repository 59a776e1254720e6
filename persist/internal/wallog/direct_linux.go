package wallog

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens a file a second time, for writes that go around the page cache; nil: its file
// system has no such writes.
func openDirect(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT, 0)
	if err != nil {
		return nil
	}
	return f
}

// noDirect says that a file system took an open for direct writes, and does not take the writes.
func noDirect(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) }
