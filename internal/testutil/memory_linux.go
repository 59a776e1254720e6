package testutil

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// memoryBytes is the free memory that MemoryDir needs for the files of tests that run at the same
// time.
const memoryBytes = 4 << 30

// MemoryDir returns a directory in memory, where syncs take no time, that is removed when the test
// ends. It is for tests that simulate a disk's faults, or test none. Without a large file system in
// memory it is t.TempDir.
func MemoryDir(t testing.TB) string {
	t.Helper()
	const memory = "/dev/shm"
	var s unix.Statfs_t
	if err := unix.Statfs(memory, &s); err != nil || s.Type != unix.TMPFS_MAGIC || s.Bavail*uint64(s.Bsize) < memoryBytes {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "squall-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("a directory of the test: %v", err)
		}
	})
	return dir
}
