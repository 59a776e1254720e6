package samehost

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// segment is one memfd, mapped read-write. Its owner keeps both, and its seals protect others (E1).
type segment struct {
	id  ID
	fd  int
	mem []byte
}

// newSegment makes a segment of n bytes, a multiple of the size of pages.
func newSegment(n int) (*segment, error) {
	mem, fd, err := NewSegment("squall-large", n, populate)
	if err != nil {
		return nil, err
	}
	s := &segment{fd: fd, mem: mem}
	rand.Read(s.id[:])
	return s, nil
}

// populate gives a segment all of its pages.
func populate(mem []byte, fd int) error {
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the system allows it for shared memory, faults are fewer
	// In one go, since faults one by one take longer. Older systems only know how to make the pages,
	// and leave their mapping to faults.
	err := unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	if errors.Is(err, unix.EINVAL) {
		err = unix.Fallocate(fd, 0, 0, int64(len(mem)))
	}
	return err
}

// drop gives the memory back to the system, as soon as no other process maps it.
func (s *segment) drop() error { return Release(s.mem, s.fd) }

// freeMemory is what the machine can give away: of what it has, what is not in use, and what it can
// take back.
func freeMemory() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return int64(TotalMemory())
	}
	var kilobytes int64
	_, line, _ := strings.Cut(string(info), "MemAvailable:")
	if _, err := fmt.Sscan(line, &kilobytes); err != nil {
		return int64(TotalMemory())
	}
	return kilobytes << 10
}

// mapSegment maps the segment of another process, which must not be able to take anything of it
// away (E1).
func mapSegment(fd int) ([]byte, error) {
	size, err := SegmentBytes(fd)
	if err != nil {
		return nil, fmt.Errorf("%w: E1: %w", ErrRefused, err)
	}
	if size == 0 || size > math.MaxInt {
		return nil, fmt.Errorf("%w: E1: a segment of %d bytes", ErrRefused, size)
	}
	return unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(mem []byte) { _ = unix.Munmap(mem) } // it was mapped, and is not used any more: there is nothing that could be done
