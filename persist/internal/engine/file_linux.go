package engine

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SetAside gives a file its length and its blocks.
func SetAside(f *os.File, size int64) error {
	err := again(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// SyncData syncs a file, but for the times in its inode.
func SyncData(f *os.File) error {
	return again(func() error { return unix.Fdatasync(int(f.Fd())) })
}

func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
