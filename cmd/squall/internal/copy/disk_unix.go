//go:build unix

package copy

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskSpace is how many bytes the disk of a directory has left for this process.
func diskSpace(dir string) (bytes int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}

// sameDisk reports whether a rename can move a file between two directories.
func sameDisk(a, b fs.FileInfo) bool {
	x, okX := a.Sys().(*syscall.Stat_t)
	y, okY := b.Sys().(*syscall.Stat_t)
	return !okX || !okY || x.Dev == y.Dev
}

// lockDirectory takes a lock that ends with this process, or reports that another process holds it.
func lockDirectory(dir *os.File) (free bool, err error) {
	err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
