package logs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func TestAnotherProgramIsAskedForWhatSurvives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho \"$@\" > " + path + ".asked\necho '{\"msgs_per_s\":50000,\"cpu_us_per_msg\":20,\"foreign_cpu\":0.1,\"ok\":true}'\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	c := durable(bench.Peers{Path: path}, "/data", boltRaft, 10<<10, 1500*time.Millisecond)
	r, err := c.Measure(t.Context())
	if err != nil || r.Rate != 50_000 || r.BytesRate != 50_000*10240 || r.Cores != 1 || r.Foreign != 0.1 || c.Name != "hashicorp-raft, 10 KiB" {
		t.Errorf("%s: %v: %+v", c.Name, err, r)
	}
	got, err := os.ReadFile(path + ".asked")
	const want = "-peer hashicorp-raft -size 10240 -proposers 1 -mode durable -secs 1.5 -lat 0 -dir /data -json\n"
	if err != nil || string(got) != want {
		t.Errorf("%v: asked %q, not %q", err, got, want)
	}
}
