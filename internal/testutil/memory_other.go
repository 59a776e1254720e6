//go:build !linux

package testutil

import "testing"

// MemoryDir returns a directory that is removed when the test ends.
func MemoryDir(t testing.TB) string { return t.TempDir() }
