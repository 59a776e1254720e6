package copy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// variety makes a directory with one of everything, and a file of some size among them.
func variety(t *testing.T, large int64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "variety")
	write(t, filepath.Join(dir, "small"), 1000, 1)
	write(t, filepath.Join(dir, "empty"), 0, 1)
	write(t, filepath.Join(dir, "deep/er/large"), large, 2)
	write(t, filepath.Join(dir, "one"), 1<<20, 3)
	write(t, filepath.Join(dir, "two"), 2<<20, 4)
	write(t, filepath.Join(dir, "deep/program"), 5000, 5)
	write(t, filepath.Join(dir, "locked/inside"), 10, 6)
	old := time.Date(2001, 2, 3, 4, 5, 6, 7000, time.UTC)
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "nothing"), 0o700),
		os.Symlink("../small", filepath.Join(dir, "deep/link")),
		os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.Chmod(filepath.Join(dir, "deep/program"), 0o751),
		os.Chmod(filepath.Join(dir, "small"), 0o400),
		os.Chtimes(filepath.Join(dir, "small"), old, old),
		os.Chtimes(filepath.Join(dir, "nothing"), old, old),
		os.Chmod(filepath.Join(dir, "locked"), 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestADirectoryArrivesAsItWas(t *testing.T) {
	t.Parallel()
	dir := variety(t, messageBytes+1<<20+17)
	all, addrs := takers(t, 3)
	out := mustCopy(t, dir, addrs)
	if !strings.Contains(out, "7 files, 5 directories, 2 links) to 3 receivers in ") {
		t.Error(out)
	}
	for _, r := range all {
		r.well()
		sameTree(t, r.dir, filepath.Dir(dir))
	}
}

func TestEveryScheduleAndBlockSizeGivesTheSame(t *testing.T) {
	t.Parallel()
	dir := variety(t, 2<<20+17)
	for i, name := range scheduleNames() {
		flags := []string{"--rack", "r"}
		if i == 0 {
			flags = append(flags, "--sync")
		}
		all, addrs := takers(t, 3, flags...)
		mustCopy(t, "--schedule", name, "--block", "100kB", "--rack", "r", dir+"/.", addrs)
		for _, r := range all {
			r.well()
			sameTree(t, r.dir, dir)
		}
	}
}

func TestALargeFileArrivesAtFourReceivers(t *testing.T) {
	t.Parallel()
	const size = 2*messageBytes + 17
	dir := t.TempDir()
	write(t, filepath.Join(dir, "large"), size, 7)
	all, addrs := takers(t, 4)
	var r Pushed
	if err := json.Unmarshal([]byte(mustCopy(t, "--json", filepath.Join(dir, "large"), addrs)), &r); err != nil {
		t.Fatal(err)
	}
	if r.Bytes != size || r.Files != 1 || len(r.Receivers) != 4 || r.BytesPerSecond <= 0 || r.Error != "" {
		t.Errorf("%+v", r)
	}
	t.Logf("%.0f MB/s to each", r.BytesPerSecond/1e6)
	for _, r := range all {
		r.well()
		sameTree(t, r.dir, dir)
	}
}

func TestThousandsOfSmallFilesTakeSeconds(t *testing.T) {
	t.Parallel()
	count := 5000
	if testing.Short() {
		count = 1000
	}
	dir := filepath.Join(t.TempDir(), "many")
	for i := range count {
		write(t, filepath.Join(dir, fmt.Sprint(i%100), fmt.Sprintf("file %d", i)), int64(i%3000), uint64(i))
	}
	all, addrs := takers(t, 2)
	start := time.Now()
	mustCopy(t, dir, addrs)
	took := time.Since(start)
	t.Logf("%d files in %v", count, took)
	if took > 20*time.Second { // it takes one or two; this is a round trip for each, or worse
		t.Errorf("%d files took %v", count, took)
	}
	for _, r := range all {
		r.well()
		sameTree(t, r.dir, filepath.Dir(dir))
	}
}

func TestWhatHasNoBytesArrivesToo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "empty")
	write(t, filepath.Join(dir, "a/b"), 0, 0)
	all, addrs := takers(t, 2)
	mustCopy(t, dir, addrs)
	for _, r := range all {
		r.well()
		sameTree(t, r.dir, filepath.Dir(dir))
	}
}

func TestWhatExistsIsRefusedUnlessForced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, 2<<20, 8)
	all, addrs := takers(t, 2)
	write(t, filepath.Join(all[1].dir, "file"), 100, 9)
	before := tree(t, all[1].dir)
	mustRefuse(t, []string{all[1].addr + " refused: file exists (--force overwrites)"}, path, addrs)
	mustBeEmpty(t, all[0].dir)
	if after := tree(t, all[1].dir); len(after) != 1 || after["file"] != before["file"] {
		t.Errorf("C3: it was %v, and is %v", before, after)
	}
	// The refusal was no push: they wait still.
	mustCopy(t, "--force", path, addrs)
	for _, r := range all {
		if status, _, _ := r.end(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		sameTree(t, r.dir, dir)
	}
}

func TestADirectoryIsMergedAndNeverOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "d/new"), 100, 1)
	r := take(t, t.TempDir(), "--forever")
	write(t, filepath.Join(r.dir, "d/old"), 100, 2)
	mustCopy(t, filepath.Join(dir, "d"), r.addr)
	if got := tree(t, r.dir); len(got) != 3 {
		t.Error(got)
	}
	write(t, filepath.Join(dir, "old"), 100, 1)
	write(t, filepath.Join(dir, "e/d"), 100, 1)
	mustRefuse(t, []string{"d is a directory there"}, "--force", filepath.Join(dir, "e/d"), r.addr)
	write(t, filepath.Join(r.dir, "e"), 1, 1)
	mustRefuse(t, []string{"e is there and no directory"}, "--force", filepath.Join(dir, "e"), r.addr)
	if err := os.Symlink(t.TempDir(), filepath.Join(r.dir, "s")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "s/file"), 100, 1)
	mustRefuse(t, []string{"s is there and no directory"}, "--force", filepath.Join(dir, "s"), r.addr)
}

// underWay waits until a receiver has begun to receive a large file.
func (r *taker) underWay() {
	r.t.Helper()
	eventually(r.t, "a file begins to come", func() bool {
		found, _ := filepath.Glob(filepath.Join(r.dir, stagePrefix+"*", "0"))
		if len(found) == 0 {
			return false
		}
		f, err := os.Open(found[0])
		if err != nil {
			return false
		}
		defer f.Close()
		var first [64]byte // room that is reserved is zero
		_, err = f.Read(first[:])
		return err == nil && first != [64]byte{}
	})
}

// paced starts "squall cp" of a pipe-like source: a file that is large enough to be caught in the
// act.
func paced(t *testing.T, addrs string) *pacedCopy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "large")
	write(t, path, 1<<20, 1) // and a hole behind it, which takes no time to make
	if err := os.Truncate(path, 512<<20); err != nil {
		t.Fatal(err)
	}
	p := &pacedCopy{Cmd: command(t, "cp", "-q", path, addrs)}
	p.Stdout, p.Stderr = &p.out, &p.errs
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	return p
}

func TestAKilledReceiverIsNamedAndNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	all, addrs := takers(t, 3)
	push := paced(t, addrs)
	all[1].underWay()
	if err := all[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	push.Wait()
	if status := push.ProcessState.ExitCode(); status != 1 || push.errs.String() != all[1].addr+": it is gone: its connection ended\n" {
		t.Errorf("exit status %d: %s%s", status, &push.errs, &push.out)
	}
	for _, i := range []int{0, 2} {
		if status, out, errs := all[i].end(); status != 1 || errs == "" || out != "" {
			t.Errorf("exit status %d: %s%s", status, out, errs)
		}
		mustBeEmpty(t, all[i].dir)
	}
	// The dead one could not clean up; the next one in its directory does.
	all[1].end()
	again := take(t, all[1].dir)
	mustBeEmpty(t, again.dir)
}

func TestAnInterruptedReceiverSaysSo(t *testing.T) {
	t.Parallel()
	all, addrs := takers(t, 2)
	push := paced(t, addrs)
	all[0].underWay()
	all[0].Process.Signal(os.Interrupt)
	push.Wait()
	if got := push.errs.String(); got != all[0].addr+": it was interrupted\n" {
		t.Errorf("%s", got)
	}
	for _, r := range all {
		r.end()
		mustBeEmpty(t, r.dir)
	}
}

func TestAHungReceiverIsNamed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes as long as a member may be silent")
	}
	all, addrs := takers(t, 3)
	push := paced(t, addrs)
	all[2].underWay()
	all[2].Process.Signal(syscall.SIGSTOP)
	push.Wait()
	if got := push.errs.String(); !strings.HasPrefix(got, all[2].addr+": ") {
		t.Errorf("%s, not %s", got, all[2].addr)
	}
	for _, r := range all[:2] {
		r.end()
		mustBeEmpty(t, r.dir)
	}
}

func TestAKilledPusherLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	all, addrs := takers(t, 2)
	push := paced(t, addrs)
	all[0].underWay()
	push.Process.Kill()
	for _, r := range all {
		if status, _, errs := r.end(); status != 1 || errs == "" {
			t.Errorf("exit status %d: %s", status, errs)
		}
		mustBeEmpty(t, r.dir)
	}
}

func TestAnInterruptedPusherTellsItsReceivers(t *testing.T) {
	t.Parallel()
	all, addrs := takers(t, 2, "--forever")
	push := paced(t, addrs)
	all[0].underWay()
	push.Process.Signal(os.Interrupt)
	push.Wait()
	for _, r := range all {
		eventually(t, "nothing is left", func() bool { return isEmpty(t, r.dir) })
	}
	// With --forever they go on.
	path := filepath.Join(t.TempDir(), "next")
	write(t, path, 100, 1)
	mustCopyWhenFree(t, path, addrs)
}

func TestAReceiverTakesOnePushAtATime(t *testing.T) {
	t.Parallel()
	r := take(t, t.TempDir())
	paced(t, r.addr)
	r.underWay()
	path := filepath.Join(t.TempDir(), "other")
	write(t, path, 100, 1)
	mustRefuse(t, []string{"refused: it is busy with another push"}, path, r.addr)
	if status, out, _ := r.end(); status != 0 || !strings.HasPrefix(out, "received ") {
		t.Errorf("exit status %d: %s", status, out)
	}
}

func TestAPushThatNobodyCanTakeIsExplained(t *testing.T) {
	t.Parallel()
	r := take(t, t.TempDir())
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, 100, 1)
	gone := take(t, t.TempDir())
	gone.Process.Kill()
	gone.end()
	mustRefuse(t, []string{gone.addr + ": ", "connection refused"}, path, r.addr, gone.addr)
	mustCopy(t, path, r.addr) // which was not disturbed
	if status, out, _ := r.end(); status != 0 || !strings.HasPrefix(out, "received ") {
		t.Errorf("exit status %d: %s", status, out)
	}
}
