package persist

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/journal"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

func writes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// snapshotIs checks what a snapshot holds, and stands for.
func snapshotIs(t *testing.T, l *Log, n int, want string) {
	t.Helper()
	at, content, err := l.OpenSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	have, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil || string(have) != want {
		t.Fatalf("it holds %q, %v, want %q", have, err, want)
	}
	s := sample(n)
	s.Data, at.Data = nil, nil
	equal(t, at, s)
}

func TestASnapshotStandsForTheRecordsUpToIt(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		if _, _, err := l.OpenSnapshot(); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		appendSamples(t, l, 0, 100)
		refused(t, l.Snapshot(sample(44).Version, writes("early")), ErrNotGlobal)
		l.SetGlobal(sample(70).Version)
		v := sample(44).Version
		v.Seq++ // between two records
		for range 2 {
			if err := l.Snapshot(v, writes("forty-four")); err != nil {
				t.Fatal(err)
			}
		}
		snapshotIs(t, l, 44, "forty-four")
		refused(t, l.Snapshot(sample(43).Version, writes("older")), ErrTruncated)
		refused(t, l.Cut(sample(43).Version), ErrTruncated)
		check := func(l *Log) {
			i := l.Info()
			if i.First.Number < 40 || i.First.Number > 45 || i.Last.Number != 99 || i.Snapshot != sample(44).Version {
				t.Fatalf("%+v", i)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), int(i.First.Number), 100)
			_, err := l.Get(sample(39).Version)
			refused(t, err, ErrTruncated)
		}
		check(l)
		mustClose(t, s)
		s, l = reopened(t, dir, LogConfig{})
		check(l)
		snapshotIs(t, l, 44, "forty-four")
		l.SetGlobal(sample(99).Version)
		if err := l.Snapshot(sample(99).Version, writes("all")); err != nil {
			t.Fatal(err)
		}
		appendSamples(t, l, 100, 110)
		mustClose(t, s)
	})
}

// dropsNothing checks U2: a snapshot that cannot be written leaves the records that it should have
// stood for.
func dropsNothing(t *testing.T) error {
	_, l := reopened(t, testutil.MemoryDir(t), LogConfig{})
	appendSamples(t, l, 0, 50)
	l.SetGlobal(sample(49).Version)
	broken := errors.New("no more state")
	if err := l.Snapshot(sample(30).Version, func(w io.Writer) error { return broken }); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if _, _, err := l.OpenSnapshot(); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if i := l.Info(); i.Count != 50 {
		return errors.New("records are gone, and no snapshot is there")
	}
	return nil
}

func TestASnapshotThatFailsDropsNothing(t *testing.T) {
	t.Parallel()
	if err := dropsNothing(t); err != nil {
		t.Error(err)
	}
}

func TestAReaderWhoseRecordsAreDroppedIsTold(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		_, l := reopened(t, testutil.MemoryDir(t), LogConfig{Engine: e})
		appendSamples(t, l, 0, 100)
		l.SetGlobal(sample(99).Version)
		n := 0
		for r, err := range l.Range(order.Version{}, order.Version{}) {
			if err != nil {
				refused(t, err, ErrTruncated)
				if n >= 60 {
					t.Errorf("record %d is there", n)
				}
				return
			}
			equal(t, r, sample(n))
			if n++; n == 3 {
				if err := l.Snapshot(sample(59).Version, writes("x")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n != 100 { // an engine may have what it dropped in memory
			t.Errorf("it was not told, and read %d records", n)
		}
	})
}

func TestADamagedSnapshotIsNamed(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	if err := writeSnapshot(osDisk{}, dir, snapshotHead{at: journal.Record(sample(3))}, writes("content")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, engine.SnapshotFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(content []byte) error {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := openSnapshot(dir)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, s)
		return errors.Join(err, s.Close())
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for at := range whole {
		broken := bytes.Clone(whole)
		broken[at] ^= 1
		if err := read(broken); !errors.Is(err, ErrDamaged) && !(at >= 8 && at < 12 && errors.Is(err, ErrNewerFormat)) {
			t.Errorf("byte %d: %v", at, err)
		}
		if err := read(whole[:at]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", at, err)
		}
	}
}

// withDamagedSnapshot is a log of 50 records, of which the first 40 are in a snapshot whose content
// reads differently.
func withDamagedSnapshot(t *testing.T, e Engine) (dir string) {
	t.Helper()
	dir = testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{Engine: e})
	for n := 0; n < 50; n += 10 {
		appendSamples(t, l, n, n+10)
	}
	l.SetGlobal(sample(49).Version)
	if err := l.Snapshot(sample(39).Version, writes("forty")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(l.dir, engine.SnapshotFile)
	mustClose(t, s)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole[snapshotHeadBytes+2] ^= 1
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A snapshot is the beginning of a log: without it there is nothing to repair in place.
func TestALogWhoseSnapshotIsDamagedIsNotRepairedInPlace(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := withDamagedSnapshot(t, e)
		s := mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
		_, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
		refused(t, err, ErrDamaged, "ticks.0/snapshot", "wrong checksum")
		refused(t, err, ErrSnapshot)
		to, err := s.SetSnapshotAside(ticks)
		if err != nil || filepath.Base(to) != "ticks.0.damaged.1" {
			t.Fatal(to, err)
		}
		l, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
		if err != nil {
			t.Fatal(err)
		}
		if i := l.Info(); i.Snapshot != (order.Version{}) || i.Repaired.Blocks != 0 {
			t.Errorf("%+v", i)
		}
		reads(t, l.Range(order.Version{}, order.Version{}), int(l.Info().First.Number), 50)
		_, err = s.SetSnapshotAside(ticks)
		refused(t, err, ErrLogOpen)
		mustClose(t, s)
		if r := verifiedAs(t, dir); !r.OK() {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhoReadsADamagedSnapshotTellsOfIt(t *testing.T) {
	t.Parallel()
	dir := withDamagedSnapshot(t, EngineBolt)
	told := 0
	_, l := reopened(t, dir, LogConfig{Damaged: func(err error) { refused(t, err, ErrSnapshot); told++ }})
	for range 2 {
		_, content, err := l.OpenSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(content)
		refused(t, err, ErrSnapshot)
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}

// Damage that was noted says once which log it is about, and what to do.
func TestANoteOfDamageSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	dir := withDamagedSnapshot(t, EngineBolt)
	s, l := reopened(t, dir, LogConfig{})
	_, content, err := l.OpenSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	_, damage := io.ReadAll(content)
	if err := errors.Join(content.Close(), s.NoteDamage(ticks, damage)); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	_, err = s.Log(t.Context(), LogConfig{ID: ticks})
	refused(t, err, ErrDamaged, "a reader found: "+filepath.Join(dir, "logs", "ticks.0", engine.SnapshotFile)+": the snapshot is damaged: its content")
	if n := strings.Count(err.Error(), engine.LogAdvice); n != 1 {
		t.Errorf("%v gives its advice %d times", err, n)
	}
}

func TestWhatIsInstalledReplacesSnapshotAndLog(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 30)
		l.SetGlobal(sample(29).Version)
		if err := l.Snapshot(sample(15).Version, writes("own")); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("the connection is gone")
		half := io.MultiReader(strings.NewReader("half"), hangUp{broken})
		if err := l.Install(sample(199), half); !errors.Is(err, broken) {
			t.Fatal(err)
		}
		snapshotIs(t, l, 15, "own")
		ownIs(t, l)
		if err := l.Install(sample(199), strings.NewReader("theirs")); err != nil {
			t.Fatal(err)
		}
		snapshotIs(t, l, 199, "theirs")
		reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
		appendSamples(t, l, 200, 230)
		reads(t, l.Range(order.Version{}, order.Version{}), 200, 230)
		mustClose(t, s)
		_, l = reopened(t, dir, LogConfig{})
		reads(t, l.Range(order.Version{}, order.Version{}), 200, 230)
		snapshotIs(t, l, 199, "theirs")
	})
}

// ownIs checks that the records behind the snapshot of record 15 are here, up to 30. Where the
// first block begins depends on the writer.
func ownIs(t *testing.T, l *Log) {
	t.Helper()
	first := l.Info().First.Number
	if first > 16 {
		t.Fatalf("the log begins with record %d", first)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), int(first), 30)
}

type hangUp struct{ err error }

func (h hangUp) Read([]byte) (int, error) { return 0, h.err }

// A crash between the snapshot that was installed and the drop of the log that it replaces is
// finished when the log is opened.
func TestAnInstallThatWasInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		dir := testutil.MemoryDir(t)
		s, l := reopened(t, dir, LogConfig{Engine: e})
		appendSamples(t, l, 0, 30)
		h := snapshotHead{at: journal.Record(sample(199)), block: l.state.Load().end.Block + 1}
		if err := writeSnapshot(osDisk{}, l.dir, h, writes("theirs")); err != nil {
			t.Fatal(err)
		}
		mustClose(t, s)
		for range 2 {
			s, l = reopened(t, dir, LogConfig{})
			reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
			snapshotIs(t, l, 199, "theirs")
			mustClose(t, s)
		}
		_, l = reopened(t, dir, LogConfig{})
		appendSamples(t, l, 200, 210)
		reads(t, l.Range(order.Version{}, order.Version{}), 200, 210)
	})
}

// Wherever an install is interrupted, the old snapshot is there with the old log, or the new one
// with none.
func TestACrashAtAnyStepOfAnInstallLeavesTheOldStateOrTheNewOne(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		f := newForgetful(t, testutil.MemoryDir(t))
		l := openTicks(t, f)
		appendSamples(t, l, 0, 30)
		l.SetGlobal(sample(29).Version)
		if err := l.Snapshot(sample(15).Version, writes("own")); err != nil {
			t.Fatal(err)
		}
		f.steps, f.crash = 0, at
		installed := l.Install(sample(199), strings.NewReader("theirs"))
		if err := l.store.Close(); err != nil && installed == nil {
			t.Fatal(err)
		}
		f.lose()
		l = openTicks(t, f)
		if r, _, err := l.OpenSnapshot(); err != nil {
			t.Fatal(err)
		} else if r.Number == 199 {
			snapshotIs(t, l, 199, "theirs")
			reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
		} else {
			if installed == nil {
				t.Fatal("what was installed is gone")
			}
			snapshotIs(t, l, 15, "own")
			ownIs(t, l)
		}
		mustClose(t, l.store)
		if installed == nil {
			return
		}
	}
}

// openTicks opens the log of a store on a disk that forgets. What an engine did to its directory
// before is durable.
func openTicks(t *testing.T, f *forgetful) *Log {
	t.Helper()
	s, err := Open(t.Context(), f.config())
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), LogConfig{ID: LogID{Name: "ticks"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SyncDir(l.dir); err != nil {
		t.Fatal(err)
	}
	return l
}

func FuzzSnapshotHead(f *testing.F) {
	h := snapshotHead{at: journal.Record(sample(7)), block: 3}
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, snapshotHeadBytes)...)
		var h snapshotHead
		if h.decode(b, "here") == nil && !bytes.Equal(h.encode()[12:], b[12:snapshotHeadBytes]) && b[12]+b[13]+b[14]+b[15] == 0 {
			t.Errorf("%+v is encoded otherwise", h)
		}
	})
}
