//go:build !unix || race

package fabric

import "unsafe"

// NewMemory returns zeroed, line-aligned memory on the Go heap: the race detector cannot see
// atomics on mapped memory.
func NewMemory(n int) ([]byte, func() error, error) {
	mem := make([]byte, n+LineBytes)
	skip := -int(uintptr(unsafe.Pointer(&mem[0]))) & (LineBytes - 1)
	return mem[skip : skip+n : skip+n], func() error { return nil }, nil
}

// zeroSlab returns zeroed memory that must not be written.
func zeroSlab(n int) ([]byte, error) {
	mem, _, err := NewMemory(n)
	return mem, err
}
