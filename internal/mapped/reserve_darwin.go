package mapped

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve allocates blocks behind the end of an empty file, and then moves the end.
func reserve(file *os.File, size int64) error {
	room := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size}
	err := onDescriptor(file, func(fd int) error { return unix.FcntlFstore(uintptr(fd), unix.F_PREALLOCATE, &room) })
	if err != nil {
		return err
	}
	return file.Truncate(size)
}
