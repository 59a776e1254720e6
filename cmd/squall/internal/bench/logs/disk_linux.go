package logs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileSystem is the kind of file system that a directory is on, by the number that the kernel has
// for it if this package has no name.
func fileSystem(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "unknown"
	}
	names := map[int64]string{
		unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "tmpfs", unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	}
	if name, ok := names[int64(s.Type)]; ok { //nolint:unconvert // the type differs between architectures
		return name
	}
	return fmt.Sprintf("%#x", s.Type)
}

// openAround makes a file whose writes go around the page cache.
func openAround(path string) (*os.File, error) {
	return os.OpenFile(path, newFile|unix.O_DIRECT, 0o600)
}

// refused says that a file system does not take such a file, or does not take a write to it.
func refused(err error) bool { return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) }

// syncData waits until the disk has what was written.
func syncData(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// forget has the system drop what it keeps in memory of the files below a directory, so that they
// are read from the disk.
func forget(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := f.Sync(); err != nil { // only what the disk has is dropped
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
