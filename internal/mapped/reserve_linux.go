package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates blocks and sets the length, in one call.
func reserve(file *os.File, size int64) error {
	return onDescriptor(file, func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
}
