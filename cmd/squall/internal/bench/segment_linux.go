package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// NewSegment makes memory without a name, which nothing outlives. Others open it through this
// process's descriptor.
func NewSegment(bytes int) (*Segment, error) {
	fd, err := unix.MemfdCreate("squall-bench", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, segmentError("memfd", err)
	}
	if err := unix.Ftruncate(fd, int64(bytes)); err != nil {
		unix.Close(fd)
		return nil, segmentError("memfd", err)
	}
	return &Segment{fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd), func() error { return unix.Close(fd) }}, nil
}
