package samehost

import (
	"errors"
	"fmt"
	"math"

	"github.com/squall-go/squall/internal/descriptors"
	"golang.org/x/sys/unix"
)

// Seals protect the readers of a segment from its owner, and from each other.
const Seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

const statBlock = 512 // the unit of Stat_t.Blocks

// NewSegment makes a memfd of n bytes that no other process can map for writing: its memory, mapped
// read-write, and its descriptor. allocate gives it all of its pages, so that a full memory is an
// error here and not a signal later.
func NewSegment(name string, n int, allocate func(mem []byte, fd int) error) (mem []byte, fd int, err error) {
	// Asked first, because the kernel would hand out page by page until it has none left, and then
	// kill a process.
	if total := TotalMemory(); n > total {
		return nil, -1, fmt.Errorf("%w: this machine has %d bytes in all", unix.ENOMEM, total)
	}
	fd, err = descriptors.Retry(func() (int, error) {
		return unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	})
	if err != nil {
		return nil, -1, fmt.Errorf("creation of a memfd: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(n)); err == nil {
		mem, err = unix.Mmap(fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		err = allocate(mem, fd)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, Seals|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, -1, fmt.Errorf("a memfd of %d bytes: %w", n, errors.Join(err, Release(mem, fd)))
	}
	return mem, fd, nil
}

// Release gives the memory of a segment back to the system, as soon as no other process maps it.
func Release(mem []byte, fd int) error {
	err := unix.Close(fd)
	if mem != nil {
		err = errors.Join(err, unix.Munmap(mem))
	}
	return err
}

// SegmentBytes returns the size of the segment of another process, or why that process could take
// something of it away from a reader.
func SegmentBytes(fd int) (int64, error) {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return 0, fmt.Errorf("it is not a sealed segment: %w", err)
	}
	if seals&Seals != Seals {
		return 0, fmt.Errorf("it is not a sealed segment (seals %#x)", seals)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return 0, err
	}
	// A page that is missing is made when it is read: at the reader's charge, or with SIGBUS if
	// there is none. Sealed pages stay.
	if fs.Type == unix.HUGETLBFS_MAGIC {
		return 0, errors.New("it is of huge pages, which may be missing")
	}
	if st.Blocks*statBlock < st.Size {
		return 0, fmt.Errorf("it has memory for %d of its %d bytes", st.Blocks*statBlock, st.Size)
	}
	return st.Size, nil
}

// TotalMemory is what the machine has, swap included.
func TotalMemory() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return math.MaxInt
	}
	return int(min((uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit), math.MaxInt))
}
