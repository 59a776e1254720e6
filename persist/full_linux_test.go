package persist

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// small mounts a file system with room for little.
func small(t *testing.T) (dir string, remount func(flags uintptr, options string)) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v; that needs root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(flags uintptr, options string) {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFullDiskIsNamedAndWhatWasDurableIsKept(t *testing.T) {
	t.Parallel()
	mount, remount := small(t)
	failed := make(chan error, 1)
	s, l := reopened(t, filepath.Join(mount, "store"), LogConfig{Failed: func(err error) { failed <- err }})
	n := 0
	for ; l.Err() == nil; n++ {
		r := sample(n)
		if !l.Append(&r) {
			break
		}
		if l.Sync(t.Context()) != nil {
			break
		}
	}
	refused(t, <-failed, ErrDiskFull, "ticks.0", "free some space")
	durable, _ := l.Durable()
	if err := s.Close(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Close: %v", err)
	}
	remount(0, "size=16m")
	s, l = reopened(t, filepath.Join(mount, "store"), LogConfig{})
	if c := l.Info().Count; c < durable {
		t.Errorf("%d records are here, and %d were durable", c, durable)
	}
	reads(t, l.Range(order.Version{}, sample(int(durable)).Version), 0, int(durable))
	mustClose(t, s)
}

func TestAFullDiskIsNamedWhereverSomethingIsWritten(t *testing.T) {
	t.Parallel()
	mount, _ := small(t)
	c := Config{Dir: filepath.Join(mount, "store"), Cluster: "test", Node: 1}
	s := mustOpen(t, c)
	refused(t, s.Put(map[string][]byte{"large": make([]byte, 2<<20)}), ErrDiskFull, engine.MetaFile, "free some space")
	refused(t, s.Put(map[string][]byte{"small": nil}), ErrDiskFull, engine.MetaFile)
	mustClose(t, s)
	s = mustOpen(t, c)
	if v, err := s.Get("large"); v != nil || err != nil {
		t.Errorf("%d bytes, %v", len(v), err)
	}
	err := writeSnapshot(osDisk{}, mount, snapshotHead{}, writes(string(make([]byte, 2<<20))))
	refused(t, err, ErrDiskFull, engine.SnapshotFile)
	_, err = s.Log(t.Context(), LogConfig{ID: ticks, Engine: EngineWAL})
	refused(t, err, ErrDiskFull, "ticks.0")
	mustClose(t, s)
	fill(t, mount)
	_, err = Open(t.Context(), Config{Dir: filepath.Join(mount, "other"), Cluster: "test", Node: 1})
	refused(t, err, ErrDiskFull, mount)
}

// fill takes all the room that there is.
func fill(t *testing.T, dir string) {
	t.Helper()
	for n := 256 << 10; n > 0; n /= 2 {
		for i := 0; ; i++ {
			if os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d-%d", n, i)), make([]byte, n), 0o600) != nil {
				break
			}
		}
	}
}

func TestAReadOnlyFileSystemIsNamed(t *testing.T) {
	t.Parallel()
	mount, remount := small(t)
	remount(0, "size=16m")
	dir := filepath.Join(mount, "store")
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 20)
	mustClose(t, s)
	remount(unix.MS_RDONLY, "size=16m")
	_, err := Open(t.Context(), Config{Dir: dir, Cluster: "test", Node: 1})
	refused(t, err, ErrReadOnlyDisk, dir, "mount it writable")
	_, err = Open(t.Context(), Config{Dir: filepath.Join(mount, "other"), Cluster: "test", Node: 1})
	refused(t, err, ErrReadOnlyDisk, mount)
	s = mustOpen(t, Config{Dir: dir, ReadOnly: true})
	l, err = s.Log(t.Context(), LogConfig{ID: ticks})
	if err != nil {
		t.Fatal(err)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 20)
	mustClose(t, s)
	if r := verified(t, dir, nil); !r.OK() {
		t.Errorf("%+v", r)
	}
}
