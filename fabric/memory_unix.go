//go:build unix && !race

package fabric

import "golang.org/x/sys/unix"

// NewMemory returns zeroed, page-aligned memory outside the Go heap, and the function that gives it
// back.
func NewMemory(n int) ([]byte, func() error, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, MemoryError(n, "memory", err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}

// zeroSlab returns zeroed memory that cannot be written. Its pages are the system's one page of
// zeros.
func zeroSlab(n int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, MemoryError(n, "address space", err)
	}
	return mem, nil
}
