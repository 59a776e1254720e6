package bench

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answers makes a program that prints some lines.
func answers(t *testing.T, lines ...string) Peers {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\n"
	for _, line := range lines {
		script += "echo '" + line + "'\n"
	}
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return Peers{path}
}

func TestTheLastLineOfAnotherProgramIsRead(t *testing.T) {
	r, err := answers(t, "noise", `{"msgs_per_s":50000,"p50_us":7,"cpu_us_per_msg":20,"foreign_cpu":0.1,"ok":true}`).Measure(t.Context())
	if err != nil || r.Rate != 50_000 || r.P50Us != 7 || r.CPUus != 20 || r.Foreign != 0.1 {
		t.Errorf("%v: %+v", err, r)
	}
	for text, want := range map[string]string{`{"ok":false,"note":"lost the leader"}`: "lost the leader", "": "output", "no json": "no json"} {
		if _, err := answers(t, text).Measure(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWithoutAProgramNothingIsMeasured(t *testing.T) {
	if _, err := (Peers{}).Measure(t.Context()); !errors.Is(err, ErrNoPeers) || !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	if _, err := (Peers{"/none"}).Measure(t.Context()); err == nil || errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
}
