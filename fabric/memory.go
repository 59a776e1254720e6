package fabric

import "fmt"

// MemoryError is why the n bytes of a row are not to be had; it says what to do.
func MemoryError(n int, what string, err error) error {
	return fmt.Errorf("%s of %d bytes (%.1f MiB) for a row: %w (use smaller RingBytes or fewer subgroups, or allow this process more memory)",
		what, n, float64(n)/(1<<20), err)
}
