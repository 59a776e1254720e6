package mapped

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// allocated is how many bytes a file has on the disk.
func allocated(t *testing.T, path string) int64 {
	t.Helper()
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Blocks * 512
}

// smallDisk is a file system of one MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFullDiskIsFoundBeforeAByteIsWritten(t *testing.T) {
	path := filepath.Join(smallDisk(t), "file")
	if _, err := Create(path, 2<<20); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a file is left behind")
	}
	f, err := Create(path, 1<<19)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path+"2", 3<<18); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if err := errors.Join(f.Close(), os.Remove(f.Path())); err != nil {
		t.Fatal(err)
	}
}

func TestASizeThatNoDiskHasIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Create(path, math.MaxInt64); err == nil {
		t.Fatal("it was created")
	}
	if _, err := os.Stat(path); err == nil {
		t.Fatal("a file is left behind")
	}
}
