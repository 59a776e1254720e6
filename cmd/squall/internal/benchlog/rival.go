package benchlog

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

// rival is another program that measures what others do, in the same way and on the same disk, and prints a line of JSON.
type rival struct{ path, dir string }

// rivalResult is what this command needs of that line.
type rivalResult struct {
	Rate    float64 `json:"msgs_per_s"`
	CPUus   float64 `json:"cpu_us_per_msg"`
	Foreign float64 `json:"foreign_cpu"`
	OK      bool    `json:"ok"`
	Note    string  `json:"note"`
}

// errNoRival says how to get one.
var errNoRival = errors.New("give the program that measures other systems with --peers BINARY")

func rivalName(peer string, sizeBytes int) string { return peer + ", " + figures.Size(sizeBytes) }

// durable is the case of a peer that streams messages and has each on disk before it counts. In one of them only the leader takes proposals.
func (r rival) durable(peer string, sizeBytes int, secs time.Duration) testCase {
	proposers := "3"
	if peer == boltRaft {
		proposers = "1"
	}
	args := []string{
		"-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", proposers, "-mode", "durable",
		"-secs", strconv.FormatFloat(secs.Seconds(), 'f', -1, 64), "-lat", "0", "-dir", r.dir, "-json",
	}
	return testCase{rivalName(peer, sizeBytes), func(ctx context.Context) (Run, error) { return r.measure(ctx, sizeBytes, args) }}
}

func (r rival) measure(ctx context.Context, sizeBytes int, args []string) (Run, error) {
	if r.path == "" {
		return Run{}, errNoRival
	}
	cmd := exec.CommandContext(ctx, r.path, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return Run{}, fmt.Errorf("%s %s: %w: %s", r.path, strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return parseRival(out, sizeBytes)
}

// parseRival reads the last line of what a peer says.
func parseRival(out []byte, sizeBytes int) (Run, error) {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var res rivalResult
	if err := json.Unmarshal(lines[len(lines)-1], &res); err != nil {
		return Run{}, fmt.Errorf("output %.80q: %w", lines[len(lines)-1], err)
	}
	if !res.OK {
		return Run{}, fmt.Errorf("the run failed: %s", res.Note)
	}
	return Run{
		Rate: res.Rate, BytesRate: res.Rate * float64(sizeBytes), CPUPerMsg: res.CPUus, Cores: res.CPUus * res.Rate / 1e6, Foreign: res.Foreign,
	}, nil
}
