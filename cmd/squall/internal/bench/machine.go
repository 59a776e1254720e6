package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-go/squall/cmd/squall/internal/version"
	"github.com/squall-go/squall/internal/mapped"
)

// Machine is where figures come from, and of which program.
type Machine struct {
	Cores      int    `json:"cores"`
	GOMAXPROCS int    `json:"gomaxprocs"`
	CPU        string `json:"cpu,omitempty"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"`
	Commit     string `json:"commit"`
	// CoreDistanceNs is the round trip of a cache line between two threads, in nanoseconds; 0: not
	// known. Figures of shared memory depend on it, and it moves where cores are virtual.
	CoreDistanceNs float64 `json:"core_distance_ns,omitempty"`
}

// ThisMachine describes the machine and this program.
func ThisMachine() Machine {
	return Machine{
		Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0), CPU: cpuModel(), Kernel: kernel(), Go: runtime.Version(), Commit: commit(),
		CoreDistanceNs: coreDistance(),
	}
}

func (m Machine) String() string {
	text := fmt.Sprintf("%d cores, GOMAXPROCS %d, %s, %s, commit %s", m.Cores, m.GOMAXPROCS, m.Kernel, m.Go, m.Commit)
	if m.CoreDistanceNs > 0 {
		text += fmt.Sprintf(", a cache line there and back in %.0f ns", m.CoreDistanceNs)
	}
	if m.CPU != "" {
		text = m.CPU + ", " + text
	}
	return text
}

// coreDistance is the least of some means of the round trip of a cache line between two threads, or
// 0 if they share a core: for lack of one, or because other processes keep it busy.
func coreDistance() (ns float64) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) < 2 {
		return 0
	}
	const trips, rounds, within, over = 100, 200, 20 * time.Millisecond, math.MaxUint64
	var line struct {
		_    [64]byte
		turn atomic.Uint64 // odd: the other thread's
		_    [64]byte
	}
	var other sync.WaitGroup
	other.Go(func() {
		for turn := line.turn.Load(); turn != over; turn = line.turn.Load() {
			if turn%2 == 1 {
				line.turn.CompareAndSwap(turn, turn+1) // unless it is over meanwhile
			}
		}
	})
	begin, turn := time.Now(), uint64(0)
measure:
	for range rounds {
		start := time.Now()
		for range trips {
			line.turn.Store(turn + 1)
			turn += 2
			for k := 1; line.turn.Load() != turn; k++ {
				if k%(1<<12) == 0 && time.Since(begin) > within {
					break measure
				}
			}
		}
		if mean := float64(time.Since(start)) / trips; ns == 0 || mean < ns {
			ns = mean
		}
	}
	line.turn.Store(over)
	other.Wait()
	return ns
}

// MemoryStatus is a figure of this process's memory, in bytes, or 0.
func MemoryStatus(name string) (bytes int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			_, _ = fmt.Sscan(value, &bytes)
		}
	}
	return bytes << 10
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS + "/" + runtime.GOARCH
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + runtime.GOARCH
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the commit that the program was built from, if the build recorded it.
func commit() string {
	commit, modified := version.Commit()
	if commit == "" {
		return "unknown (go build -buildvcs=true records it)"
	}
	commit = commit[:min(12, len(commit))]
	if modified {
		commit += " with changes"
	}
	return commit
}

// Peers is another program that measures what other systems do, in the same way, and prints a line
// of JSON.
type Peers struct{ Path string }

// PeerResult is what this command needs of that line.
type PeerResult struct {
	Rate    float64 `json:"msgs_per_s"`
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
	CPUus   float64 `json:"cpu_us_per_msg"`
	Foreign float64 `json:"foreign_cpu"`
	OK      bool    `json:"ok"`
	Note    string  `json:"note"`
}

// ErrNoPeers says how to get the program.
var ErrNoPeers = fmt.Errorf("%w: give the program that measures other systems with --peers BINARY", ErrAbsent)

// Present reports whether there is such a program.
func (p Peers) Present() bool { return p.Path != "" }

// PeerName is the name of the case of a system for messages of a size.
func PeerName(peer string, sizeBytes int) string { return peer + ", " + Size(sizeBytes) }

// Seconds is how a time is given to the program.
func Seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

// Measure runs the program once.
func (p Peers) Measure(ctx context.Context, args ...string) (r PeerResult, err error) {
	if !p.Present() {
		return r, ErrNoPeers
	}
	cmd := exec.CommandContext(ctx, p.Path, append(args, "-json")...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s %s: %w: %s", p.Path, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("output %.80q: %w", lines[len(lines)-1], err)
	}
	if !r.OK {
		return r, fmt.Errorf("the run failed: %s", r.Note)
	}
	return r, nil
}

// NewSegment makes a file for the processes of a run to map, in memory if the system has such
// files, and returns what removes it.
func NewSegment(bytes int) (path string, remove func() error, err error) {
	const memory = "/dev/shm"
	dir := memory
	if _, err := os.Stat(memory); err != nil {
		dir = ""
	}
	if dir, err = os.MkdirTemp(dir, "squall-bench-"); err != nil {
		return "", nil, err
	}
	path, remove = filepath.Join(dir, "segment"), func() error { return os.RemoveAll(dir) }
	f, err := mapped.Create(path, int64(bytes))
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return path, remove, f.Close()
}

// MapSegment maps a segment for as long as the process lives.
func MapSegment(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	f, err := mapped.Use(file, true)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return f.Bytes(), nil
}
