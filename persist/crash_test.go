package persist

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/persist/internal/engine"
)

// forgetful is a disk that forgets at a crash what was not synced: names that were made or changed
// in a directory since it was synced, and what was written to a file since that was. Files that an
// engine writes keep their content, because engines sync it, and lose their names like any other.
type forgetful struct {
	osDisk
	t       *testing.T
	root    string                     // what lies above it is never lost
	durable map[string]map[string]bool // by directory: its names as it was synced
	old     map[string][]byte          // by path: what a name led to before it was replaced
	wrote   map[string]bool            // files that were written and not synced
	steps   int                        // calls so far
	crash   int                        // the call that fails, and all after it; 0: none does
}

var errPower = errors.New("the power is gone")

func newForgetful(t *testing.T, root string) *forgetful {
	return &forgetful{t: t, root: root, durable: map[string]map[string]bool{root: {}}, old: map[string][]byte{}, wrote: map[string]bool{}}
}

func (f *forgetful) step() error {
	f.steps++
	if f.crash > 0 && f.steps >= f.crash {
		return errPower
	}
	return nil
}

func (f *forgetful) Mkdir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.Mkdir(path)
}

func (f *forgetful) Create(path string) (syncer, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	s, err := f.osDisk.Create(path)
	return &forgetfulFile{s, f, path}, err
}

type forgetfulFile struct {
	syncer
	disk *forgetful
	path string
}

func (s *forgetfulFile) Write(b []byte) (int, error) {
	s.disk.wrote[s.path] = true
	return s.syncer.Write(b)
}

func (s *forgetfulFile) Sync() error {
	if err := s.disk.step(); err != nil {
		return err
	}
	delete(s.disk.wrote, s.path)
	return s.syncer.Sync()
}

func (f *forgetful) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	if before, err := os.ReadFile(to); err == nil && f.old[to] == nil {
		f.old[to] = before
	}
	if f.wrote[from] {
		delete(f.wrote, from)
		f.wrote[to] = true
	}
	if names := f.durable[from]; names != nil {
		delete(f.durable, from)
		f.durable[to] = names
	}
	return f.osDisk.Rename(from, to)
}

func (f *forgetful) RemoveAll(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.RemoveAll(path)
}

func (f *forgetful) SyncDir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, e := range f.list(path) {
		names[e.Name()] = true
		delete(f.old, filepath.Join(path, e.Name()))
	}
	f.durable[path] = names
	return nil
}

func (f *forgetful) list(path string) []os.DirEntry {
	entries, err := os.ReadDir(path)
	if err != nil {
		f.t.Fatal(err)
	}
	return entries
}

// lose is the crash: what was not synced is undone. The next process finds all steps working.
func (f *forgetful) lose() {
	for path := range f.wrote {
		if err := os.Truncate(path, 0); err != nil && !engine.Missing(err) {
			f.t.Fatal(err)
		}
	}
	for path, before := range f.old {
		if err := os.WriteFile(path, before, 0o600); err != nil && !engine.Missing(err) {
			f.t.Fatal(err)
		}
	}
	f.loseNames(f.root)
	f.wrote, f.old, f.steps, f.crash = map[string]bool{}, map[string][]byte{}, 0, 0
}

// loseNames removes what a directory did not have when it was synced. The files of engines sync
// their own names.
func (f *forgetful) loseNames(dir string) {
	for _, e := range f.list(dir) {
		path := filepath.Join(dir, e.Name())
		if !f.durable[dir][e.Name()] {
			if err := os.RemoveAll(path); err != nil {
				f.t.Fatal(err)
			}
		} else if e.IsDir() {
			f.loseNames(path)
		}
	}
}

func (f *forgetful) config() Config {
	return Config{Dir: filepath.Join(f.root, "far", "down"), Cluster: "prices", Node: 7, disk: f}
}

// keeps says whether what was put in a new store is there after a crash.
func keeps(t *testing.T) error {
	f := newForgetful(t, testutil.MemoryDir(t))
	s, err := Open(t.Context(), f.config())
	if err != nil {
		return err
	}
	if err := s.Put(map[string][]byte{"promise": []byte("12")}); err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	f.lose()
	if s, err = Open(t.Context(), f.config()); err != nil {
		return err
	}
	defer mustClose(t, s)
	if have, err := s.Get("promise"); err != nil || string(have) != "12" {
		return errors.Join(errors.New("what was put is gone"), err)
	}
	return nil
}

func TestADirectoryThatWasNotSyncedIsGoneAfterACrash(t *testing.T) {
	t.Parallel()
	f := newForgetful(t, testutil.MemoryDir(t))
	if err := f.Mkdir(filepath.Join(f.root, "lost")); err != nil {
		t.Fatal(err)
	}
	f.lose()
	if left := f.list(f.root); len(left) != 0 {
		t.Fatalf("%v is left", left)
	}
	if err := keeps(t); err != nil {
		t.Error(err)
	}
}

// U1: wherever a store that is being made is interrupted, the next process makes it, and what is
// put then survives.
func TestACrashAtAnyStepOfMakingAStoreLeavesOneThatCanBeMade(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		f := newForgetful(t, testutil.MemoryDir(t))
		f.crash = at
		s, err := Open(t.Context(), f.config())
		if err == nil {
			mustClose(t, s)
			if at < 10 {
				t.Errorf("only %d steps", at)
			}
			return
		}
		if !errors.Is(err, errPower) {
			t.Fatalf("step %d: %v", at, err)
		}
		f.lose()
		s, err = Open(t.Context(), f.config())
		if err != nil {
			t.Fatalf("after a crash at step %d: %v", at, err)
		}
		mustClose(t, s)
	}
}

// U1, of a log: wherever its process ends while it is being made, with the power or without, the
// next one makes it.
func TestACrashAtAnyStepOfMakingALogLeavesOneThatCanBeMade(t *testing.T) {
	t.Parallel()
	for name, crash := range map[string]func(*forgetful){
		"the power is gone": (*forgetful).lose,
		"the process ended": func(f *forgetful) { f.steps, f.crash = 0, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			for at := 1; ; at++ {
				f := newForgetful(t, testutil.MemoryDir(t))
				s, err := Open(t.Context(), f.config())
				if err != nil {
					t.Fatal(err)
				}
				f.steps, f.crash = 0, at
				_, err = s.Log(t.Context(), LogConfig{ID: ticks})
				mustClose(t, s)
				if err == nil {
					if at < 6 {
						t.Errorf("only %d steps", at)
					}
					return
				}
				if !errors.Is(err, errPower) {
					t.Fatalf("step %d: %v", at, err)
				}
				crash(f)
				if s, err = Open(t.Context(), f.config()); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Log(t.Context(), LogConfig{ID: ticks}); err != nil {
					t.Fatalf("after a crash at step %d: %v", at, err)
				}
				mustClose(t, s)
			}
		})
	}
}
