package persist

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-go/squall/order"
)

func TestALogThatIsSetAsideIsKeptAndBeginsAnew(t *testing.T) {
	for _, engine := range []Engine{Bolt, WAL} {
		t.Run(engine.String(), func(t *testing.T) {
			dir := t.TempDir()
			s, l := reopened(t, dir, LogConfig{Engine: engine})
			appendSamples(t, l, 0, 10)
			_, err := s.SetAside(ticks)
			refused(t, err, ErrLogOpen)
			mustClose(t, s)
			for n := 1; n <= 2; n++ {
				s = mustOpen(t, StoreConfig{Dir: dir, Cluster: "test", Node: 1})
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
				if l, err = s.Log(LogConfig{ID: ticks, Engine: engine}); err != nil {
					t.Fatal(err)
				}
				reads(t, l.Range(order.Version{}, order.Version{}), 0, 0)
				appendSamples(t, l, 0, 5)
				mustClose(t, s)
			}
			if r, err := Verify(dir, nil, nil); err != nil || !r.OK() {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A log of which all files are gone is another thing than one that was never made.
func TestALogThatIsMissingIsDamaged(t *testing.T) {
	dir := t.TempDir()
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	mustClose(t, s)
	if err := os.RemoveAll(filepath.Join(dir, "logs", "ticks.0")); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(dir, nil, nil)
	if err != nil || len(r.Faults) != 1 || r.Faults[0].What != "the log is missing" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, readOnly := range []bool{true, false} {
		s = mustOpen(t, StoreConfig{Dir: dir, Cluster: "test", Node: 1, ReadOnly: readOnly})
		if ids, err := s.Logs(); err != nil || len(ids) != 1 || ids[0] != ticks {
			t.Errorf("%v, %v", ids, err)
		}
		_, err = s.Log(LogConfig{ID: ticks})
		refused(t, err, ErrDamaged, "ticks.0", "it is missing", "when it is started again")
		mustClose(t, s)
	}
	_, l = reopened(t, dir, LogConfig{Repair: true})
	appendSamples(t, l, 0, 5)
}

func TestDamageThatWasNotedHoldsUntilItIsRepaired(t *testing.T) {
	dir := t.TempDir()
	s, l := reopened(t, dir, LogConfig{})
	appendSamples(t, l, 0, 10)
	if err := s.NoteDamage(ticks, errors.New("record 3 reads differently")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	for range 2 {
		s = mustOpen(t, StoreConfig{Dir: dir, Cluster: "test", Node: 1})
		_, err := s.Log(LogConfig{ID: ticks})
		refused(t, err, ErrDamaged, "ticks.0", "record 3")
		mustClose(t, s)
	}
	s, _ = reopened(t, dir, LogConfig{Repair: true})
	mustClose(t, s)
	_, l = reopened(t, dir, LogConfig{})
	reads(t, l.Range(order.Version{}, order.Version{}), 0, 10)
}

func TestTheNamesOfDirectoriesAreThoseOfLogs(t *testing.T) {
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
