//go:build system

package testlab

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// ram mounts a disk of so many bytes, in memory, until the test ends. Call it before NewCluster:
// then the processes are gone by then.
func ram(t *testing.T, bytes int) (dir string) {
	t.Helper()
	dir = mountPoint(t)
	if err := syscall.Mount("squall-testlab", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { unmount(t, dir) })
	return dir
}

func mountPoint(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a disk")
	}
	return t.TempDir()
}

// freeze makes a disk that ram mounted one that can only be read.
func freeze(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("squall-testlab", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
}

func unmount(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Errorf("%s: %v", dir, err)
		_ = syscall.Unmount(dir, syscall.MNT_DETACH)
	}
}
