package persist

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist/internal/engine"
)

func TestALogThatIsSetAsideIsKeptAndBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineBolt, EngineWAL} {
		t.Run(engine.String(), func(t *testing.T) {
			dir := testutil.MemoryDir(t)
			s, l := reopened(t, dir, LogConfig{Engine: engine})
			appendSamples(t, l, 0, 10)
			_, err := s.SetAside(ticks)
			refused(t, err, ErrLogOpen)
			mustClose(t, s)
			for n := 1; n <= 2; n++ {
				s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
				to, err := s.SetAside(ticks)
				if err != nil {
					t.Fatal(err)
				}
				if entries, err := os.ReadDir(to); err != nil || len(entries) < 2 {
					t.Fatalf("%s has %v, %v", to, entries, err)
				}
				if ids, err := s.Logs(); err != nil || len(ids) != 0 {
					t.Fatalf("%v, %v", ids, err)
				}
				if l, err = s.Log(t.Context(), LogConfig{ID: ticks, Engine: engine}); err != nil {
					t.Fatal(err)
				}
				reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
				appendSamples(t, l, 0, 5)
				mustClose(t, s)
			}
			if r, err := Verify(t.Context(), dir, nil, nil); err != nil || !r.OK() {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A log of which all files are gone is another thing than one that was never made.
func TestALogThatIsMissingIsDamaged(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	mustClose(t, s)
	if err := os.RemoveAll(filepath.Join(dir, "logs", "ticks.0")); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(t.Context(), dir, nil, nil)
	if err != nil || len(r.Faults) != 1 || r.Faults[0].What != "the log is missing" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, readOnly := range []bool{true, false} {
		s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1, ReadOnly: readOnly})
		if ids, err := s.Logs(); err != nil || len(ids) != 1 || ids[0] != ticks {
			t.Errorf("%v, %v", ids, err)
		}
		_, err = s.Log(t.Context(), LogConfig{ID: ticks})
		refused(t, err, ErrDamaged, "ticks.0", "it is missing", "when it is started again")
		refused(t, err, ErrMissing)
		mustClose(t, s)
	}
	_, l = reopened(t, dir, LogConfig{Repair: true})
	appendSamples(t, l, 0, 5)
}

func TestALogThatIsMissingCanBeForgotten(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, _ := reopened(t, dir, LogConfig{})
	mustClose(t, s)
	if err := os.RemoveAll(filepath.Join(dir, "logs", "ticks.0")); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	if to, err := s.SetAside(ticks); to != "" || err != nil {
		t.Fatal(to, err)
	}
	if l, err := s.Log(t.Context(), LogConfig{ID: ticks, Engine: EngineWAL}); err != nil || l.Info().Engine != "wal" {
		t.Error(err)
	}
}

// What stands in the place of a log and is none is damage, and goes out of the way as a log does.
func TestWhatIsInThePlaceOfALogIsSetAside(t *testing.T) {
	t.Parallel()
	for what, put := range map[string]func(path string) error{
		"a file":      func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a dead link": func(path string) error { return os.Symlink("/nowhere/at/all", path) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := testutil.MemoryDir(t)
			s, _ := reopened(t, dir, LogConfig{})
			mustClose(t, s)
			path := filepath.Join(dir, "logs", "ticks.0")
			if err := errors.Join(os.RemoveAll(path), put(path)); err != nil {
				t.Fatal(err)
			}
			if r := verifiedAs(t, dir); len(r.Faults) != 1 || len(r.Foreign) != 1 || r.Foreign[0] != "ticks.0" {
				t.Errorf("%+v", r)
			}
			s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
			_, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
			refused(t, err, ErrDamaged, "ticks.0")
			to, err := s.SetAside(ticks)
			if err != nil || !isThere(to) {
				t.Fatal(to, err)
			}
			if _, err = s.Log(t.Context(), LogConfig{ID: ticks}); err != nil {
				t.Error(err)
			}
		})
	}
}

func verifiedAs(t *testing.T, dir string) Report {
	t.Helper()
	r, err := Verify(t.Context(), dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatIsNoLogIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	mustClose(t, s)
	names := []string{".DS_Store", "README", "big link", "lost+found", "orders.-1", "orders.0.bak", "orders.01", "ticks.0.damaged.1"}
	for i, name := range names {
		path := filepath.Join(dir, "logs", name)
		err := os.Mkdir(path, 0o700)
		if i < 2 {
			err = errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		} else if i == 2 {
			err = errors.Join(os.Remove(path), os.Symlink("/nowhere/at/all", path))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if r := verifiedAs(t, dir); !r.OK() || len(r.Logs) != 1 || !slices.Equal(r.Foreign, names) {
		t.Errorf("%+v", r)
	}
	if all, err := CompareLogs(t.Context(), dir); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	s, l = reopened(t, dir, LogConfig{Repair: true})
	if ids, err := s.Logs(); err != nil || len(ids) != 1 || l.Info().Count != 10 {
		t.Errorf("%v, %v", ids, err)
	}
	mustClose(t, s)
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	if to, err := s.SetAside(ticks); err != nil || filepath.Base(to) != "ticks.0.damaged.2" {
		t.Error(to, err)
	}
}

// A file system that is mounted for the logs is not empty, and a new store may begin there.
func TestANewStoreMayHaveWhatIsNoLog(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "logs", "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	reopened(t, dir, LogConfig{})
}

// A directory of a log that has another name now is not made anew, and nothing of it is lost.
func TestALogUnderTheNameOfAnotherOneIsNamed(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{Sign: signKey})
	appendSamples(t, l, 0, 10)
	mustClose(t, s)
	other := LogID{Name: "other"}
	rename(t, filepath.Join(dir, "logs", "ticks.0"), filepath.Join(dir, "logs", "other.0"))
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	for _, repair := range []bool{false, true} {
		_, err := s.Log(t.Context(), LogConfig{ID: other, Repair: repair})
		refused(t, err, ErrOtherLog, "other.0", "that of ticks.0", "call it ticks.0 again")
		if errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
	}
	mustClose(t, s)
	r, err := Verify(t.Context(), dir, signers, nil)
	if err != nil || len(r.Logs) != 1 || r.Logs[0].Vouched != 10 || len(r.Logs[0].Faults) != 1 || len(r.Faults) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestALabelThatIsDamagedIsWrittenAnewByRepair(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, e Engine) {
		for what, harm := range map[string]func(path string) error{
			"gone":  os.Remove,
			"empty": func(path string) error { return os.Truncate(path, 0) },
		} {
			dir := testutil.MemoryDir(t)
			s, l := reopened(t, dir, LogConfig{Engine: e})
			appendSamples(t, l, 0, 10)
			path := filepath.Join(l.dir, labelFile)
			mustClose(t, s)
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			if r := verifiedAs(t, dir); len(r.Logs) != 1 || len(r.Logs[0].Faults) != 1 || r.Logs[0].Records != 10 || r.Logs[0].Engine != e.String() {
				t.Errorf("%s: %+v", what, r)
			}
			s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
			_, err := s.Log(t.Context(), LogConfig{ID: ticks})
			refused(t, err, ErrDamaged, labelFile)
			l, err = s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
			if err != nil {
				t.Fatal(err)
			}
			reads(t, l.Range(order.Version{}, order.Version{}), 0, 10)
			if i := l.Info(); !i.Relabeled || i.Repaired.Blocks != 0 || i.Engine != e.String() {
				t.Errorf("%+v", i)
			}
			mustClose(t, s)
			if r := verifiedAs(t, dir); !r.OK() {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestALabelOfFilesThatAreNotThereStaysDamaged(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	files := l.dir
	mustClose(t, s)
	if err := errors.Join(os.Remove(filepath.Join(files, labelFile)), os.Remove(filepath.Join(files, engine.BoltFile))); err != nil {
		t.Fatal(err)
	}
	if r := verifiedAs(t, dir); r.OK() || len(r.Logs) != 1 {
		t.Errorf("%+v", r)
	}
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	_, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true})
	refused(t, err, ErrDamaged, labelFile)
}

func TestDamageThatWasNotedHoldsUntilItIsRepaired(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	if err := s.NoteDamage(ticks, errors.New("record 3 reads differently")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	for range 2 {
		s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
		_, err := s.Log(t.Context(), LogConfig{ID: ticks})
		refused(t, err, ErrDamaged, "ticks.0", "record 3")
		mustClose(t, s)
	}
	s = mustOpen(t, Config{Dir: dir, ReadOnly: true})
	l, err := s.Log(t.Context(), LogConfig{ID: ticks}) // which changes nothing
	if err != nil {
		t.Fatal(err)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 10)
	mustClose(t, s)
	s, _ = reopened(t, dir, LogConfig{Repair: true})
	mustClose(t, s)
	_, l = reopened(t, dir, LogConfig{})
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 10)
}

func TestDamageThatWasNotedIsSetAsideWithItsLog(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	if err := s.NoteDamage(ticks, errors.New("record 3 reads differently")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	if _, err := s.SetAside(ticks); err != nil {
		t.Fatal(err)
	}
	l, err := s.Log(t.Context(), LogConfig{ID: ticks})
	if err != nil {
		t.Fatal(err)
	}
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
}

// A repair that did not come to its end has repaired nothing: what a reader found is still known.
func TestDamageThatWasNotedOutlivesARepairThatFails(t *testing.T) {
	t.Parallel()
	dir := testutil.MemoryDir(t)
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	if err := s.NoteDamage(ticks, errors.New("record 3 reads differently")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, Config{Dir: dir, Cluster: "test", Node: 1})
	broken := func(e engine.Log) engine.Log { return &faulty{Log: e, fails: true} }
	if _, err := s.Log(t.Context(), LogConfig{ID: ticks, Repair: true, wrap: broken}); !errors.Is(err, errBroken) {
		t.Fatalf("repaired with %v", err)
	}
	_, err := s.Log(t.Context(), LogConfig{ID: ticks})
	refused(t, err, ErrDamaged, "ticks.0", "record 3")
	mustClose(t, s)
}

func TestTheNamesOfDirectoriesAreThoseOfLogs(t *testing.T) {
	t.Parallel()
	for _, id := range []LogID{{"ticks", 0}, {"a.b", 7}, {"../up", 1}, {"%2e", 2}, {"große\x00\xff", 12}} {
		if back, err := unescape(id.escape()); err != nil || back != id {
			t.Errorf("%v is %s, and that is %v, %v", id, id.escape(), back, err)
		}
	}
	for _, name := range []string{"", "ticks", "ticks.x", "%zz.1", "lost+found"} {
		if id, err := unescape(name); err == nil {
			t.Errorf("%s is %v", name, id)
		}
	}
}
