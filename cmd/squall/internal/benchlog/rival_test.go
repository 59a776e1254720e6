package benchlog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTheLastLineOfARivalIsRead(t *testing.T) {
	r, err := parseRival([]byte("noise\n{\"msgs_per_s\":50000,\"cpu_us_per_msg\":20,\"foreign_cpu\":0.1,\"ok\":true}\n"), 100)
	if err != nil || r.Rate != 50_000 || r.BytesRate != 5_000_000 || r.Cores != 1 || r.Foreign != 0.1 {
		t.Errorf("%v: %+v", err, r)
	}
	for text, want := range map[string]string{
		`{"ok":false,"note":"member gone"}`: "member gone", "": "output", "no json": "no json",
	} {
		if _, err := parseRival([]byte(text), 100); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestARivalIsAskedForWhatSurvives(t *testing.T) {
	dir := t.TempDir()
	program, asked := filepath.Join(dir, "peers"), filepath.Join(dir, "asked")
	script := "#!/bin/sh\necho \"$@\" > " + asked + "\necho '{\"msgs_per_s\":1,\"ok\":true}'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := rival{program, "/data"}.durable(boltRaft, 10<<10, 1500*time.Millisecond)
	if r, err := c.measure(t.Context()); err != nil || r.Rate != 1 || c.name != "hashicorp-raft, 10 KiB" {
		t.Errorf("%s: %v: %+v", c.name, err, r)
	}
	got, err := os.ReadFile(asked)
	const want = "-peer hashicorp-raft -size 10240 -proposers 1 -mode durable -secs 1.5 -lat 0 -dir /data -json\n"
	if err != nil || string(got) != want {
		t.Errorf("%v: asked %q, not %q", err, got, want)
	}
}

func TestWithoutAProgramThereIsNoRival(t *testing.T) {
	if _, err := (rival{}).durable(harnessRaft, 100, time.Second).measure(t.Context()); !errors.Is(err, errNoRival) {
		t.Error(err)
	}
	if _, err := (rival{path: "/none"}).durable(harnessRaft, 100, time.Second).measure(t.Context()); err == nil || errors.Is(err, errNoRival) {
		t.Error(err)
	}
}
