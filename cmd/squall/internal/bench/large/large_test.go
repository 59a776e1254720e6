package large

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

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

func TestBothRatesAreOfWhatWasDelivered(t *testing.T) {
	t.Parallel()
	for _, fabric := range []string{"shm", "tcp"} {
		out, err := execute(t, "--fabric", fabric, "--nodes", "2", "--large", "2000000", "--rounds", "2", "--rest", "50ms", "--json")
		if err != nil {
			t.Fatal(err)
		}
		var r bench.Report[run]
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if x := r.Series[0].Runs[0]; x.Alone < 1 || x.TookMs <= 0 || r.Rows[0].LimitName != "small messages alone" || r.Rows[0].Bar != "at least 0.50" {
			t.Errorf("%+v, %+v", x, r.Rows)
		}
	}
}

func TestTheResultIsReadable(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--nodes", "2", "--large", "1000000", "--rounds", "1", "--rest", "20ms")
	if err != nil || !strings.Contains(out, "at most 50") || !strings.Contains(out, "2 members, shm, messages of 1 KiB") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAllFaultsOfTheFlagsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := execute(t, "--nodes", "1", "--fabric", "pigeon", "--small", "1", "--large", "5", "--rounds", "0", "--runs", "0")
	for _, flag := range []string{"--nodes", "--fabric", "--small", "--large", "--rounds", "--runs"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s: %v", flag, err)
		}
	}
}

// Two members: one delivers 1 message a millisecond, and 3 in the milliseconds of the large
// message; the other one pauses.
func TestTheSlowestMemberAndTheLongestPauseCount(t *testing.T) {
	t.Parallel()
	const ms = bucket
	even, slow := &tally{}, &tally{Gaps: []spell{{From: 10 * ms, To: 14 * ms}, {From: 22 * ms, To: 29 * ms}}}
	for at := range 40 {
		even.Counts, slow.Counts = append(even.Counts, 1), append(slow.Counts, 1)
		if at >= 20 && at < 30 {
			even.Counts[at], slow.Counts[at] = 3, 2
		}
	}
	larges := []spell{{From: 20 * ms, To: 30 * ms}}
	s := &spec{Nodes: 2, Large: 1000, Rest: 20 * time.Millisecond}
	r, err := s.summarize(larges, []*tally{even, slow})
	if err != nil {
		t.Fatal(err)
	}
	if r.Alone != 1000 || r.Beside != 2000 || r.StallMs != 7 || r.RestMs != 4 || r.TookMs != 10 || r.LargeRate != 100_000 {
		t.Errorf("%+v", r)
	}
	slow.Digest = "another"
	if _, err := s.summarize(larges, []*tally{even, slow}); !errors.Is(err, errOrder) {
		t.Errorf("%v", err)
	}
}
