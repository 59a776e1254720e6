package persist

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/proc"
)

var (
	sweepAll  = flag.Bool("sweep", false, "harm every field of every page of a store, instead of a sample of them")
	sweepSeed = flag.Uint64("sweepseed", 0, "choose what is harmed; 0: by the clock")
	sweepOnly = flag.Int("sweepcount", 0, "harm so many fields of each store; 0: a few")
)

// harmedStore says to this test's program that it is to try harmed stores: the directory of one
// that is whole, and what the parent knows of it.
const harmedStore = "SQUALL_HARMED_STORE"

func TestMain(m *testing.M) {
	if spec := os.Getenv(harmedStore); spec != "" {
		if err := tryHarmed(spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// tryHarmed tries the harms whose numbers it is given, in directory "trial" beside the whole store,
// and prints what became of each.
func tryHarmed(spec string) error {
	var p pristine
	var seed uint64
	var at string
	if _, err := fmt.Sscanf(spec, "%d %d %t %s", &seed, &p.records, &p.closed, &at); err != nil {
		return err
	}
	if err := p.load(at); err != nil {
		return err
	}
	// What runs away ends here, and not the machine. A mapping takes up to 1 GiB, and none is let
	// go of after a panic.
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: 16 << 30, Max: 16 << 30}); err != nil {
		return err
	}
	debug.SetTraceback("all")
	harms := p.harms(rand.New(rand.NewPCG(seed, 1)))
	dir := filepath.Join(filepath.Dir(at), "trial")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n, err := strconv.Atoi(in.Text())
		if err != nil {
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
		ctx, cancel := context.WithTimeout(context.Background(), sweepPatience)
		what, err := p.trial(ctx, dir, harms[n])
		cancel()
		took := time.Since(start)
		if err != nil {
			what = outcome("FAILED: " + strings.ReplaceAll(err.Error(), "\n", " │ "))
		}
		fmt.Printf("%d\t%d\t%d\t%s\n", n, took.Milliseconds(), highest(), what)
	}
	return nil
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
	if raceEnabled {
		t.Skip("the race detector takes more memory than a trial may")
	}
	seed := *sweepSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: -args -sweepseed %d", seed, seed)
	for _, p := range pristines(t) {
		t.Run(strings.ReplaceAll(p.name, ", ", "-"), func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "whole")
			if err := p.save(at); err != nil {
				t.Fatal(err)
			}
			harms := p.harms(rand.New(rand.NewPCG(seed, 1)))
			chosen := rand.New(rand.NewPCG(seed, 2)).Perm(len(harms))
			if !*sweepAll {
				n := cmp.Or(*sweepOnly, sweepSample)
				if testing.Short() {
					n = sweepSample / 3
				}
				chosen = chosen[:min(len(chosen), n)]
			}
			slices.Sort(chosen)
			r := &tried{outcomes: map[outcome]int{}}
			for len(chosen) > 0 {
				chosen = r.run(t, harms, chosen, fmt.Sprintf("%d %d %t %s", seed, p.records, p.closed, at))
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
func (r *tried) run(t *testing.T, harms []harmed, chosen []int, spec string) (left []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), harmedStore+"="+spec)
	var said lockedBuffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	proc.DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(2*sweepPatience, func() { _ = cmd.Process.Kill() })
	defer watch.Stop()
	lines := bufio.NewScanner(out)
	for len(chosen) > 0 {
		if _, err := fmt.Fprintln(in, chosen[0]); err != nil || !lines.Scan() {
			break
		}
		watch.Reset(2 * sweepPatience)
		r.take(t, harms, lines.Text())
		chosen = chosen[1:]
	}
	err = errors.Join(in.Close(), drained(out), cmd.Wait())
	if len(chosen) == 0 {
		if err != nil {
			t.Errorf("%v\n%s", err, said.String())
		}
		return nil
	}
	t.Errorf("harm %d, %s, %s: it hung or ended the process: %v\n%.3000s", chosen[0], harms[chosen[0]].file, harms[chosen[0]].what, err, said.String())
	return chosen[1:]
}

func drained(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return err
}

// take counts a line of the process.
func (r *tried) take(t *testing.T, harms []harmed, line string) {
	t.Helper()
	var n, ms, bytes int
	if _, err := fmt.Sscanf(line, "%d\t%d\t%d", &n, &ms, &bytes); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	what := outcome(line[strings.LastIndexByte(line, '\t')+1:])
	took := time.Duration(ms) * time.Millisecond
	if took > sweepPatience || bytes > sweepMemory || strings.HasPrefix(string(what), "FAILED") {
		t.Errorf("harm %d, %s, %s: %v, %d MB: %s", n, harms[n].file, harms[n].what, took, bytes>>20, what)
		what = "failed"
	}
	r.outcomes[what]++
	r.slowest, r.largest = max(r.slowest, took), max(r.largest, bytes)
}

// lockedBuffer is what a process says.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
