//go:build !linux

package bench

import "os"

// NewSegment makes a temporary file for the processes to map.
func NewSegment(bytes int) (*Segment, error) {
	f, err := os.CreateTemp("", "squall-bench-")
	if err != nil {
		return nil, segmentError("file", err)
	}
	if err := f.Truncate(int64(bytes)); err != nil {
		return nil, segmentError(f.Name(), err)
	}
	return &Segment{f.Name(), func() error { f.Close(); return os.Remove(f.Name()) }}, nil
}
