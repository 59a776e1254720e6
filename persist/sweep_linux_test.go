package persist

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
)

var (
	sweepAll  = flag.Bool("sweep", false, "harm every field of every page of a store, instead of a sample of them")
	sweepSeed = flag.Uint64("sweepseed", 0, "choose what is harmed; 0: by the clock")
	sweepOnly = flag.Int("sweepcount", 0, "harm so many fields of each store; 0: a few")
)

// harmedCommand is the command of a process that tries harmed stores.
const harmedCommand = "try-harmed"

func TestMain(m *testing.M) {
	proc.Become(proc.Program{Name: harmedCommand, Run: tryHarmed})
	testutil.Overlap(6)
	os.Exit(m.Run())
}

// harmedStore is what such a process is told first: the directory of a store that is whole, and
// what the parent knows of it.
type harmedStore struct {
	At      string
	Seed    uint64
	Records int
	Closed  bool
}

// harmDone is what became of a harm.
type harmDone struct {
	Harm  int
	Took  time.Duration
	Bytes int // the most memory meanwhile
	What  outcome
}

// tryHarmed tries the harms whose numbers it is given, in directory "trial" beside the whole store,
// and tells what became of each.
func tryHarmed(ctx context.Context, parent *proc.Parent) error {
	var k harmedStore
	if err := parent.Config(&k); err != nil {
		return err
	}
	p := pristine{records: k.Records, closed: k.Closed}
	if err := p.load(k.At); err != nil {
		return err
	}
	// What runs away ends here, and not the machine. A mapping takes up to 1 GiB, and none is let
	// go of after a panic.
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 16 << 30, Max: 16 << 30}); err != nil {
		return err
	}
	debug.SetTraceback("all")
	harms := p.harms(rand.New(rand.NewPCG(k.Seed, 1)))
	dir := filepath.Join(filepath.Dir(k.At), "trial")
	for {
		var n int
		if err := parent.Receive(ctx, &n); errors.Is(err, proc.ErrParentGone) {
			return nil
		} else if err != nil {
			return err
		}
		if err := p.put(dir, harms[n]); err != nil {
			return err
		}
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the highest memory so far is that of now
			return err
		}
		start := time.Now()
		trying, cancel := context.WithTimeout(ctx, sweepPatience)
		what, err := p.trial(trying, dir, harms[n])
		cancel()
		took := time.Since(start)
		if err != nil {
			what = outcome("FAILED: " + err.Error())
		}
		if err := parent.Send(harmDone{n, took, highest(), what}); err != nil {
			return err
		}
	}
}

// highest is the most memory that this process had, in bytes.
func highest() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 1 << 40
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return 1 << 40
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 1 << 40
	}
	return kib << 10
}

// save and load take the store to another process.
func (p *pristine) save(dir string) error {
	return p.put(dir, harmed{})
}

func (p *pristine) load(dir string) error {
	p.files, p.sizes = map[string][]byte{}, map[string]int64{}
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(dir, path)
		p.files[file], p.sizes[file] = bytes.Clone(bytes.TrimRight(content, "\x00")), int64(len(content))
		return err
	})
}

// tried is what became of some harms.
type tried struct {
	outcomes map[outcome]int
	slowest  time.Duration
	largest  int
}

// Every field of every page and frame that says what comes next is harmed, one at a time, each in a
// process that can be killed. Nothing hangs, nothing takes much memory, and there is an error or a
// repair, or nothing was lost.
func TestASweepOverEveryFieldEndsInAnErrorOrARepair(t *testing.T) {
	t.Parallel()
	if raceEnabled {
		t.Skip("the race detector takes more memory than a trial may")
	}
	seed := *sweepSeed
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	t.Logf("seed %d: -args -sweepseed %d", seed, seed)
	for _, p := range pristines(t) {
		t.Run(strings.ReplaceAll(p.name, ", ", "-"), func(t *testing.T) {
			at := filepath.Join(testutil.MemoryDir(t), "whole")
			if err := p.save(at); err != nil {
				t.Fatal(err)
			}
			harms := p.harms(rand.New(rand.NewPCG(seed, 1)))
			chosen := rand.New(rand.NewPCG(seed, 2)).Perm(len(harms))
			if !*sweepAll {
				n := cmp.Or(*sweepOnly, testutil.Seeds(sweepSample/3, sweepSample))
				chosen = chosen[:min(len(chosen), n)]
			}
			slices.Sort(chosen)
			r := &tried{outcomes: map[outcome]int{}}
			for len(chosen) > 0 {
				chosen = r.run(t, harms, chosen, harmedStore{at, seed, p.records, p.closed})
			}
			t.Logf("%d of %d harms: %v; slowest %v, largest %d MB", sum(r.outcomes), len(harms), r.outcomes, r.slowest, r.largest>>20)
			if r.outcomes[mended]+r.outcomes[aside]+r.outcomes[refusal] == 0 || r.outcomes[asBefore] == 0 {
				t.Error("nothing was damaged, or nothing was harmless")
			}
		})
	}
}

func sum(outcomes map[outcome]int) (n int) {
	for _, k := range outcomes {
		n += k
	}
	return n
}

// run starts a process that tries the chosen harms, one after the other, and returns the harms that
// the process did not reach.
func (r *tried) run(t *testing.T, harms []harmed, chosen []int, store harmedStore) (left []int) {
	t.Helper()
	c, err := proc.Start(context.Background(), harmedCommand, store, proc.Options{Role: "trial", Lines: 40})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		c.Kill()
		_ = c.Wait() // its error is known
	}()
	for ; len(chosen) > 0; chosen = chosen[1:] {
		var done harmDone
		ctx, cancel := context.WithTimeout(context.Background(), 2*sweepPatience)
		err := c.Send(chosen[0])
		if err == nil {
			err = c.Receive(ctx, &done)
		}
		cancel()
		if err != nil {
			t.Errorf("harm %d, %s, %s: it hung or ended the process: %v", chosen[0], harms[chosen[0]].file, harms[chosen[0]].what, err)
			return chosen[1:]
		}
		r.take(t, harms, done)
	}
	c.CloseInput()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	return nil
}

// take counts what became of a harm.
func (r *tried) take(t *testing.T, harms []harmed, d harmDone) {
	t.Helper()
	if d.Took > sweepPatience || d.Bytes > sweepMemory || strings.HasPrefix(string(d.What), "FAILED") {
		t.Errorf("harm %d, %s, %s: %v, %d MB: %s", d.Harm, harms[d.Harm].file, harms[d.Harm].what, d.Took, d.Bytes>>20, d.What)
		d.What = "failed"
	}
	r.outcomes[d.What]++
	r.slowest, r.largest = max(r.slowest, d.Took), max(r.largest, d.Bytes)
}
