package topics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// cyclone has processes of CycloneDDS find each other on the loopback interface, which has no
// multicast.
const cyclone = `<CycloneDDS><Domain><General><Interfaces><NetworkInterface name="lo"/></Interfaces><AllowMulticast>false</AllowMulticast></General>` +
	`<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer Address="127.0.0.1"/></Peers></Discovery></Domain></CycloneDDS>`

// ddsperf is CycloneDDS's own benchmark, from Debian's package cyclonedds-tools.
type ddsperf struct {
	path string
	base spec
}

// errNoRival says how to get the program.
var errNoRival = fmt.Errorf("%w: give ddsperf of cyclonedds-tools with --ddsperf", bench.ErrAbsent)

// limit is the case of ddsperf that a figure is held against.
func (d ddsperf) limit(s spec) bench.Case[run] {
	if s.Trips {
		return bench.Case[run]{Name: "ddsperf, half a round trip, " + bench.Size(s.SizeBytes), Measure: func(ctx context.Context) (run, error) { return d.trips(ctx, s.SizeBytes) }}
	}
	name := fmt.Sprintf("ddsperf, %s, %d readers", bench.Size(s.SizeBytes), s.Readers)
	return bench.Case[run]{Name: name, Measure: func(ctx context.Context) (run, error) { return d.stream(ctx, s.SizeBytes, s.Readers) }}
}

// start runs ddsperf for some seconds and returns what it prints, once it has ended.
func (d ddsperf) start(ctx context.Context, seconds float64, args ...string) func() (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second))+10*time.Second)
	cmd := exec.CommandContext(ctx, d.path, append([]string{"-D", strconv.FormatFloat(seconds, 'f', -1, 64)}, args...)...)
	cmd.Env = append(os.Environ(), "CYCLONEDDS_URI="+cyclone)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Start()
	return func() (string, error) {
		defer cancel()
		if err != nil {
			return "", err
		}
		if err := cmd.Wait(); err != nil {
			return "", fmt.Errorf("%s %v: %w: %.500s", d.path, args, err, out.Bytes())
		}
		return out.String(), nil
	}
}

var (
	totalLine = regexp.MustCompile(`(?m)\] ([0-9.]+)  size \d+ total (\d+) lost (\d+)`)
	tripLine  = regexp.MustCompile(`(?m) 50% ([0-9.]+)us`)
)

// seconds is how long its processes run: it prints a line each second, of which the first one is
// the warm-up.
func (d ddsperf) seconds() float64 { return 2 + max(2, d.base.Duration.Seconds()) }

// stream has a process publish to some, and returns what the slowest of these received between its
// first and its last line.
func (d ddsperf) stream(ctx context.Context, sizeBytes, readers int) (r run, err error) {
	if d.path == "" {
		return r, errNoRival
	}
	var ends []func() (string, error)
	for range readers {
		ends = append(ends, d.start(ctx, d.seconds(), "sub"))
	}
	pub := d.start(ctx, d.seconds()+1, "pub", "size", strconv.Itoa(sizeBytes))
	for i, end := range ends {
		out, failed := end()
		rate, wrong := rateOfTotals(out)
		err = errors.Join(err, failed, wrong)
		if i == 0 || rate < r.Rate {
			r.Rate = rate
		}
	}
	_, failed := pub()
	return r, errors.Join(err, failed)
}

// rateOfTotals is the rate between the first and the last line of a subscriber.
func rateOfTotals(out string) (float64, error) {
	lines := totalLine.FindAllStringSubmatch(out, -1)
	if len(lines) < 2 {
		return 0, fmt.Errorf("ddsperf received nothing: %.500s", out)
	}
	number := func(s string) float64 {
		v, _ := strconv.ParseFloat(s, 64) // the expression has digits only
		return v
	}
	first, last := lines[0], lines[len(lines)-1]
	if lost := number(last[3]); lost > 0 {
		return 0, fmt.Errorf("ddsperf lost %v samples", lost)
	}
	elapsed := number(last[1]) - number(first[1])
	if elapsed <= 0 {
		return 0, fmt.Errorf("ddsperf printed the lines of one moment: %.500s", out)
	}
	return (number(last[2]) - number(first[2])) / elapsed, nil
}

// trips returns the best median of a second.
func (d ddsperf) trips(ctx context.Context, sizeBytes int) (r run, err error) {
	if d.path == "" {
		return r, errNoRival
	}
	pong := d.start(ctx, d.seconds(), "pong")
	ping := d.start(ctx, d.seconds()-0.5, "ping", "size", strconv.Itoa(sizeBytes))
	out, err := ping()
	_, failed := pong()
	if err = errors.Join(err, failed); err != nil {
		return r, err
	}
	var medians []float64
	for _, line := range tripLine.FindAllStringSubmatch(out, -1) {
		us, _ := strconv.ParseFloat(line[1], 64) // the expression has digits only
		medians = append(medians, us/2)
	}
	if len(medians) == 0 {
		return r, fmt.Errorf("ddsperf had no answers: %.500s", out)
	}
	r.Latency.P50Us = slices.Min(medians)
	return r, nil
}
