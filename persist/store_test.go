package persist

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

func storeAt(t *testing.T, dir string) Config {
	t.Helper()
	return Config{Dir: dir, Cluster: "prices", Node: 7}
}

func mustOpen(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// refused checks that an error has its name, and says where and what to do.
func refused(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

func TestWhatWasPutIsThereAfterwards(t *testing.T) {
	t.Parallel()
	c := storeAt(t, filepath.Join(testutil.MemoryDir(t), "a", "b"))
	s := mustOpen(t, c)
	if err := s.Put(map[string][]byte{"view": []byte("seven"), "empty": {}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(map[string][]byte{"view": []byte("eight"), "gone": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(map[string][]byte{"gone": nil}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, c)
	for key, want := range map[string]string{"view": "eight", "empty": "", "gone": "", "never": ""} {
		have, err := s.Get(key)
		if err != nil || string(have) != want || (have == nil) != (key == "gone" || key == "never") {
			t.Errorf("%s: %q, %v", key, have, err)
		}
	}
	if s.Cluster() != "prices" || s.Node() != 7 || s.Dir() != c.Dir {
		t.Errorf("it is of %q, %d, %q", s.Cluster(), s.Node(), s.Dir())
	}
}

func TestADirectoryOfAnotherClusterOrNodeIsRefused(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	mustClose(t, mustOpen(t, c))
	other := c
	other.Cluster = "trades"
	_, err := Open(t.Context(), other)
	refused(t, err, ErrOtherCluster, c.Dir, `"prices"`, `"trades"`, "name another directory")
	other = c
	other.Node = 8
	_, err = Open(t.Context(), other)
	refused(t, err, ErrOtherNode, c.Dir, "node 7", "is 8", "name another directory")
	mustClose(t, mustOpen(t, Config{Dir: c.Dir, ReadOnly: true}))
}

func TestALaterFormatIsRefused(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	mustClose(t, mustOpen(t, c))
	path := filepath.Join(c.Dir, engine.IdentityFile)
	later := struct {
		Format  int    `json:"format"`
		Cluster []bool `json:"cluster"`
	}{Format: 9}
	if err := writeLabel(osDisk{}, path, later); err != nil {
		t.Fatal(err)
	}
	_, err := Open(t.Context(), c)
	refused(t, err, ErrNewerFormat, path, "format 9", "knows 1", "use the program that wrote it")
}

// U5, also for two stores of one process.
func TestADirectoryIsOpenOnce(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	c.patience = 1 // nobody releases it meanwhile
	s := mustOpen(t, c)
	_, err := Open(t.Context(), c)
	refused(t, err, ErrInUse, c.Dir, "squall log")
	_, err = Open(t.Context(), Config{Dir: c.Dir, ReadOnly: true, patience: 1})
	refused(t, err, ErrInUse, c.Dir, "squall log")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = Open(ended, Config{Dir: c.Dir, ReadOnly: true, patience: time.Hour}) // until its context ends
	refused(t, err, context.Canceled, c.Dir)
	mustClose(t, s)
	mustOpen(t, Config{Dir: c.Dir, ReadOnly: true})
	mustOpen(t, Config{Dir: c.Dir, ReadOnly: true})
	_, err = Open(t.Context(), c)
	refused(t, err, ErrInUse, c.Dir)
}

func TestALostIdentityIsNoEmptyDirectory(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	s := mustOpen(t, c)
	if err := s.Put(map[string][]byte{"k": []byte("v")}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if err := os.Remove(filepath.Join(c.Dir, engine.IdentityFile)); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		c.ReadOnly = readOnly
		_, err := Open(t.Context(), c)
		refused(t, err, ErrDamaged, engine.IdentityFile, "it is missing")
	}
	_, err := Verify(t.Context(), c.Dir, nil, nil)
	refused(t, err, ErrDamaged, engine.IdentityFile)
}

func TestWhatIsReadOnlyIsNotMade(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	_, err := Open(t.Context(), Config{Dir: dir, ReadOnly: true})
	refused(t, err, ErrNoStore, dir, "started with")
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("it left %v", left)
	}
	mustClose(t, mustOpen(t, storeAt(t, dir)))
	s := mustOpen(t, Config{Dir: dir, ReadOnly: true})
	refused(t, s.Put(map[string][]byte{"a": nil}), ErrReadOnlyDisk, dir)
	_, err = s.Log(t.Context(), LogConfig{ID: LogID{Name: "ticks"}})
	refused(t, err, ErrNotFound, "ticks.0")
}

// Whatever a crash leaves of a store that is being made, opening it again makes it.
func TestAStoreThatIsHalfMadeIsMade(t *testing.T) {
	t.Parallel()
	for _, missing := range [][]string{{engine.IdentityFile}, {engine.IdentityFile, engine.MetaFile}, {engine.IdentityFile, engine.MetaFile, logsDir}} {
		c := storeAt(t, testutil.MemoryDir(t))
		mustClose(t, mustOpen(t, c))
		for _, name := range missing {
			if err := os.RemoveAll(filepath.Join(c.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(c.Dir, engine.MetaFile+".new"), []byte("torn"), 0o600); err != nil {
			t.Fatal(err)
		}
		mustClose(t, mustOpen(t, c))
	}
}

func TestNothingThatWasKeptIsMadeASecondTime(t *testing.T) {
	t.Parallel()
	c := storeAt(t, testutil.MemoryDir(t))
	s := mustOpen(t, c)
	if err := s.Put(map[string][]byte{"promise": []byte("12")}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	moved := filepath.Join(c.Dir, "moved")
	rename(t, filepath.Join(c.Dir, engine.IdentityFile), moved)
	_, err := Open(t.Context(), c)
	refused(t, err, ErrDamaged, engine.IdentityFile, "1 values", "move the directory away")
	rename(t, moved, filepath.Join(c.Dir, engine.IdentityFile))
	rename(t, filepath.Join(c.Dir, engine.MetaFile), moved)
	_, err = Open(t.Context(), c)
	refused(t, err, ErrDamaged, engine.MetaFile, "missing")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestNothingIsDoneAfterClose(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, storeAt(t, testutil.MemoryDir(t)))
	mustClose(t, s)
	mustClose(t, s)
	_, err := s.Log(t.Context(), LogConfig{ID: LogID{Name: "ticks"}})
	refused(t, err, ErrClosed)
}

// U5: the lock alone keeps others away, before there is a file that an engine could lock.
func TestADirectoryIsLockedForOneWriterOrManyReaders(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	for _, c := range []struct{ first, second, may bool }{{false, false, false}, {false, true, false}, {true, false, false}, {true, true, true}} {
		held, err := takeLock(t.Context(), dir, c.first, 0)
		if err != nil {
			t.Fatal(err)
		}
		other, err := takeLock(t.Context(), dir, c.second, 0)
		if (err == nil) != c.may || err != nil && !errors.Is(err, ErrInUse) {
			t.Errorf("held to be shared: %v, wanted to be shared: %v: %v", c.first, c.second, err)
		}
		if err == nil {
			other.release()
		}
		if err := held.release(); err != nil {
			t.Fatal(err)
		}
	}
}
