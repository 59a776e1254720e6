package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/squall-go/squall/internal/sim"
)

func parse(line string) (*options, error) {
	var o options
	f := pflag.NewFlagSet("sim", pflag.ContinueOnError)
	o.declare(f)
	if err := f.Parse(strings.Fields(line)); err != nil {
		return nil, err
	}
	return &o, o.complete(f)
}

// execute runs the command as a person does.
func execute(t *testing.T, line string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	cmd := NewCommand()
	cmd.SetArgs(strings.Fields(line))
	cmd.SetOut(&b)
	cmd.SetErr(io.Discard)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return b.String(), err
}

func TestFlagsBecomeSeedsAndLimits(t *testing.T) {
	no := false
	for line, want := range map[string]struct {
		first, count uint64
		limits       sim.Limits
	}{
		"":                        {1, usualSeeds, sim.Limits{}},
		"--seeds 7":               {1, 7, sim.Limits{}},
		"--seeds 5-9 --nodes 3":   {5, 5, sim.Limits{Nodes: 3}},
		"--seed 4711":             {4711, 1, sim.Limits{}},
		"--seed 0 --messages 5":   {0, 1, sim.Limits{Messages: 5}},
		"--faults none":           {1, usualSeeds, sim.Limits{Faults: &no}},
		"--faults crash,leave":    {1, usualSeeds, sim.Limits{Kinds: sim.FaultKinds(0).With(sim.Crash).With(sim.Leave)}},
		"--faults one-way-cut":    {1, usualSeeds, sim.Limits{Kinds: sim.FaultKinds(0).With(sim.OneWayCut)}},
		"--seed 1 --trace":        {1, 1, sim.Limits{}},
		"--json --jobs 1":         {1, usualSeeds, sim.Limits{}},
		"--seeds 3-3 --coverage":  {3, 1, sim.Limits{}},
		"--faults hang,power-off": {1, usualSeeds, sim.Limits{Kinds: sim.FaultKinds(0).With(sim.Hang).With(sim.PowerOff)}},
	} {
		o, err := parse(line)
		if err != nil || o.first != want.first || o.count != want.count || !reflect.DeepEqual(o.limits, want.limits) {
			t.Errorf("%q: %+v, %v", line, o, err)
		}
		if again, err := parse(o.limits.Flags()); err != nil || !reflect.DeepEqual(again.limits, want.limits) {
			t.Errorf("%q: the flags of a replay, %q, give %+v, %v", line, o.limits.Flags(), again, err)
		}
	}
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := new(options).write("small.json", sim.Draw(1, sim.Limits{}), errors.New("it fails")); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(NewCommand().Example) {
		line, _, _ = strings.Cut(line, "#")
		line, _, _ = strings.Cut(line, "|")
		if _, err := parse(strings.TrimPrefix(strings.TrimSpace(line), "squall sim")); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	for line, faults := range map[string][]string{
		"--seeds 9-5":             {`--seeds "9-5": use A-B`},
		"--seeds many":            {`--seeds "many"`},
		"--seeds 0":               {`--seeds "0"`},
		"--trace":                 {"--trace: shows one run; say which one with --seed"},
		"--seed 1 --trace --json": {"--trace, --json: use one"},
		"--nodes 0 --messages -1 --jobs 0 --faults crash,flood": {
			"--nodes 0: use 1 to 16", "--messages -1: use 1 to", "--jobs 0: use 1 or more", `--faults: "flood" is no kind of fault: use crash, power-off, `,
		},
		"--faults none,crash": {"none goes with nothing else"},
		"--seed 1 --seeds 5":  {"[seed seeds plan]"},
		"--plan x --nodes 5":  {"[nodes plan]"},
		"--plan missing.json": {"--plan: open missing.json"},
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

func TestACampaignSaysWhatItDid(t *testing.T) {
	out, err := execute(t, "--seeds 3-12 --faults none --coverage")
	if err != nil || !strings.Contains(out, "10 seeds from 3 in ") || !strings.Contains(out, " seeds/s: ") || !strings.Contains(out, "  nulls sent\n") ||
		!strings.Contains(out, "never taken: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestJSONHasTheSame(t *testing.T) {
	out, err := execute(t, "--seeds 4 --faults none --coverage --json")
	var r Result
	if err := errors.Join(err, json.Unmarshal([]byte(out), &r)); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if r.First != 1 || r.Seeds != 4 || r.Deliveries == 0 || r.Views == 0 || r.SeedsPerSecond <= 0 || r.Commit == "" || r.Probes["nulls sent"] == 0 || r.Reached["nulls sent"] == 0 || r.Reached["nulls sent"] > 4 || r.Failed != nil {
		t.Errorf("%+v", r)
	}
}

func TestATraceShowsEverythingThatHappens(t *testing.T) {
	out, err := execute(t, "--seed 5 --nodes 3 --faults none --trace")
	if err != nil || !strings.HasPrefix(out, "seed 5: 3 nodes") || strings.Count(out, "══ v1, rank") != 3 || !strings.Contains(out, "1 seeds from 5") {
		t.Errorf("%v\n%s", err, out)
	}
	if again, err := execute(t, "--seed 5 --nodes 3 --faults none --trace"); err != nil || trace(again) != trace(out) {
		t.Errorf("%v: the same seed gives another trace", err)
	}
}

// trace is all but the last line, which has times in it.
func trace(out string) string { return out[:strings.LastIndex(strings.TrimSuffix(out, "\n"), "\n")] }

// broken are options under which some run fails.
func broken(t *testing.T, line string) *options {
	t.Helper()
	o, err := parse(line)
	if err != nil {
		t.Fatal(err)
	}
	o.play.Lie = sim.TakesAgain
	return o
}

// A seed that fails is shrunk to a small plan in a file, which fails in the same way, and can be
// traced.
func TestAFailingSeedIsShrunkToAPlanInAFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o, out, errs := broken(t, "--seeds 1000 --nodes 3 --json"), bytes.Buffer{}, bytes.Buffer{}
	if err := o.run(t.Context(), &out, &errs); err == nil {
		t.Fatal("nothing failed")
	}
	var r Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Failed == nil || r.Failed.Shrunk == nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	s := r.Failed.Shrunk
	if !strings.Contains(s.Replay, "--plan "+s.File+" --trace") || len(s.Plan.Faults) > 0 || s.Tried == 0 || !strings.Contains(errs.String(), "shrinking 3 initial members") {
		t.Errorf("%s\n%s", &out, &errs)
	}
	for flags, part := range map[string]string{"--trace": "        time │ node ", "": "replay: go run ./cmd/squall sim --plan " + s.File, "--shrink --save " + s.File: "shrunk to "} {
		o, out := broken(t, "--plan "+s.File+" "+flags), bytes.Buffer{}
		first, _, _ := strings.Cut(s.Error, "\n")
		if err := o.run(t.Context(), &out, io.Discard); err == nil || !strings.HasSuffix(err.Error(), first) || !strings.Contains(out.String(), part) {
			t.Errorf("%s: the plan of the file ends with %v, not %s\n%s", flags, err, first, &out)
		}
	}
	o, out = broken(t, fmt.Sprintf("--seed %d --nodes 3", r.Failed.Seed)), bytes.Buffer{}
	if err := o.run(t.Context(), &out, io.Discard); err == nil || strings.Contains(out.String(), "shrunk to") {
		t.Errorf("%v: one seed is shrunk only if that is asked for\n%s", err, &out)
	}
}

func TestAFailureSaysAllThatIsNeededToLookIntoIt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := broken(t, "--seeds 1000 --nodes 3")
	var out bytes.Buffer
	err := o.run(t.Context(), &out, io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "seed ") || !strings.Contains(err.Error(), "is violated") {
		t.Fatalf("%v\n%s", err, &out)
	}
	seed := strings.TrimSuffix(strings.Fields(err.Error())[1], ":")
	for _, part := range []string{
		"seed " + seed + " failed at commit " + commit(), "is violated: ", "go run ./cmd/squall sim --seed " + seed + " --nodes 3 --trace", "        time │ node ",
	} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("nothing of %q in\n%s", part, &out)
		}
	}
	for flags, part := range map[string]string{"--trace": "replay: go run", "--json": `"replay": "go run`} {
		o, out := broken(t, fmt.Sprintf("--seed %s --nodes 3 %s", seed, flags)), bytes.Buffer{}
		if again := o.run(t.Context(), &out, io.Discard); again == nil || again.Error() != err.Error() || !strings.Contains(out.String(), part) {
			t.Errorf("%s: the replay ends with %v, not %v\n%s", flags, again, err, &out)
		}
	}
}

func TestAnInterruptEndsACampaignAndSaysHowFarItCame(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o, err := parse("--seeds 1000000")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := o.run(ctx, &out, io.Discard); !errors.Is(err, context.Canceled) || !strings.Contains(out.String(), "0 seeds from 1") {
		t.Errorf("%v\n%s", err, &out)
	}
}

func TestKindsOfFaultsAreCompleted(t *testing.T) {
	for typed, want := range map[string]string{"": "crash", "non": "none", "crash,l": "crash,leave", "crash,power": "crash,power-off"} {
		all, _ := completeFaults(nil, nil, typed)
		if len(all) == 0 || all[0] != want {
			t.Errorf("%q is completed to %v", typed, all)
		}
	}
	if all, _ := completeFaults(nil, nil, "crash,cr"); len(all) != 0 {
		t.Errorf("crash is offered twice: %v", all)
	}
}
