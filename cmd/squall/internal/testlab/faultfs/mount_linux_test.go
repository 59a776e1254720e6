package faultfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/squall-go/squall/internal/testutil"
	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// bench is a disk, its mount, and a program that uses it.
type bench struct {
	t     *testing.T
	disk  *Disk
	power *Power
	mount *Mount
}

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	b := &bench{t: t, disk: New(seed)}
	b.on()
	t.Cleanup(func() {
		if b.mount != nil {
			b.must(b.mount.Close())
		}
	})
	return b
}

func (b *bench) on() {
	b.t.Helper()
	b.power = NewPower()
	m, err := b.disk.Mount(b.power)
	if errors.Is(err, ErrUnavailable) {
		b.t.Skip(err)
	}
	b.must(err)
	b.mount = m
}

// cut has the power go and come again.
func (b *bench) cut(fate Fate) {
	b.t.Helper()
	b.power.Cut()
	b.must(b.mount.Close())
	b.disk.Settle(fate)
	b.on()
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) path(name string) string { return filepath.Join(b.mount.Dir, name) }

func (b *bench) open(name string, flags int) *os.File {
	b.t.Helper()
	f, err := os.OpenFile(b.path(name), os.O_RDWR|os.O_CREATE|flags, 0o640)
	b.must(err)
	return f
}

// write makes a file, and syncs it if that is wanted.
func (b *bench) write(name, content string, sync bool) {
	b.t.Helper()
	f := b.open(name, os.O_TRUNC)
	_, err := f.WriteString(content)
	b.must(err)
	if sync {
		b.must(f.Sync())
	}
	b.must(f.Close())
}

func (b *bench) syncDir(name string) {
	b.t.Helper()
	d, err := os.Open(b.path(name))
	b.must(err)
	b.must(d.Sync())
	b.must(d.Close())
}

// holds checks what a file has; with "-" there must be none.
func (b *bench) holds(name, want string) {
	b.t.Helper()
	have, err := os.ReadFile(b.path(name))
	switch {
	case want == "-" && !errors.Is(err, os.ErrNotExist):
		b.t.Errorf("%s is there: %q, %v", name, have, err)
	case want == "-":
	case err != nil:
		b.t.Errorf("%s: %v", name, err)
	case string(have) != want:
		b.t.Errorf("%s has %.80q, want %.80q", name, have, want)
	}
}

func TestADiskIsAFileSystem(t *testing.T) {
	b := newBench(t, 1)
	b.must(os.MkdirAll(b.path("a/b"), 0o750))
	b.write("a/b/c", "content", false)
	b.holds("a/b/c", "content")
	b.must(os.Rename(b.path("a/b/c"), b.path("d")))
	b.holds("a/b/c", "-")
	b.holds("d", "content")
	b.write("e", "other", false)
	b.must(os.Rename(b.path("d"), b.path("e")))
	b.holds("e", "content")
	b.must(os.Truncate(b.path("e"), 3))
	b.must(os.Truncate(b.path("e"), 5))
	b.holds("e", "con\x00\x00")
	if err := os.Remove(b.path("a")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("a directory with something in it: %v", err)
	}
	b.must(os.RemoveAll(b.path("a")))
	entries, err := os.ReadDir(b.mount.Dir)
	b.must(err)
	if len(entries) != 1 || entries[0].Name() != "e" || entries[0].IsDir() {
		t.Errorf("it has %v", entries)
	}
	if _, err := os.OpenFile(b.path("e"), os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, os.ErrExist) {
		t.Errorf("made a second time: %v", err)
	}
}

func TestAFileThatIsRemovedCanBeUsedUntilItIsClosed(t *testing.T) {
	b := newBench(t, 1)
	b.write("f", "abc", false)
	f := b.open("f", 0)
	defer f.Close()
	b.must(os.Remove(f.Name()))
	_, err := f.WriteAt([]byte("d"), 3)
	b.must(err)
	have := make([]byte, 4)
	_, err = f.ReadAt(have, 0)
	b.must(err)
	if string(have) != "abcd" {
		t.Errorf("it has %q", have)
	}
}

func TestLocksOfFilesAndDirectoriesExclude(t *testing.T) {
	b := newBench(t, 1)
	b.write("f", "", false)
	for _, name := range []string{"f", ""} {
		one, err := os.Open(b.path(name))
		b.must(err)
		two, err := os.Open(b.path(name))
		b.must(err)
		b.must(unix.Flock(int(one.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		if err := unix.Flock(int(two.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("%q is locked twice: %v", name, err)
		}
		b.must(one.Close())
		b.must(unix.Flock(int(two.Fd()), unix.LOCK_EX|unix.LOCK_NB))
		b.must(two.Close())
	}
}

// aligned is memory for writes around the page cache.
func aligned(n int) []byte {
	b := make([]byte, n+pageBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (pageBytes - 1)
	return b[skip : int(skip)+n]
}

func TestWritesAroundThePageCacheAreSeenThroughIt(t *testing.T) {
	b := newBench(t, 1)
	b.write("f", strings.Repeat("a", 3*pageBytes), false)
	b.holds("f", strings.Repeat("a", 3*pageBytes)) // it is in the page cache now
	f := b.open("f", unix.O_DIRECT)
	block := aligned(pageBytes)
	copy(block, bytes.Repeat([]byte("b"), pageBytes))
	_, err := f.WriteAt(block, pageBytes)
	b.must(err)
	b.must(f.Close())
	b.holds("f", strings.Repeat("a", pageBytes)+strings.Repeat("b", pageBytes)+strings.Repeat("a", pageBytes))
}

func TestRoomThatIsSetAsideIsZerosAndDurableWithTheFile(t *testing.T) {
	b := newBench(t, 1)
	f := b.open("f", 0)
	b.must(unix.Fallocate(int(f.Fd()), 0, 0, 5000))
	b.must(unix.Fdatasync(int(f.Fd())))
	b.must(unix.Fallocate(int(f.Fd()), 0, 0, 9000))
	b.must(f.Close())
	b.holds("f", strings.Repeat("\x00", 9000))
	b.syncDir("")
	b.cut(Nothing)
	b.holds("f", strings.Repeat("\x00", 5000))
}

func TestAWriteThatIsSyncedByItselfIsDurable(t *testing.T) {
	for _, fate := range []Fate{Nothing, Prefix, Scattered} {
		b := newBench(t, 1)
		b.write("f", "before", true)
		b.syncDir("")
		f := b.open("f", 0)
		_, err := f.WriteAt([]byte("12345678"), 4)
		b.must(err)
		_, err = unix.Pwritev2(int(f.Fd()), [][]byte{[]byte("ABC")}, 0, unix.RWF_DSYNC)
		b.must(err)
		b.must(f.Close())
		if n := b.disk.Syncs()[Synced{"f", Through}]; n != 1 {
			t.Errorf("%d synced writes are counted: %v", n, b.disk.Syncs())
		}
		b.cut(fate)
		have, err := os.ReadFile(b.path("f"))
		b.must(err)
		if !strings.HasPrefix(string(have), "ABC") {
			t.Errorf("fate %d: it has %q", fate, have)
		}
	}
}

// storeRole has this program be one that uses a bolt file: it maps it into memory, which the
// process that has the disk must not.
const storeRole = "SQUALL_FAULTFS_STORE"

func TestMain(m *testing.M) {
	if path := os.Getenv(storeRole); path != "" {
		if err := useBolt(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// useBolt counts up in a bolt file, and writes how far it came.
func useBolt(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	for range 50 {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			n := len(b.Get([]byte("n"))) + 1
			fmt.Println(n)
			return errors.Join(b.Put([]byte("n"), make([]byte, n)), b.Put(fmt.Appendf(nil, "key %d", n), make([]byte, 3000)))
		})
		if err != nil {
			return err
		}
	}
	return db.Close()
}

func TestAStoreThatMapsItsFileLivesOnADisk(t *testing.T) {
	b := newBench(t, 1)
	for round := range 3 {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), storeRole+"="+b.path("db"))
		out, err := c.CombinedOutput()
		b.must(err)
		if want := fmt.Sprintf("\n%d\n", 50*(round+1)); !strings.HasSuffix(string(out), want) {
			t.Errorf("round %d ended with %.200q, want %q", round, out, want)
		}
		b.syncDir("")
		b.cut(Nothing)
	}
}

func TestNothingWorksWithoutPower(t *testing.T) {
	b := newBench(t, 1)
	b.write("f", "abc", true)
	f := b.open("f", 0)
	defer f.Close()
	b.power.Cut()
	_, writing := f.WriteAt([]byte("d"), 0)
	_, making := os.Create(b.path("g"))
	for what, err := range map[string]error{"write": writing, "sync": f.Sync(), "create": making, "mkdir": os.Mkdir(b.path("d"), 0o700)} {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestADiskThatIsCutAtAnyStepHasWhatWasSyncedBefore(t *testing.T) {
	seed := testutil.Seed(t)
	t.Log("seed", seed)
	for at := 1; ; at++ {
		b := newBench(t, seed+uint64(at))
		b.disk.Fail(Faults{CutAt: at})
		synced, err := replace(b.mount.Dir, 5)
		done := err == nil
		b.cut(Drawn)
		have, err := os.ReadFile(b.path("value"))
		if n := len(have); n < synced || n > 6 || err != nil && (synced > 0 || !errors.Is(err, os.ErrNotExist)) {
			t.Errorf("cut at step %d: %d values were durable, and %d is there: %v", at, synced, n, err)
		}
		if done {
			if at < 20 {
				t.Errorf("it took %d steps", at)
			}
			return
		}
	}
}

// replace replaces a file by a longer one again and again, and returns how long the last one is
// whose replacement has ended.
func replace(dir string, times int) (synced int, err error) {
	for n := 1; n <= times; n++ {
		f, err := os.Create(filepath.Join(dir, "value.new"))
		if err != nil {
			return synced, err
		}
		_, err = f.Write(make([]byte, n))
		err = errors.Join(err, f.Sync(), f.Close())
		if err == nil {
			err = os.Rename(filepath.Join(dir, "value.new"), filepath.Join(dir, "value"))
		}
		if err != nil {
			return synced, err
		}
		d, err := os.Open(dir)
		if err != nil {
			return synced, err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return synced, err
		}
		synced = n
	}
	return synced, nil
}
