package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// rival is another program that measures what others do, in the same way, and prints a line of JSON.
type rival struct{ path string }

// rivalResult is what this command needs of that line.
type rivalResult struct {
	Rate  float64 `json:"msgs_per_s"`
	P50Us float64 `json:"p50_us"`
	P99Us float64 `json:"p99_us"`
	OK    bool    `json:"ok"`
	Note  string  `json:"note"`
}

// errNoRival says how to get one.
var errNoRival = errors.New("give the program that measures other systems with --peers BINARY")

// present reports whether there is such a program.
func (r rival) present() bool { return r.path != "" }

// throughput is the case of a peer that streams messages, of which three are proposed everywhere at once.
func (r rival) throughput(peer string, sizeBytes int, secs time.Duration) Case {
	return r.measure(fmt.Sprintf("%s, %s", peer, figures.Size(sizeBytes)), "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", "3",
		"-mode", "volatile", "-secs", seconds(secs), "-lat", "0", "-json")
}

// latency is the case of a peer's closed loop at its leader.
func (r rival) latency(peer string, sizeBytes int, secs time.Duration) Case {
	return r.measure(peer+", latency", "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", "1",
		"-mode", "volatile", "-secs", "0.2", "-lat", seconds(secs), "-json")
}

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }

func (r rival) measure(name string, args ...string) Case {
	return Case{Name: name, measure: func(ctx context.Context) (Run, error) {
		if !r.present() {
			return Run{}, errNoRival
		}
		cmd := exec.CommandContext(ctx, r.path, args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return Run{}, fmt.Errorf("%s %s: %w: %s", r.path, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
		}
		return parseRival(out)
	}}
}

func parseRival(out []byte) (Run, error) {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var res rivalResult
	if err := json.Unmarshal(lines[len(lines)-1], &res); err != nil {
		return Run{}, fmt.Errorf("output %.80q: %w", lines[len(lines)-1], err)
	}
	if !res.OK {
		return Run{}, fmt.Errorf("the run failed: %s", res.Note)
	}
	return Run{Rate: res.Rate, Latency: Latency{P50Us: res.P50Us, P99Us: res.P99Us}}, nil
}
