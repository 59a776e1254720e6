package bolt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
)

type user struct{}

func (user) String() string { return "bolt" }

// This test is a program that imports one of the two engines.
func TestALogOfAnEngineThatIsNotImportedNamesTheImport(t *testing.T) {
	config := persist.Config{Dir: t.TempDir(), Cluster: "blue", Node: 1}
	s, err := persist.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	id := persist.LogID{Name: "ticks"}
	if _, err := s.Log(t.Context(), persist.LogConfig{ID: id, Engine: user{}}); err == nil || !strings.Contains(err.Error(), "use bolt.Engine or wal.Engine") {
		t.Errorf("an engine of one's own: %v", err)
	}
	l, err := s.Log(t.Context(), persist.LogConfig{ID: id, Engine: bolt.Engine})
	if err != nil {
		t.Fatal(err)
	}
	if i := l.Info(); i.Engine != "bolt" {
		t.Errorf("%+v", i)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	relabel(t, filepath.Join(config.Dir, "logs", "ticks.0", "log.json"))
	if s, err = persist.Open(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Log(t.Context(), persist.LogConfig{ID: id}); !errors.Is(err, persist.ErrNoEngine) || !strings.Contains(err.Error(), "import github.com/squall-go/squall/persist/wal") {
		t.Errorf("%v: it does not say what to import", err)
	}
}

// relabel says in the label of a log that engine wal keeps it.
func relabel(t *testing.T, path string) {
	t.Helper()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var label struct {
		Squall json.RawMessage `json:"squall"`
		CRC32C string          `json:"crc32c"`
	}
	if err := json.Unmarshal(whole, &label); err != nil {
		t.Fatal(err)
	}
	label.Squall = bytes.Replace(label.Squall, []byte(`"bolt"`), []byte(`"wal"`), 1)
	label.CRC32C = fmt.Sprintf("%08x", crc32.Checksum(label.Squall, crc32.MakeTable(crc32.Castagnoli)))
	if whole, err = json.Marshal(label); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
}
