package rdmc

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/rdmc/schedule"
)

// execute runs the command as a person does.
func execute(t *testing.T, line string) (out string, err error) {
	t.Helper()
	return executeIn(t.Context(), line)
}

func executeIn(ctx context.Context, line string) (out string, err error) {
	var b bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(strings.Fields(line))
	cmd.SetOut(&b)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	return b.String(), err
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	for _, cmd := range []*cobra.Command{NewCommand(), newPlanCommand(), newSimCommand()} {
		for line := range strings.Lines(cmd.Example) {
			line, _, _ = strings.Cut(line, "#")
			line, _, _ = strings.Cut(line, "|")
			line = strings.TrimPrefix(strings.TrimSpace(line), "squall rdmc ")
			if flags, ok := strings.CutPrefix(line, "sim"); ok { // playing them all would take a while
				var o simOptions
				c := &cobra.Command{}
				o.declare(c.Flags())
				if err := errors.Join(c.ParseFlags(strings.Fields(flags)), o.complete(c.Flags())); err != nil || len(o.chosen) == 0 {
					t.Errorf("%s: %v", line, err)
				}
				continue
			}
			if out, err := execute(t, line); err != nil || out == "" {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	for line, faults := range map[string][]string{
		"plan --nodes 0":                              {"0 nodes, want 1 to"},
		"plan --schedule best --nodes 1000":           {`--schedule: schedule: unknown algorithm "best"`, "a drawing has at most 128"},
		"plan --nodes 4 --racks a,b":                  {"2 rack labels for 4 nodes"},
		"plan --racks a,b --rack-size 2":              {"[racks rack-size]"},
		"plan --rack-size 0":                          {"--rack-size 0"},
		"sim --figure scale,price":                    {`"price" is none of algorithms, scale`},
		"sim --figure scale --nodes 2":                {"[figure nodes]"},
		"sim --size 1MiB --senders all":               {"--size: the figures have their own", "--senders: the figures"},
		"sim --rate fast --block 0 --intake random":   {`--rate: "fast" is no rate`, `--block: "0" is no size`, `--intake "random": use in-turn or as-they-come`},
		"sim --latency -1s --jitter 2m --rack-size 0": {"--latency -1s", "--jitter 2m", "--rack-size 0"},
		"sim --oversubscription NaN":                  {"--oversubscription NaN"},
		"sim --nodes 2-5000":                          {`--nodes: "2-5000": use numbers from 2 to 1024`},
		"sim --nodes 5-2 --size x --senders 0":        {`"5-2"`, `--size: "x" is no size`, `--senders "0"`},
		"sim --nodes 4 --slow-link 0:1":               {`--slow-link "0:1": use A-B:RATE`},
		"sim --nodes 4 --slow-link 0-9:1Gbit":         {"slow link 0–9", "among 4 nodes"},
		"sim --nodes 4 --schedule quick":              {`unknown algorithm "quick"`},
		"sim --nodes 1024 --size 1TiB":                {"too much to play", "--block"},
		"sim --nodes 4 --plot /dev/null/x":            {"/dev/null"},
	} {
		_, err := execute(t, line)
		if err == nil {
			t.Errorf("%s: no error", line)
			continue
		}
		for _, fault := range faults {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %v: nothing of %q", line, err, fault)
			}
		}
	}
}

func TestAPlanSaysItsStepsAndWhereTheyComeFrom(t *testing.T) {
	for line, first := range map[string]string{
		"--nodes 13 --blocks 9":                       "pipeline of 9 blocks to 13 nodes in 12 steps: 9 blocks + ⌈log2 13⌉ − 1 = 9 + 4 − 1",
		"--nodes 7 --blocks 2 --schedule tree":        "tree of 2 blocks to 7 nodes in 6 steps: 2 blocks × ⌈log2 7⌉ = 2 × 3",
		"--nodes 7 --blocks 2 --schedule chain":       "chain of 2 blocks to 7 nodes in 7 steps: 2 blocks + 7 nodes − 2",
		"--nodes 7 --blocks 2 --schedule sequential":  "sequential of 2 blocks to 7 nodes in 12 steps: 2 blocks × 6 receivers",
		"--nodes 4 --blocks 3 --racks a,a,b,b":        "hybrid of 3 blocks to 4 nodes in 6 steps: leaders of racks take turns between two pipelines; one flat pipeline: 3 + ⌈log2 4⌉ − 1 = 4",
		"--nodes 4 --rack-size 4":                     "pipeline of 5 blocks to 4 nodes in 6 steps",
		"--nodes 1 --schedule chain":                  "chain of 5 blocks to 1 nodes in 0 steps: there is no receiver",
		"--nodes 8 --schedule hybrid --rack-size 100": "hybrid of 5 blocks to 8 nodes in 7 steps: 5 blocks + ⌈log2 8⌉ − 1 = 5 + 3 − 1",
	} {
		out, err := execute(t, "plan "+line)
		if err != nil || !strings.HasPrefix(out, first) || !strings.Contains(out, "in which step each block arrives:") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
}

func TestAPlanAsJSONHasEveryMove(t *testing.T) {
	out, err := execute(t, "plan --nodes 13 --blocks 9 --json")
	var d Drawing
	if err := errors.Join(err, json.Unmarshal([]byte(out), &d)); err != nil {
		t.Fatal(err)
	}
	if d.Schedule != "pipeline" || d.Steps != 12 || len(d.Moves) != 12*9 || d.Moves[0] != (Move{0, 0, d.Moves[0].To, 0}) {
		t.Errorf("%+v", d)
	}
}

func TestAFigureOfOnesOwnIsATableAndTheSameAsJSON(t *testing.T) {
	const flags = "sim --nodes 2-4,64 --size 8MiB --schedule chain,pipeline --jitter 0 --slow-link 0-1:5Gbit"
	out, err := execute(t, flags)
	if err != nil || !strings.HasPrefix(out, "Computed, not measured: ") || strings.Count(out, "│ members │") != 3 || !strings.Contains(out, "│      64 │") {
		t.Errorf("%v\n%s", err, out)
	}
	asJSON, err := execute(t, flags+" --json")
	var r Report
	if err := errors.Join(err, json.Unmarshal([]byte(asJSON), &r)); err != nil {
		t.Fatal(err)
	}
	if len(r.Figures) != 3 || len(r.Figures[0].Curves) != 2 || len(r.Figures[0].Curves[1].Points) != 4 || r.Rate != 1.25e9 {
		t.Fatalf("%+v", r)
	}
	p := r.Figures[0].Curves[1].Points[3]
	if p.Nodes != 64 || p.Schedule != "pipeline" || p.Steps != 8+6-1 || p.Seconds <= 0 || p.Left <= 0.5 || p.Left >= 1 || p.CrossBytes != 0 || p.Senders != 1 {
		t.Errorf("%+v", p)
	}
}

func TestFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	if _, err := execute(t, "sim --nodes 2,16,256 --size 64KiB --block 16KiB --rack-size 4 --senders 2 --plot "+filepath.Join(dir, "plots")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"rdmc-own.svg", "rdmc-own-skew.svg"} {
		if text := svgText(t, filepath.Join(dir, "plots", name)); !strings.Contains(text, "hybrid") || !strings.Contains(text, "256") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// svgText is the text of an SVG file, which must be well-formed.
func svgText(t *testing.T, path string) string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text strings.Builder
	for d := xml.NewDecoder(file); ; {
		token, err := d.Token()
		if err == io.EOF {
			return text.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		if chars, ok := token.(xml.CharData); ok {
			text.Write(chars)
		}
	}
}

func TestAnInterruptEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := executeIn(ctx, "sim"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// played are the figures of a group, by name.
func played(t *testing.T, group string) map[string]Figure {
	t.Helper()
	var o simOptions
	c := &cobra.Command{}
	o.declare(c.Flags())
	if err := errors.Join(c.ParseFlags([]string{"--figure", group}), o.complete(c.Flags()), play(t.Context(), o.chosen, io.Discard)); err != nil {
		t.Fatal(err)
	}
	figures := map[string]Figure{}
	for _, f := range o.chosen {
		figures[f.Name] = f
	}
	return figures
}

// at is what a figure shows.
func at(t *testing.T, f Figure, curve string, nodes int) float64 {
	t.Helper()
	for _, c := range f.Curves {
		for _, p := range c.Points {
			if c.Name == curve && p.Nodes == nodes {
				return f.value(p)
			}
		}
	}
	t.Fatalf("%s has no curve %q with %d members", f.Name, curve, nodes)
	return 0
}

func TestSequentialGrowsWithTheGroupAndThePipelineHardlyDoes(t *testing.T) {
	f := played(t, "algorithms")
	large, small := f["rdmc-algorithms-256"], f["rdmc-algorithms-8"]
	if grows := at(t, large, "sequential", 16) / at(t, large, "sequential", 2); grows < 14 || grows > 16 {
		t.Errorf("sequential takes %.2f times as long to 15 as to one", grows)
	}
	if grows := at(t, large, "pipeline", 16) / at(t, large, "pipeline", 2); grows > 1.05 {
		t.Errorf("the pipeline takes %.2f times as long to 15 as to one", grows)
	}
	if chain := at(t, large, "chain", 16) / at(t, large, "pipeline", 16); chain > 1.1 {
		t.Errorf("a chain takes %.2f of the pipeline for a large message", chain)
	}
	if chain := at(t, small, "chain", 16) / at(t, small, "pipeline", 16); chain < 1.5 {
		t.Errorf("a chain takes %.2f of the pipeline for a small message", chain)
	}
}

// Each member takes in what the others send, and delivers its own without the network.
func TestRDMAIsSharedByWhatOthersSend(t *testing.T) {
	f := played(t, "rdma")["rdma-spindle"]
	for _, n := range []int{4, 16} {
		if all := at(t, f, "model, all send", n); math.Abs(all/(12.5*float64(n)/float64(n-1))-1) > 0.01 {
			t.Errorf("%d members that all send deliver %.2f GB/s", n, all)
		}
		if one := at(t, f, "model, one sends", n); math.Abs(one/(12.5/float64(n-1))-1) > 0.01 {
			t.Errorf("of one sender %d members deliver %.2f GB/s", n, one)
		}
	}
	if published := at(t, f, "Spindle, all send", 16); published != 9.7 {
		t.Errorf("the published figure is %v", published)
	}
}

func TestAThousandCopiesTakeThePipelineAsLongAsAHundred(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds with the race detector")
	}
	f := played(t, "scale")
	if grows := at(t, f["rdmc-scale"], "pipeline", 1024) / at(t, f["rdmc-scale"], "pipeline", 128); grows > 1.02 {
		t.Errorf("%.3f times as long", grows)
	}
	if part := at(t, f["rdmc-skew"], "pipeline", 1024) / at(t, f["rdmc-scale"], "pipeline", 1024); part > 0.01 {
		t.Errorf("members are %.3f of the time apart", part)
	}
}

func TestTheHybridIsForManyGroupsAcrossThinLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds with the race detector")
	}
	f := played(t, "racks")["rdmc-racks"]
	if at(t, f, "hybrid, all send", 64) < 1.2*at(t, f, "pipeline, all send", 64) {
		t.Error("the hybrid gains nothing among 64")
	}
	if a, b := at(t, f, "hybrid, one sends", 8), at(t, f, "pipeline, one sends", 8); a != b {
		t.Errorf("within one rack the hybrid has %g, the pipeline %g", a, b)
	}
}

func TestTheFormulaStandsBesideWhatIsComputed(t *testing.T) {
	f := played(t, "slow-link")["rdmc-slow-link"]
	for _, n := range doubling(256) {
		if a, b := at(t, f, "pipeline", n), at(t, f, "l·T′ / (T + (l − 1)·T′)", n); math.Abs(a-b) > 0.02 {
			t.Errorf("%d members: %.3f, and %.3f by the formula", n, a, b)
		}
	}
}

func TestOverlappingGroupsShareAllLinks(t *testing.T) {
	f := played(t, "overlap")["rdmc-overlap"]
	for n := 2; n <= 16; n++ { // n members send 10 Gbit/s each, and every message n − 1 times
		limit := 10 * float64(n) / float64(n-1)
		if a := at(t, f, "all send", n); a > limit || a < 0.95*limit {
			t.Errorf("%d members: %.2f of %.2f Gbit/s", n, a, limit)
		}
	}
}

func TestRatesAndNumbersOfMembersAreRead(t *testing.T) {
	for text, want := range map[string]float64{"10Gbit": 1.25e9, "10 Gbit/s": 1.25e9, "800kbit": 1e5, "64bit": 8, "1.25GB": 1.25e9, "1MiB/s": 1 << 20} {
		if got, err := parseRate(text); err != nil || got != want {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "Gbit", "-1Gbit", "NaNbit", "Infbit", "0", "1e30bit", "10 parsecs"} {
		if got, err := parseRate(text); err == nil {
			t.Errorf("%q: %g", text, got)
		}
	}
	if nodes, err := parseNodes("16, 2-4,3", 16); err != nil || len(nodes) != 4 || nodes[3] != 16 {
		t.Error(nodes, err)
	}
}

func TestEverySchedulesNameIsKnown(t *testing.T) {
	for i, name := range allSchedules {
		if a, err := schedule.Parse(name); err != nil || int(a) != i {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}
