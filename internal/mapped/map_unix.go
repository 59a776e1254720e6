//go:build unix

package mapped

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(file *os.File, size int, writable bool) (data []byte, err error) {
	protection := unix.PROT_READ
	if writable {
		protection |= unix.PROT_WRITE
	}
	control := func(fd int) error {
		data, err = unix.Mmap(fd, 0, size, protection, unix.MAP_SHARED)
		return err
	}
	return data, onDescriptor(file, control)
}

// onDescriptor calls fn with the file's descriptor, as often as a signal interrupts it, and leaves
// the file's mode as it is.
func onDescriptor(file *os.File, fn func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var own error
	err = raw.Control(func(fd uintptr) {
		for own = unix.EINTR; errors.Is(own, unix.EINTR); {
			own = fn(int(fd))
		}
	})
	return errors.Join(err, own)
}

func unmap(data []byte) error { return unix.Munmap(data) }

// isFull tells the errors of a disk without room, of a quota that is used up, and of a file system
// that holds no file so large.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
