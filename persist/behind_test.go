package persist

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

// recovered is what an application has that replaces its state as LogConfig.Recover says: by the
// snapshot, and then by what Range yields. The state of a log whose samples [0, n) were applied is
// n.
func recovered(t *testing.T, l *Log) (state int) {
	t.Helper()
	_, content, err := l.OpenSnapshot()
	switch {
	case err == nil:
		text, err := io.ReadAll(content)
		if err := errors.Join(err, content.Close()); err != nil {
			t.Fatal(err)
		}
		if state, err = strconv.Atoi(string(text)); err != nil {
			t.Fatal(err)
		}
	case !errors.Is(err, ErrNotFound):
		t.Fatal(err)
	}
	for r, err := range l.Range(order.Version{}, order.Version{}) {
		if err != nil {
			t.Fatal(err)
		}
		s := sample(state)
		s.Number = r.Number // a snapshot that was installed has the number of another log
		equal(t, r, s)      // the next one: none comes twice, and none is missing
		state++
	}
	return state
}

// stateIs writes a snapshot of the first n samples.
func stateIs(n int) func(io.Writer) error { return writes(strconv.Itoa(n)) }

// reopenedAs opens a copy of a directory, as a process finds it that comes after a crash.
func reopenedAs(t *testing.T, dir string, c LogConfig) *Log {
	t.Helper()
	copied := testutil.MemoryDir(t)
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	_, l := reopened(t, copied, c)
	return l
}

// U6: a snapshot and the records that Range yields are the whole log: nothing is missing between
// the two, and nothing is in both. This holds at once, after a crash, after the log was closed, and
// for a process that only reads; with the snapshot anywhere in a block, and with no record behind
// it.
func TestASnapshotAndTheRecordsBehindItAreEachThereOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		for _, c := range []struct{ at, end int }{{1, 100}, {45, 100}, {99, 100}, {100, 100}, {100, 103}, {50, 50}} {
			t.Run(fmt.Sprintf("%d of %d", c.at, c.end), func(t *testing.T) {
				dir := testutil.MemoryDir(t)
				s, l := reopened(t, dir, LogConfig{Engine: e})
				appendSamples(t, l, 0, min(c.end, 100))
				l.SetGlobal(sample(c.end).Version)
				if err := l.Snapshot(sample(c.at-1).Version, stateIs(c.at)); err != nil {
					t.Fatal(err)
				}
				if c.end > 100 {
					appendSamples(t, l, 100, c.end)
				}
				check := func(what string, l *Log, end int) {
					t.Helper()
					if n := recovered(t, l); n != end {
						t.Errorf("%s: the state is %d, not %d", what, n, end)
					}
					beginsBehind(t, l, c.at, end)
				}
				check("at once", l, c.end)
				check("after a crash", reopenedAs(t, dir, LogConfig{}), c.end)
				mustClose(t, s)
				r := mustOpen(t, Config{Dir: dir, ReadOnly: true})
				l, err := r.Log(t.Context(), LogConfig{ID: ticks})
				if err != nil {
					t.Fatal(err)
				}
				check("to be read", l, c.end)
				mustClose(t, r)
				_, l = reopened(t, dir, LogConfig{})
				check("after the log was closed", l, c.end)
				appendSamples(t, l, c.end, c.end+5)
				check("with more after it", l, c.end+5)
			})
		}
	})
}

// beginsBehind checks that all ways to read a log of end samples begin behind the snapshot of the
// first at.
func beginsBehind(t *testing.T, l *Log, at, end int) {
	t.Helper()
	i := l.Info()
	if int(i.Count) != end-at || i.Snapshot != sample(at-1).Version {
		t.Errorf("%+v", i)
	}
	if i.Count > 0 && (i.First.Number != uint64(at) || i.First.Version != sample(at).Version || i.First.Time != sample(at).Time) {
		t.Errorf("it begins with %+v", i.First)
	}
	_, err := l.Get(sample(at - 1).Version)
	refused(t, err, ErrTruncated)
	_, err = l.At(sample(at - 1).Time)
	refused(t, err, ErrTruncated)
	reads(t, l.Range(behind(sample(at-1).Version), order.Version{}), at, end)
	reads(t, l.Between(0, 0), at, end)
	for _, err := range l.Range(sample(at-1).Version, order.Version{}) {
		refused(t, err, ErrTruncated)
	}
	if e := l.End(); e.Records != uint64(end) || e.Version != sample(end-1).Version {
		t.Errorf("it ends with %+v", e)
	}
}

// What a crash leaves between the snapshot and the drop of the records that it stands for is not
// read.
func TestACrashBeforeTheRecordsAreDroppedLeavesNoneOfThemTwice(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		for _, at := range []int{1, 45, 100} {
			dir := testutil.MemoryDir(t)
			s, l := reopened(t, dir, LogConfig{Engine: e})
			appendSamples(t, l, 0, 100)
			r, err := l.Get(sample(at - 1).Version)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeSnapshot(osDisk{}, l.dir, snapshotHead{at: journal.Record(r)}, stateIs(at)); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			for range 2 {
				s, l = reopened(t, dir, LogConfig{})
				if n := recovered(t, l); n != 100 {
					t.Errorf("a snapshot of %d: the state is %d", at, n)
				}
				beginsBehind(t, l, at, 100)
				mustClose(t, s)
			}
		}
	})
}

// A snapshot that was installed has the numbers of another log, and what is imported behind it
// belongs to it.
func TestWhatIsInstalledAndImportedIsRecoveredOnce(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		for _, number := range []uint64{7, 60, 500} {
			dir := testutil.MemoryDir(t)
			s, l := reopened(t, dir, LogConfig{Engine: e})
			appendSamples(t, l, 0, 50)
			l.SetGlobal(sample(29).Version)
			if err := l.Snapshot(sample(29).Version, stateIs(30)); err != nil {
				t.Fatal(err)
			}
			at := sample(59)
			at.Number = number
			if err := l.Install(at, strings.NewReader("60")); err != nil {
				t.Fatal(err)
			}
			check := func(l *Log, end int) {
				t.Helper()
				if n := recovered(t, l); n != end || l.End().Records != number+1+uint64(end-60) {
					t.Errorf("number %d: the state is %d, not %d, at %+v", number, n, end, l.End())
				}
			}
			check(l, 60)
			for n := 60; n < 70; n++ {
				if err := l.Import(t.Context(), sample(n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(l, 70)
			mustClose(t, s)
			_, l = reopened(t, dir, LogConfig{})
			check(l, 70)
			l.SetGlobal(sample(69).Version)
			if err := l.Snapshot(sample(64).Version, stateIs(65)); err != nil {
				t.Fatal(err)
			}
			check(l, 70)
		}
	})
}

// Retention would leave a gap behind the snapshot, which no snapshot fills: it drops nothing there.
func TestRetentionKeepsWhatIsBehindASnapshot(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e, Retain: Retention{Records: 10}})
		l.SetGlobal(sample(1000).Version)
		appendSamples(t, l, 0, 20)
		if err := l.Snapshot(sample(15).Version, stateIs(16)); err != nil {
			t.Fatal(err)
		}
		for n := 20; n < 100; n += 10 {
			appendSamples(t, l, n, n+10)
		}
		if n := recovered(t, l); n != 100 {
			t.Errorf("the state is %d", n)
		}
		mustClose(t, s) // the writer has dropped what it will
		_, l = reopened(t, dir, LogConfig{})
		if n := recovered(t, l); n != 100 {
			t.Errorf("the state is %d", n)
		}
	})
}

// A log of which damage left less than its snapshot stands for goes on behind the snapshot.
func TestALogThatIsDamagedBeforeItsSnapshotGoesOnBehindIt(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 40)
		if err := writeSnapshot(osDisk{}, l.dir, snapshotHead{at: journal.Record(sample(59))}, stateIs(60)); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		r := mustOpen(t, Config{Dir: dir, ReadOnly: true})
		l, err := r.Log(t.Context(), LogConfig{ID: ticks})
		if err != nil {
			t.Fatal(err)
		}
		if n := recovered(t, l); n != 60 || l.End().Version != sample(59).Version {
			t.Errorf("the state is %d, and the log ends with %+v", n, l.End())
		}
		mustClose(t, r)
		s, l = reopened(t, dir, LogConfig{})
		appendSamples(t, l, 60, 70)
		if n := recovered(t, l); n != 70 {
			t.Errorf("the state is %d", n)
		}
		mustClose(t, s)
		if r := verifiedAs(t, dir); !r.OK() {
			t.Errorf("%+v", r)
		}
	})
}

// A cut behind the snapshot leaves a log that goes on there, and its chain of hashes holds.
func TestALogThatIsCutBehindItsSnapshotGoesOnThere(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e, Sign: signKey})
		appendSamples(t, l, 0, 50)
		l.SetGlobal(sample(49).Version)
		if err := l.Snapshot(sample(24).Version, stateIs(25)); err != nil {
			t.Fatal(err)
		}
		if err := l.Cut(sample(24).Version); err != nil {
			t.Fatal(err)
		}
		if n := recovered(t, l); n != 25 {
			t.Errorf("the state is %d", n)
		}
		appendSamples(t, l, 25, 60)
		mustClose(t, s)
		s, l = reopened(t, dir, LogConfig{Sign: signKey})
		if n := recovered(t, l); n != 60 {
			t.Errorf("the state is %d", n)
		}
		mustClose(t, s)
		if r := verifiedAs(t, dir); !r.OK() {
			t.Errorf("%+v", r)
		}
	})
}

// Directories are compared where all of them have records: what a snapshot stands for is no part of
// the log, whatever its block still has.
func TestWhatASnapshotStandsForIsNotCompared(t *testing.T) {
	t.Parallel()
	a, b := testutil.MemoryDir(t), t.TempDir()
	for _, dir := range []string{a, b} {
		s, l := reopened(t, dir, LogConfig{})
		appendSamples(t, l, 0, 20)
		if dir == b {
			h := snapshotHead{at: journal.Record(sample(9)), block: l.state.Load().end.Block + 1} // its process ended as it began to drop the log
			if err := writeSnapshot(osDisk{}, l.dir, h, stateIs(10)); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, s)
	}
	all, err := CompareLogs(t.Context(), a, b)
	if err != nil || len(all) != 1 || all[0].Records != 0 || all[0].Differ != "" {
		t.Errorf("%+v, %v", all, err)
	}
}
