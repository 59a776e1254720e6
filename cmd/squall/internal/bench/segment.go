package bench

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Segment is memory that processes of a run share, as the process holds it that made it.
type Segment struct {
	Path  string // by which the others map it
	Close func() error
}

// MapSegment maps a segment for as long as the process lives.
func MapSegment(path string, bytes int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, segmentError(path, err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, segmentError(path, err)
	}
	return b, nil
}

func segmentError(path string, err error) error { return fmt.Errorf("shared memory %s: %w", path, err) }
