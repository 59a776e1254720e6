package logs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
	"github.com/squall-go/squall/views"
)

// spoil changes a byte of the last copy of a text in a file.
func spoil(t *testing.T, path, text string) {
	t.Helper()
	whole, err := os.ReadFile(path)
	at := bytes.LastIndex(whole, []byte(text))
	if err != nil || at < 0 {
		t.Fatal(at, err)
	}
	whole[at+1] ^= 0xff
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}

// left reads the log again, and counts.
func left(t *testing.T, dir string) int {
	t.Helper()
	return strings.Count(must(t, "cat", "--json", dir, "orders"), "\n")
}

func TestWhatIsDamagedAndNowhereElseIsDroppedOnDemand(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	spoil(t, filepath.Join(dir, "logs", "orders.0", "log.db"), "order 17")
	if _, err := execute(t, "repair", dir); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Fatal(err)
	}
	if _, err := execute(t, "verify", dir); err == nil {
		t.Fatal("it is good")
	}
	golden(t, "repair", must(t, "repair", "--yes", dir))
	if n := left(t, dir); n != 17 {
		t.Errorf("%d records are left", n)
	}
	must(t, "verify", dir)
	golden(t, "repair-again", must(t, "repair", "--yes", dir))
}

func TestALogOfWhichNothingCanBeReadIsSetAside(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	file := filepath.Join(dir, "logs", "orders.0", "log.db")
	if err := os.Truncate(file, 3*4096); err != nil {
		t.Fatal(err)
	}
	var r Repairs
	if err := json.Unmarshal([]byte(must(t, "repair", "--yes", "--json", dir)), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Logs) != 1 || r.Logs[0].Fate != fateAnew || !strings.Contains(r.Logs[0].Damage, "log.db: the log is damaged: it has 12288 bytes") || strings.Contains(r.Logs[0].Damage, "its member") {
		t.Fatalf("%+v", r)
	}
	if i, err := os.Stat(filepath.Join(r.Logs[0].Aside, "log.db")); err != nil || i.Size() != 3*4096 {
		t.Errorf("%v, %v", i, err)
	}
	must(t, "verify", dir)
	if out := must(t, "repair", "--yes", dir); out != "" {
		t.Error(out)
	}
}

// withOthers lets a member know a view in which another one has its logs, too.
func withOthers(t *testing.T, dir string) {
	t.Helper()
	self := views.Member{ID: 1, Incarnation: 7, Addr: "10.0.0.1:1"}
	v := (&views.View{
		ID: 3, Cluster: "shop", Members: []views.Member{self, {ID: 2, Incarnation: 8, Addr: "10.0.0.2:1"}},
		Subgroups: []views.Subgroup{{Name: "orders", Mode: views.Persistent, RingBytes: 1 << 16, Window: 16, Members: []order.Rank{0, 1}, Senders: []order.Rank{0, 1}}},
	}).WithKey("k")
	remembers(t, dir, func(s *persist.Store, m *restart.Memory) {
		if err := m.Begin(self); err != nil {
			t.Fatal(err)
		}
		if err := m.Enter(v, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// remembers looks at what a member that does not run knows.
func remembers(t *testing.T, dir string, look func(*persist.Store, *restart.Memory)) {
	t.Helper()
	s, err := persist.Open(t.Context(), persist.Config{Dir: dir, Cluster: "shop", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := restart.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	look(s, m)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// lacks checks whether a member counts as one that has not all of the log.
func lacks(t *testing.T, dir string, want bool) {
	t.Helper()
	remembers(t, dir, func(_ *persist.Store, m *restart.Memory) {
		if have := len(m.State().Incomplete) > 0; have != want {
			t.Errorf("it lacks something: %v", have)
		}
	})
}

var bothEngines = []persist.Engine{bolt.Engine, wal.Engine}

// spoilOrder damages a record in whichever file it is.
func spoilOrder(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "logs", "orders.0", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if whole, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if bytes.Contains(whole, []byte(text)) {
			spoil(t, file, text)
		}
	}
}

// The member does not know of damage that was not read yet: damage that repair finds is mended when
// the member is started.
func TestDamageOfALogThatOthersHaveIsNotedForTheMember(t *testing.T) {
	t.Parallel()
	for _, e := range bothEngines {
		dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders, Engine: e}, records(25)...)
		withOthers(t, dir)
		if out := must(t, "repair", "--yes", dir); out != "orders.0: nothing is damaged, 25 records up to 3:12\n" {
			t.Error(out)
		}
		lacks(t, dir, false)
		spoilOrder(t, dir, "order 17")
		golden(t, "repair-noted", must(t, "repair", "--yes", dir))
		lacks(t, dir, true)
		remembers(t, dir, func(s *persist.Store, _ *restart.Memory) {
			if _, err := s.Log(t.Context(), persist.LogConfig{ID: orders}); !errors.Is(err, persist.ErrDamaged) || strings.Count(err.Error(), dir) != 1 {
				t.Error(err)
			}
			l, err := s.Log(t.Context(), persist.LogConfig{ID: orders, Repair: true}) // as the member does
			if err != nil || l.Info().Count != 17 {
				t.Error(err)
			}
		})
		must(t, "verify", dir)
	}
}

// If no member can give the damaged records, an operator decides which log counts.
func TestWhatOthersCannotGiveCanBeGivenUp(t *testing.T) {
	t.Parallel()
	for _, e := range bothEngines {
		dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders, Engine: e}, records(25)...)
		withOthers(t, dir)
		spoilOrder(t, dir, "order 17")
		must(t, "repair", "--yes", dir)
		lacks(t, dir, true)
		golden(t, "repair-give-up", must(t, "repair", "--yes", "--give-up", dir))
		lacks(t, dir, false)
		if n := left(t, dir); n != 17 {
			t.Errorf("%d records are left", n)
		}
		must(t, "verify", dir)
	}
}

func TestOneLogIsGivenUpAtATime(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	s, l := opened(t, dir, 1, persist.LogConfig{ID: persist.LogID{Name: "bills"}})
	put(t, l, records(5)...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "repair", "--yes", "--give-up", dir); err == nil || !strings.Contains(err.Error(), "say which one: bills.0, orders.0") {
		t.Error(err)
	}
	if _, err := execute(t, "repair", "--yes", dir, "bolts"); err == nil || !strings.Contains(err.Error(), `no log "bolts"`) {
		t.Error(err)
	}
	if out := must(t, "repair", "--yes", "--give-up", dir, "bills"); strings.Contains(out, "orders") || !strings.Contains(out, "bills.0: counts as whole") {
		t.Error(out)
	}
}

// The files of a log that are gone may be on a disk that is not mounted.
func TestAMissingLogIsLeftToItsMember(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(path string) error{
		"gone":                   os.RemoveAll,
		"an empty mount point":   func(path string) error { return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)) },
		"a link to another disk": func(path string) error { return errors.Join(os.RemoveAll(path), os.Symlink("/nowhere/at/all", path)) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders, Engine: wal.Engine}, records(25)...)
			if err := lose(filepath.Join(dir, "logs", "orders.0")); err != nil {
				t.Fatal(err)
			}
			out, err := execute(t, "repair", "--yes", dir)
			if err == nil || !strings.Contains(out, "put them back, or lose their records with --give-up") {
				t.Errorf("%v\n%s", err, out)
			}
			withOthers(t, dir)
			if out := must(t, "repair", "--yes", dir); !strings.Contains(out, "when it is started, gets all of it from others") {
				t.Error(out)
			}
			if out := must(t, "repair", "--yes", "--give-up", dir); !strings.Contains(out, "begins anew; its files are missing") {
				t.Error(out)
			}
			remembers(t, dir, func(s *persist.Store, _ *restart.Memory) {
				if l, err := s.Log(t.Context(), persist.LogConfig{ID: orders, Engine: wal.Engine}); err != nil || l.Info().Engine != "wal" {
					t.Error(err)
				}
			})
		})
	}
}

func TestALogUnderAnotherNameIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	logs := filepath.Join(dir, "logs")
	if err := os.Rename(filepath.Join(logs, "orders.0"), filepath.Join(logs, "bills.0")); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{nil, {"--give-up"}} {
		out, err := execute(t, append([]string{"repair", "--yes", dir, "bills"}, flags...)...)
		if err == nil || !strings.Contains(out, "call it orders.0 again") || strings.Contains(out, "counts as whole") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if err := os.Rename(filepath.Join(logs, "bills.0"), filepath.Join(logs, "orders.0")); err != nil {
		t.Fatal(err)
	}
	must(t, "verify", dir)
}

func TestALabelIsWrittenAnew(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	spoil(t, filepath.Join(dir, "logs", "orders.0", "log.json"), "bolt")
	if out := must(t, "repair", "--yes", dir); out != "orders.0: its log.json was damaged, and is written anew; left are 25 records up to 3:12\n" {
		t.Error(out)
	}
	must(t, "verify", dir)
}

// What a snapshot stood for is lost with it, and what is behind it is not.
func TestADamagedSnapshotThatNobodyElseHasGoesAlone(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	s, l := opened(t, dir, 1, persist.LogConfig{ID: orders})
	l.SetGlobal(record(9).Version)
	if err := l.Snapshot(record(9).Version, func(w io.Writer) error { _, err := io.WriteString(w, "ten orders"); return err }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(dir, "logs", "orders.0", "snapshot"), "ten orders")
	golden(t, "repair-snapshot", must(t, "repair", "--yes", dir))
	if n := left(t, dir); n != 15 {
		t.Errorf("%d records are left", n)
	}
	golden(t, "verify-foreign", must(t, "verify", dir))
}

// The shard waits for disks that are gone, and this directory has nothing of its log.
func TestALogThatAShardWaitsForIsGivenUpByName(t *testing.T) {
	t.Parallel()
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(5)...)
	self := views.Member{ID: 1, Incarnation: 7, Addr: "10.0.0.1:1"}
	v := (&views.View{ID: 3, Cluster: "shop", Members: []views.Member{self}, Subgroups: []views.Subgroup{
		{Name: "bills", Mode: views.Persistent, RingBytes: 1 << 16, Window: 16, Holders: []views.Holder{{ID: 2, Disk: 20}, {ID: 4, Disk: 40}}},
		{Name: "orders", Mode: views.Persistent, RingBytes: 1 << 16, Window: 16, Members: []order.Rank{0}, Senders: []order.Rank{0}},
	}}).WithKey("k")
	remembers(t, dir, func(_ *persist.Store, m *restart.Memory) {
		if err := errors.Join(m.Begin(self), m.Enter(v, nil)); err != nil {
			t.Fatal(err)
		}
	})
	for _, flags := range [][]string{{"--give-up"}, {"--yes"}} {
		if out, err := execute(t, append(append([]string{"repair"}, flags...), dir, "bills")...); err == nil {
			t.Errorf("with %v alone: %s", flags, out)
		}
	}
	out := must(t, "repair", "--yes", "--give-up", dir, "bills")
	if !strings.Contains(out, "bills.0: stands in for the disks of node 2, node 4") || strings.Contains(out, "orders") {
		t.Error(out)
	}
	remembers(t, dir, func(_ *persist.Store, m *restart.Memory) {
		self.GaveUp = m.GaveUp()
		if sg := v.Subgroups[0]; !sg.GivenUp(sg.Holders, []views.Member{self}) {
			t.Errorf("given up are %q", self.GaveUp)
		}
	})
}
