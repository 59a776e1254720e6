package messages

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapSegment maps a segment for as long as the process lives.
func mapSegment(path string, bytes int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, mapError(path, err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, mapError(path, err)
	}
	return b, nil
}
