package schedule

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what was drawn to testdata")

// The drawings in testdata are to be read: they are the plans. go test ./rdmc/schedule -args
// -update writes them.
func TestPlansAreDrawn(t *testing.T) {
	for _, c := range []struct {
		a             Algorithm
		nodes, blocks int
		racks         []string
	}{
		{Pipeline, 13, 9, nil}, {Pipeline, 8, 3, nil}, {Chain, 8, 3, nil}, {Tree, 8, 3, nil}, {Sequential, 4, 3, nil}, {Hybrid, 13, 9, labels(13, 4)},
	} {
		name := fmt.Sprintf("%v-%d-%d.txt", c.a, c.nodes, c.blocks)
		t.Run(name, func(t *testing.T) {
			var drawn strings.Builder
			if err := Draw(&drawn, mustNew(t, c.a, c.nodes, c.blocks, c.racks)); err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", name), drawn.String())
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is drawn differently (-args -update writes it):\n%s", file, got)
	}
}

func TestAWriterThatFailsIsReported(t *testing.T) {
	full := errors.New("full")
	if err := Draw(failing{full}, mustNew(t, Pipeline, 3, 3, nil)); !errors.Is(err, full) {
		t.Fatal(err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
