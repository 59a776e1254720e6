package copy

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk is a file system of so many bytes.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestADiskThatIsTooSmallRefuses(t *testing.T) {
	t.Parallel()
	small, large := take(t, smallDisk(t, 4<<20)), take(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 5<<20, 1)
	mustRefuse(t, []string{small.addr + " refused: no space left on the disk: 5.2 MB to receive, and 4.2 MB left"}, path, small.addr, large.addr)
	mustBeEmpty(t, small.dir)
	mustBeEmpty(t, large.dir)
}

func TestADiskThatFillsUpIsNamedAndNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	small, large := take(t, smallDisk(t, 1<<20)), take(t, t.TempDir())
	dir := filepath.Join(t.TempDir(), "dir")
	for i := range 400 { // each takes a page
		write(t, filepath.Join(dir, fmt.Sprint(i)), 100, 1)
	}
	mustRefuse(t, []string{small.addr + ": dir/", "no space left on device"}, dir, small.addr, large.addr)
	for _, r := range []*taker{small, large} {
		if status, out, errs := r.end(); status != 1 || errs == "" || out != "" {
			t.Errorf("exit status %d: %s%s", status, out, errs)
		}
		mustBeEmpty(t, r.dir)
	}
}

func TestADirectoryOnAnotherDiskIsRefused(t *testing.T) {
	t.Parallel()
	r := take(t, t.TempDir())
	below := filepath.Join(r.dir, "dir")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(smallDisk(t, 1<<20), below, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	defer unix.Unmount(below, unix.MNT_DETACH)
	dir := filepath.Join(t.TempDir(), "dir")
	write(t, filepath.Join(dir, "file"), 100, 1)
	mustRefuse(t, []string{"dir is on another disk"}, dir, r.addr)
}
