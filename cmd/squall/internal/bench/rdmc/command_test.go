package rdmc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

func parse(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	o := &options{}
	cmd := o.suite().Command()
	if err := cmd.ParseFlags(args); err != nil {
		return o, err
	}
	return o, cmd.PreRunE(cmd, nil)
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("mpi", 0o755), os.WriteFile("mpi/bcast_ompi", nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(NewCommand().Example) {
		command, _, _ := strings.Cut(line, "#")
		o, err := parse(t, strings.Fields(command)[3:]...)
		if err != nil {
			t.Errorf("%s: %v", command, err)
		} else if len(o.sets()) == 0 {
			t.Errorf("%s measures nothing", command)
		}
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	for args, faults := range map[string][]string{
		"--nodes 1,65 --runs 0 --size 0 --schedule fast --lab quick --mpi /nowhere": {
			"1 nodes", "65 nodes", "--runs is 0", `--size "0"`, `"fast"`, `"quick"`, "bcast_ompi",
		},
		"--bars --size 1MiB --schedule chain": {"--size, --schedule: --bars"},
		"--local --lab 1gbit --bars":          {"--lab, --bars: only in a lab"},
		"--size 17GiB":                        {`--size "17GiB"`},
	} {
		_, err := parse(t, strings.Fields(args)...)
		for _, fault := range faults {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %v: nothing of %q", args, err, fault)
			}
		}
	}
}

func TestLinksOfManyNodesAreSlowerUnlessARateIsGiven(t *testing.T) {
	for args, want := range map[string][2]netlab.Rate{
		"":             {400 * netlab.Mbit, 200 * netlab.Mbit},
		"--lab 1gbit":  {netlab.Gbit, netlab.Gbit},
		"--local":      {0, 0},
		"--lab 0.5":    {500 * netlab.Kbit, 500 * netlab.Kbit},
		"--runs 1":     {400 * netlab.Mbit, 200 * netlab.Mbit},
		"--nodes 2,16": {400 * netlab.Mbit, 200 * netlab.Mbit},
	} {
		o, err := parse(t, strings.Fields(args)...)
		if got := [2]netlab.Rate{o.rateOf(8), o.rateOf(16)}; err != nil || got != want {
			t.Errorf("%s: %v, %v", args, got, err)
		}
	}
}

// measured measures what the flags ask for, or bars in its place.
func measured(t *testing.T, args string, bars func(o *options, s *set)) (r bench.Report[Run]) {
	t.Helper()
	o, err := parse(t, strings.Fields(args)...)
	if err != nil {
		t.Fatal(err)
	}
	sets := o.sets()
	if bars != nil {
		o.measured = set{}
		bars(o, &o.measured)
		sets = byHosts(o.measured.Cases)
	}
	r, err = bench.Measure(t.Context(), 2, sets, nil, io.Discard)
	if err := errors.Join(err, o.tables(&r), o.fleet.close()); err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Series {
		if errors.Is(s.Err, netlab.ErrUnavailable) {
			t.Skip(s.Err)
		}
		if s.Err != nil && !errors.Is(s.Err, errNotShared) {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
		for _, run := range s.Runs {
			if run.Seconds <= 0 || run.Skew < 0 || s.Spec.(Case).Rate > 0 && run.Ideal <= 0 {
				t.Errorf("%s: %+v", s.Name, run)
			}
		}
	}
	return r
}

func TestEveryScheduleIsMeasuredOnLoopback(t *testing.T) {
	t.Parallel()
	r := measured(t, "--local --nodes 2,3 --size 300001", nil)
	if len(r.Series) != 2*(len(allSchedules)+1) {
		t.Errorf("%d cases", len(r.Series))
	}
	for _, s := range r.Series {
		if s.Err == nil && len(s.Runs) != 2 {
			t.Errorf("%s: %d runs", s.Name, len(s.Runs))
		}
	}
}

func TestProcessesOfOneHostAreComparedWithCopies(t *testing.T) {
	t.Parallel()
	r := measured(t, "", func(o *options, s *set) { o.memcpyBars(s, 3, 1_000_000) })
	if len(r.Rows) != 3 || r.Rows[0].Figure.Median <= 0 {
		t.Errorf("%+v", r.Rows)
	}
}

func TestASlowLinkIsMeasuredInALab(t *testing.T) {
	t.Parallel()
	r := measured(t, "--lab 200mbit", func(o *options, s *set) { o.slowLinkBars(s, 4, 500_000) })
	if len(r.Series) != 4 || len(r.Rows) != 3 {
		t.Errorf("%+v", r)
	}
}

func TestAllNodesSendInALab(t *testing.T) {
	t.Parallel()
	r := measured(t, "--lab 200mbit", func(o *options, s *set) { o.overlapBars(s, 3, 500_000) })
	if len(r.Rows) != 1 || r.Rows[0].Figure.Median <= 0 || r.Rows[0].Figure.Median > 1.5 {
		t.Errorf("%+v", r.Rows)
	}
}

func TestTheCommandPrintsItsTables(t *testing.T) {
	var out bytes.Buffer
	cmd := NewCommand()
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs(strings.Fields("--local --nodes 2 --size 1000 --schedule chain --runs 1"))
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "plain TCP, in turn") {
		t.Errorf("%v: %s", err, &out)
	}
}

func TestTheTablesNameWhatWasMeasured(t *testing.T) {
	c := relayed(schedule.Pipeline, 4, 1<<20, 400*netlab.Mbit)
	run := Run{Seconds: 0.024, Ideal: 1.144, SkewBlocks: 2.5, CPUPerGB: 3, PeakBytes: 4096}
	table := casesTable([]Series{{Case: bench.Case[Run]{Name: c.name(), Spec: c}, Runs: []Run{run}}})
	for _, text := range []string{table.Render(), table.RenderMarkdown()} {
		for _, want := range []string{"pipeline", "400mbit", "1.14", "2.50", "4.0 KiB"} {
			if !strings.Contains(text, want) {
				t.Errorf("nothing of %q in\n%s", want, text)
			}
		}
	}
}
