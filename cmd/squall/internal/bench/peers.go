package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

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
