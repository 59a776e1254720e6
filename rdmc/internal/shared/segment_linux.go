package shared

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/squall-go/squall/internal/descriptors"
	"golang.org/x/sys/unix"
)

// segment is one memfd, mapped read-write. Its owner keeps both.
type segment struct {
	id  ID
	fd  int
	mem []byte
}

// seals protect those who look at a segment from its owner, and all from each other (E1).
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE

const statBlock = 512 // the unit of Stat_t.Blocks

// newSegment makes a segment of n bytes, a multiple of the size of pages.
func newSegment(n int) (*segment, error) {
	// Asked first, because the kernel would hand out page by page until it has none left, and then
	// kill somebody.
	if total := totalMemory(); n > total {
		return nil, fmt.Errorf("%w: %d bytes, this machine has %d in all", unix.ENOMEM, n, total)
	}
	fd, err := descriptors.Retry(func() (int, error) {
		return unix.MemfdCreate("squall-large", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	})
	if err != nil {
		return nil, fmt.Errorf("memfd: %w", err)
	}
	s := &segment{fd: fd}
	rand.Read(s.id[:])
	if err := s.furnish(n); err != nil {
		return nil, fmt.Errorf("memfd of %d bytes: %w", n, errors.Join(err, s.drop()))
	}
	return s, nil
}

// furnish gives it its pages, a mapping and the seals.
func (s *segment) furnish(n int) (err error) {
	if err := unix.Ftruncate(s.fd, int64(n)); err != nil {
		return err
	}
	if s.mem, err = unix.Mmap(s.fd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	_ = unix.Madvise(s.mem, unix.MADV_HUGEPAGE) // where the system allows it for shared memory, faults are fewer
	// Now, in one go: faults one by one take longer, and a full memory is an error here and not a
	// signal later. Older systems only know how to make the pages, and leave their mapping to
	// faults.
	err = unix.Madvise(s.mem, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		err = unix.Fallocate(s.fd, 0, 0, int64(n))
	}
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(uintptr(s.fd), unix.F_ADD_SEALS, seals|unix.F_SEAL_SEAL)
	return err
}

// drop gives the memory back to the system, as soon as nobody else has it mapped.
func (s *segment) drop() error {
	err := unix.Close(s.fd)
	if s.mem != nil {
		err = errors.Join(err, unix.Munmap(s.mem))
	}
	return err
}

// totalMemory is what the machine has, swap included.
func totalMemory() int {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return math.MaxInt
	}
	return int(min((uint64(info.Totalram)+uint64(info.Totalswap))*uint64(info.Unit), math.MaxInt))
}

// freeMemory is what the machine can give away: of what it has, what is not in use, and what it can
// take back.
func freeMemory() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return int64(totalMemory())
	}
	var kilobytes int64
	_, line, _ := strings.Cut(string(info), "MemAvailable:")
	if _, err := fmt.Sscan(line, &kilobytes); err != nil {
		return int64(totalMemory())
	}
	return kilobytes << 10
}

// mapSegment maps another process' segment, of which that must not be able to take anything away
// (E1).
func mapSegment(fd int) ([]byte, error) {
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals {
		return nil, fmt.Errorf("%w: E1: it is not a sealed segment (seals %#x): %w", ErrRefused, has, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Size <= 0 || st.Size > math.MaxInt {
		return nil, fmt.Errorf("%w: E1: a segment of %d bytes", ErrRefused, st.Size)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return nil, err
	}
	// A page that is missing is made when it is read: at the reader's charge, or with SIGBUS if
	// there is none. Sealed pages stay.
	if fs.Type == unix.HUGETLBFS_MAGIC || st.Blocks*statBlock < st.Size {
		return nil, fmt.Errorf("%w: E1: a segment of %d bytes with memory for %d", ErrRefused, st.Size, st.Blocks*statBlock)
	}
	return unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(mem []byte) { _ = unix.Munmap(mem) } // it was mapped, and is not used any more: there is nothing that could be done
