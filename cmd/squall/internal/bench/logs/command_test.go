package logs

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// execute runs the command.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := NewCommand()
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// disk is a directory that is not in memory only.
func disk(t *testing.T) string {
	t.Helper()
	for _, parent := range []string{t.TempDir(), "."} {
		dir, err := os.MkdirTemp(parent, "testdata-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if checkDisk(dir) == nil {
			return dir
		}
	}
	t.Skip("there is no directory here that is on a disk")
	return ""
}

// measureUntil runs the command with windows that become longer, until something happened in one:
// on a busy machine that takes a while.
func measureUntil(t *testing.T, happened func(r Report) bool, args ...string) (r Report) {
	t.Helper()
	for _, window := range []string{"200ms", "1s", "3s", "10s"} {
		if r = measureQuickly(t, append(args, "--duration", window)...); happened(r) {
			return r
		}
	}
	t.Errorf("%v: %+v", args, r)
	return r
}

// measureQuickly runs the command with short runs, and checks that it leaves nothing behind.
func measureQuickly(t *testing.T, args ...string) (r Report) {
	t.Helper()
	dir := disk(t)
	out, err := execute(t, append([]string{"--runs", "1", "--warmup", "20ms", "--duration", "200ms", "--json", "--dir", dir}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v: left behind: %v", err, left)
	}
	return r
}

func TestWhatIsOnEveryDiskIsMeasuredBesideTheDisk(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--engine", "wal"}, {"--engine", "bolt", "--size", "100", "--nodes", "2"}, {"--after-persist", "--sign", "--nodes", "2"}} {
		r := measureUntil(t, wrote, append(args, "--only", "stream")...)
		if row := r.Rows[0]; len(r.Series) != 3 || row.Pairs.Median <= 0 {
			t.Errorf("%v: %+v", args, row)
		}
		checkAroundRow(t, r.Rows[1], r.Rows[0].Figure)
	}
}

// wrote says that something came to the disk in all cases that this disk has.
func wrote(r Report) bool {
	return !slices.ContainsFunc(r.Series, func(s Series) bool { return len(s.Runs) > 0 && s.Runs[0].BytesRate <= 1 })
}

// checkAroundRow checks the row of the writes around the page cache. Not every disk supports them;
// then the row says so.
func checkAroundRow(t *testing.T, row bench.Row, figure bench.Summary) {
	t.Helper()
	reached := strings.HasSuffix(row.LimitName, "around the page cache") && row.Pairs.Median > 0 && row.Verdict == "–"
	if row.Figure != figure || row.Bar != "–" || !reached && !strings.Contains(row.Verdict, errNotAround.Error()) {
		t.Errorf("%+v", row)
	}
}

func TestOneMessageAtATimeIsMeasuredBesideOneWrite(t *testing.T) {
	t.Parallel()
	r := measureUntil(t, waited, "--only", "latency")
	if len(r.Series) != 2 || len(r.Rows) != 2 || r.Rows[0].Pairs.Median <= 0 {
		t.Errorf("%+v", r)
	}
}

// waited says that something was waited for in all cases.
func waited(r Report) bool {
	return !slices.ContainsFunc(r.Series, func(s Series) bool { return s.Runs[0].Latency.Count == 0 })
}

func TestASubgroupWithoutALogIsMeasuredAloneAndBesideOneWithALog(t *testing.T) {
	t.Parallel()
	measureUntil(t, func(r Report) bool {
		run := r.Series[0].Runs[0]
		return run.Alone > 1 && run.Beside > 1 && run.Rate > 1
	}, "--only", "mixed")
}

func TestALogIsFilledAndOpened(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"wal", "bolt"} {
		r := measureQuickly(t, "--only", "reopen", "--records", "3000", "--engine", engine).Series[0].Runs[0]
		if r.OpenMs <= 0 || r.FillRate < 1 {
			t.Errorf("%s: %+v", engine, r)
		}
	}
}

func TestTheTableIsReadable(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--only", "stream", "--runs", "1", "--duration", "100ms", "--dir", disk(t), "--nodes", "2", "--size", "1024")
	if err != nil || !strings.Contains(out, "2 members, 1 KiB, all send, engine wal") || !strings.Contains(out, "raw writes of 1 MiB") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAllFaultsOfTheFlagsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := execute(t, "--nodes", "1", "--engine", "clay", "--fabric", "pigeon", "--size", "1", "--runs", "0", "--duration", "1ns", "--records", "1",
		"--dir", filepath.Join(t.TempDir(), "none"), "--only", "logs", "--peers", "x")
	for _, flag := range []string{"--nodes", "--engine", "--fabric", "--size", "--runs", "--duration", "--records", "--dir", "--only", "--peers"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s: %v", flag, err)
		}
	}
	if _, err = execute(t, "--bars", "--size", "100"); err == nil || !strings.Contains(err.Error(), "--size: --bars brings its own groups") {
		t.Error(err)
	}
}

func TestAFileSystemInMemoryIsNoDisk(t *testing.T) {
	t.Parallel()
	const dir = "/dev/shm"
	if fileSystem(dir) != "tmpfs" {
		t.Skipf("%s is no file system in memory here", dir)
	}
	if _, err := execute(t, "--dir", dir); err == nil || !strings.Contains(err.Error(), errMemory.Error()) {
		t.Error(err)
	}
}
