package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func parse(args ...string) (*options, error) {
	o := &options{spec: DefaultSpec()}
	cmd := o.command()
	if err := cmd.ParseFlags(args); err != nil {
		return o, err
	}
	return o, errors.Join(cmd.ValidateFlagGroups(), cmd.PreRunE(cmd, nil))
}

func TestFlagsBecomeASpec(t *testing.T) {
	o, err := parse(strings.Fields(`--nodes 4 --size 100 --senders half --subgroups 5 --window 64 --ring 65536 --fabric tcp --unordered
		--duration 1s --warmup 100ms`)...)
	want := Spec{
		Kind: Squall, Load: Stream, Nodes: 4, SizeBytes: 100, Senders: Half, Subgroups: 5, Window: 64, RingBytes: 64 << 10, Fabric: "tcp",
		Batching: AllBatching, Nulls: true, Unordered: true, Warmup: 100 * time.Millisecond, Duration: time.Second,
	}
	if err != nil || !reflect.DeepEqual(o.spec, want) {
		t.Fatalf("%+v, %v", o.spec, err)
	}
}

func TestTheDefaultsAreGood(t *testing.T) {
	for _, args := range []string{"", "--latency", "--idle", "--bars", "--spindle", "--spindle --quick --out x", "--scale --quick"} {
		if _, err := parse(strings.Fields(args)...); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestTheExamplesOfTheHelpAreGood(t *testing.T) {
	for line := range strings.Lines(NewCommand().Example) {
		command, _, _ := strings.Cut(line, "#")
		args := strings.Fields(command)[2:]
		if _, err := parse(args...); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
}

func TestEverythingWrongIsSaidAtOnce(t *testing.T) {
	for args, faults := range map[string][]string{
		"--nodes 65 --size -1 --senders few --fabric ib --subgroups 0 --window 5 --runs 0 --duration 1ns": {
			"65 nodes", "-1 bytes", `senders "few"`, `fabric "ib"`, "0 subgroups", "window of 5", "--runs is 0", "--duration is 1ns",
		},
		"--latency --idle":                        {"[idle latency] were all set"},
		"--idle --quick --peers x":                {"--quick: only with --spindle", "--peers: only with --bars"},
		"--bars --nodes 3 --fabric tcp":           {"--nodes: bars and figures bring their own", "--fabric: the bars"},
		"--spindle --senders half --limits":       {"--senders: bars and figures bring", "--limits: figures"},
		"--scale --spindle --fabric tcp --limits": {"[scale spindle] were all set", "--fabric: --scale measures", "--limits: figures"},
		"--lab fast":                              {`rate "fast"`},
		"--lab 1gbit --fabric shm":                {`fabric tcp, not "shm"`},
		"--lab 1gbit --latency":                   {"--lab: round trips"},
		"--size 300000":                           {"half of the ring, 262144 bytes"},
	} {
		_, err := parse(strings.Fields(args)...)
		if err == nil {
			t.Errorf("%s: no error", args)
			continue
		}
		for _, fault := range faults {
			if !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: %v: nothing of %q", args, err, fault)
			}
		}
	}
}

func TestACommandPrintsWhatItMeasured(t *testing.T) {
	takesItsTime(t)
	var r Report
	for duration := 50 * time.Millisecond; ; duration *= 3 { // until something was delivered: on a busy machine that takes a while
		var out, messages bytes.Buffer
		cmd := NewCommand()
		cmd.SetOut(&out)
		cmd.SetErr(&messages)
		cmd.SetArgs(strings.Fields("--runs 2 --duration " + duration.String() + " --warmup 10ms --size 100 --nodes 2 --json"))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		r = Report{}
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Machine.Cores == 0 || len(r.Series) != 4 || len(r.Rows) < 3 {
			t.Fatalf("%v: %s", err, out.Bytes())
		}
		if r.Rows[0].Ratio > 0 {
			break
		}
		if duration > 10*time.Second {
			t.Fatalf("in %v: %s", duration, out.Bytes())
		}
	}
}
