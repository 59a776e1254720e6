//go:build !linux

package messages

import (
	"os"
	"time"
)

// newSegment makes a temporary file for the processes to map.
func newSegment(bytes int) (*segment, error) {
	f, err := os.CreateTemp("", "squall-bench-")
	if err != nil {
		return nil, mapError("file", err)
	}
	if err := f.Truncate(int64(bytes)); err != nil {
		return nil, mapError(f.Name(), err)
	}
	return &segment{f.Name(), func() error { f.Close(); return os.Remove(f.Name()) }}, nil
}

// yieldCore lets another process have the core.
func yieldCore() { time.Sleep(time.Microsecond) }
