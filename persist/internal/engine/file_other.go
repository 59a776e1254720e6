//go:build !linux

package engine

import "os"

// SetAside gives a file its length.
func SetAside(f *os.File, size int64) error { return f.Truncate(size) }

func SyncData(f *os.File) error { return f.Sync() }
