package logs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/persist"
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
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	file := filepath.Join(dir, "logs", "orders.0", "log.db")
	if err := os.Truncate(file, 3*4096); err != nil {
		t.Fatal(err)
	}
	var r Repairs
	if err := json.Unmarshal([]byte(must(t, "repair", "--yes", "--json", dir)), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Logs) != 1 || r.Logs[0].Fate != fateAnew || r.Logs[0].Damage == "" {
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

func TestALogThatOthersHaveIsLeftToTheMember(t *testing.T) {
	dir := stopped(t, "node1", 1, persist.LogConfig{ID: orders}, records(25)...)
	s, err := persist.Open(persist.StoreConfig{Dir: dir, Cluster: "shop", Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := restart.Load(s)
	if err != nil {
		t.Fatal(err)
	}
	self := views.Member{ID: 1, Incarnation: 7, Addr: "10.0.0.1:1"}
	v := &views.View{
		ID: 3, Cluster: "shop", Key: "k", Members: []views.Member{self, {ID: 2, Incarnation: 8, Addr: "10.0.0.2:1"}},
		Subgroups: []views.Subgroup{{Name: "orders", Mode: views.Persistent, RingBytes: 1 << 16, Window: 16, Members: []order.Rank{0, 1}, Senders: []order.Rank{0, 1}}},
	}
	if err := m.Begin(self); err != nil {
		t.Fatal(err)
	}
	if err := m.Enter(v, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(t, filepath.Join(dir, "logs", "orders.0", "log.db"), "order 17")
	golden(t, "repair-left", must(t, "repair", "--yes", dir))
	if _, err := execute(t, "verify", dir); err == nil {
		t.Error("it was repaired")
	}
}
