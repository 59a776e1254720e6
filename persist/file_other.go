//go:build !linux

package persist

import "os"

// setAside gives a file its length.
func setAside(f *os.File, size int64) error { return f.Truncate(size) }

func syncData(f *os.File) error { return f.Sync() }
