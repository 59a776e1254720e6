package persist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

// faulty is an engine that fails and waits when it is told to.
type faulty struct {
	engine.Log
	mu    sync.Mutex
	fails bool
	left  int           // changes that work before all fail
	made  bool          // the first one that fails is made all the same: an error does not tell
	begun chan struct{} // if not nil: a group is about to be stored …
	may   chan struct{} // … and waits for this
}

func (f *faulty) failAfter(left int, made bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.left, f.made = true, left, made
}

func (f *faulty) change(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.fails {
		return do()
	}
	if f.left--; f.left >= 0 {
		return do()
	}
	if f.left == -1 && f.made {
		if err := do(); err != nil {
			return err
		}
	}
	return errBroken
}

func (f *faulty) StoreLogs(logs []*journal.Entry) error {
	f.mu.Lock()
	begun, may := f.begun, f.may
	f.mu.Unlock()
	if begun != nil {
		begun <- struct{}{}
		<-may
	}
	return f.change(func() error { return f.Log.StoreLogs(logs) })
}

func (f *faulty) DeleteRange(first, last uint64) error {
	return f.change(func() error { return f.Log.DeleteRange(first, last) })
}

func (f *faulty) Set(key, value []byte) error {
	return f.change(func() error { return f.Log.Set(key, value) })
}

// withFaulty opens a log whose engine can be told to fail.
func withFaulty(t *testing.T, dir string, c LogConfig) (*Store, *Log, *faulty) {
	t.Helper()
	f := &faulty{}
	c.wrap = func(e engine.Log) engine.Log { f.Log = e; return f }
	s, l := reopened(t, dir, c)
	return s, l, f
}

// hold lets a log wait for its engine, with a record that is on its way. It returns what lets the
// engine go on.
func (f *faulty) hold(t *testing.T, l *Log, r Record) (release func()) {
	t.Helper()
	begun, may := make(chan struct{}), make(chan struct{})
	f.mu.Lock()
	f.begun, f.may = begun, may
	f.mu.Unlock()
	if !l.Append(&r) {
		t.Fatal("no space")
	}
	<-begun
	return func() {
		f.mu.Lock()
		f.begun = nil
		f.mu.Unlock()
		close(may)
	}
}

// U7: a change of the files that fails ends the log, whichever call makes it: nothing is
// acknowledged behind it, since it may be made when the log is opened again, and what was
// acknowledged before is there then.
func TestALogWhoseFilesCouldNotBeChangedFails(t *testing.T) {
	t.Parallel()
	changes := map[string]func(l *Log) error{
		"cut":      func(l *Log) error { return l.Cut(sample(74).Version) },
		"snapshot": func(l *Log) error { return l.Snapshot(sample(74).Version, stateIs(75)) },
		"install":  func(l *Log) error { return l.Install(sample(199), strings.NewReader("200")) },
	}
	engines(t, func(t *testing.T, e Engine) {
		for name, change := range changes {
			for n := range 8 {
				if !failsAt(t, e, name, change, n) {
					if n == 0 {
						t.Errorf("%s changes nothing", name)
					}
					break
				}
			}
		}
	})
}

// failsAt lets a change fail at its n-th step; false: it has fewer.
func failsAt(t *testing.T, e Engine, name string, change func(*Log) error, n int) bool {
	for _, made := range []bool{false, true} {
		what := fmt.Sprintf("%s, step %d, made %v", name, n, made)
		dir, said := testutil.MemoryDir(t), make(chan error, 8)
		s, l, f := withFaulty(t, dir, LogConfig{Engine: e, Failed: func(err error) { said <- err }})
		appendSamples(t, l, 0, 100)
		l.SetGlobal(sample(99).Version)
		f.failAfter(n, made)
		err := change(l)
		if err == nil {
			return false
		}
		r := sample(300)
		if !errors.Is(err, errBroken) || !errors.Is(l.Err(), errBroken) || len(said) != 1 || l.Append(&r) {
			t.Errorf("%s: %v; the log says %v, and failed %d times", what, err, l.Err(), len(said))
		}
		f.mu.Lock()
		f.fails = false // whatever works again: how the log ends is not known, and is not noted
		f.mu.Unlock()
		if err := s.Close(); !errors.Is(err, errBroken) {
			t.Errorf("%s: Close: %v", what, err)
		}
		_, l = reopened(t, dir, LogConfig{})
		if end := recovered(t, l); end != 100 && (name != "cut" || end != 75) && (name != "install" || end != 200) {
			t.Errorf("%s: the log comes back with %d records", what, end)
		}
	}
	return true
}

// U7: a group that waits for the files while another goroutine fails is not written.
func TestAGroupIsNotWrittenAfterAFailure(t *testing.T) {
	t.Parallel()
	s, l, f := withFaulty(t, testutil.MemoryDir(t), LogConfig{})
	l.files.Lock()
	r := sample(1)
	if !l.Append(&r) {
		t.Fatal("no space")
	}
	for taken := false; !taken; time.Sleep(time.Millisecond) { // polls
		l.mu.Lock()
		taken = l.journal.Underway() > 0
		l.mu.Unlock()
	}
	stored, may := make(chan struct{}, 1), make(chan struct{})
	close(may)
	f.mu.Lock()
	f.begun, f.may = stored, may
	f.mu.Unlock()
	l.fail(errBroken)
	l.files.Unlock()
	if err := s.Close(); !errors.Is(err, errBroken) {
		t.Errorf("Close: %v", err)
	}
	if len(stored) > 0 {
		t.Error("it is written")
	}
}

// What retention cannot drop is a disk that failed.
func TestALogOfWhichNothingCanBeDroppedFails(t *testing.T) {
	t.Parallel()
	said := make(chan error, 8)
	_, l, f := withFaulty(t, testutil.MemoryDir(t), LogConfig{Retain: Retention{Records: 10}, Failed: func(err error) { said <- err }})
	appendSamples(t, l, 0, 100)
	f.failAfter(1, false) // the group is stored
	l.SetGlobal(sample(99).Version)
	r := sample(100)
	l.Append(&r)
	if err := <-said; !errors.Is(err, errBroken) {
		t.Error(err)
	}
	if n, v := l.Durable(); n != 101 || v != sample(100).Version {
		t.Errorf("%d records are durable, up to %v", n, v)
	}
}

// What was appended and is being written is part of what an install replaces: it is waited for, and
// is not there afterwards.
func TestAnInstallWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l, f := withFaulty(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 30)
		release := f.hold(t, l, sample(30))
		done := make(chan error, 1)
		go func() { done <- l.Install(sample(199), strings.NewReader("200")) }()
		release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		appendSamples(t, l, 200, 203)
		if n := recovered(t, l); n != 203 {
			t.Errorf("the state is %d", n)
		}
		mustClose(t, s)
		_, l = reopened(t, dir, LogConfig{})
		if n := recovered(t, l); n != 203 {
			t.Errorf("the state is %d", n)
		}
	})
}

// reading is an empty content that calls a function as it is read.
type reading func()

func (r reading) Read([]byte) (int, error) {
	r()
	return 0, io.EOF
}

// U7: once the snapshot of an install is on disk, it is not known what the log holds if the rest
// cannot be done. The log ends before another goroutine can change its files (holding).
func TestALogThatIsHalfInstalledFails(t *testing.T) {
	t.Parallel()
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{})
	appendSamples(t, l, 0, 30)
	err := l.Install(sample(199), reading(func() {
		r := sample(30)
		l.Append(&r)
		if err := l.Sync(t.Context()); err != nil {
			t.Error(err)
		}
	}))
	for _, err := range []error{err, l.Err()} {
		if !errors.Is(err, errAppending) || !errors.Is(err, journal.ErrUnknown) {
			t.Errorf("it was appended to meanwhile: %v", err)
		}
	}
}

// lostNames is a disk whose directories cannot be synced any more.
type lostNames struct {
	osDisk
	now bool
}

func (d *lostNames) SyncDir(path string) error {
	if d.now {
		return syscall.EIO
	}
	return d.osDisk.SyncDir(path)
}

// The same if it is not known whether the installed snapshot took the place of the old one.
func TestALogWhoseSnapshotMayHaveBeenReplacedFails(t *testing.T) {
	t.Parallel()
	d := &lostNames{}
	s, err := Open(t.Context(), Config{Dir: testutil.MemoryDir(t), Cluster: "test", Node: 1, disk: d})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.Log(t.Context(), LogConfig{ID: LogID{Name: "ticks"}})
	if err != nil {
		t.Fatal(err)
	}
	appendSamples(t, l, 0, 30)
	d.now = true
	for _, err := range []error{l.Install(sample(199), strings.NewReader("200")), l.Err()} {
		if !errors.Is(err, syscall.EIO) || !errors.Is(err, journal.ErrUnknown) {
			t.Errorf("its directory was not synced: %v", err)
		}
	}
}

// A cut waits in the same way.
func TestACutWaitsForWhatIsBeingWritten(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		_, l, f := withFaulty(t, testutil.MemoryDir(t), LogConfig{Engine: e})
		appendSamples(t, l, 0, 30)
		release := f.hold(t, l, sample(30))
		done := make(chan error, 1)
		go func() { done <- l.Cut(sample(9).Version) }()
		release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		appendSamples(t, l, 10, 12)
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 12)
	})
}

// Where a log was closed says nothing about it any more once it was opened to be written to: it may
// be cut, and its process may end without closing it.
func TestALogThatIsCutAndNotClosedIsNotTakenForDamaged(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		for n := 0; n < 100; n += 10 {
			appendSamples(t, l, n, n+10)
		}
		mustClose(t, s)
		_, l = reopened(t, dir, LogConfig{})
		if err := l.Cut(sample(24).Version); err != nil {
			t.Fatal(err)
		}
		l = reopenedAs(t, dir, LogConfig{})
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 25)
		appendSamples(t, l, 25, 30)
	})
}

// A reader is told that what it would read next was cut off: that is no damage, and it does not
// wait for what comes in its place.
func TestAReaderWhoseRecordsAreCutOffIsTold(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: e, Damaged: func(err error) { t.Errorf("damage: %v", err) }})
		for n := 0; n < 100; n += 10 {
			appendSamples(t, l, n, n+10)
		}
		n := 0
		for r, err := range l.Range(order.Version{}, order.Version{}) {
			if err != nil {
				refused(t, err, ErrNotFound, "cut off")
				break
			}
			equal(t, r, sample(n))
			if n++; n == 60 {
				if err := l.Cut(sample(24).Version); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n != 60 {
			t.Errorf("it read %d records", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for r, err := range l.Tail(ctx, order.Version{}) {
			if err != nil {
				refused(t, err, ErrNotFound, "cut off")
				return
			}
			if r.Version == sample(24).Version {
				if err := l.Cut(sample(4).Version); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A cut of a log with records that wait to be written is refused: they would come behind a record
// that is gone.
func TestALogIsNotCutWhileRecordsWait(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: e})
		appendSamples(t, l, 0, 10)
		r := sample(10)
		l.mu.Lock()
		took := l.journal.Append((*journal.Record)(&r)) // and the writer sleeps on
		l.mu.Unlock()
		if !took {
			t.Fatal("no space")
		}
		if err := l.alter(func(b *journal.Book) error { return b.CutFrom(5) }); !errors.Is(err, errAppending) {
			t.Errorf("cut with %v", err)
		}
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 10)
		appendSamples(t, l, 11, 12) // which wakes it
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 12)
	})
}
