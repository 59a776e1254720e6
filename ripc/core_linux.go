package ripc

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// currentCore is the core on which the caller runs, plus one, or 0.
func currentCore() uint64 {
	var core uint32
	// Raw: the call never waits, so the scheduler need not know of it.
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&core)), 0, 0); errno != 0 {
		return 0
	}
	return uint64(core) + 1
}
