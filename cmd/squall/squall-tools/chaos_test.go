package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/squall-go/squall/cmd/squall/internal/demo"
)

// calm are flags with which a busy machine is not taken for a member that hangs.
var calm = []string{"--chaos", "--fail-after", "2s", "--duration", "1s"}

// What these seeds draw first happens within a second.
const (
	hangsFirst  = "4"
	killsFirst  = "10"
	leavesFirst = "3"
)

// chaosDemo are the arguments of a demo.
func chaosDemo(args ...string) []string {
	return append(append([]string{"demo"}, calm...), args...)
}

// nothingKept finds directories of a demo.
func nothingKept(t *testing.T) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(temporary(t), "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatSurvivesChaosIsOneSequence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fabric, seed, fate string
		long               bool
	}{
		{"shm", killsFirst, "killed", false},
		{"tcp", leavesFirst, "left", false},
		{"shm", hangsFirst, "evicted", true},
		{"tcp", hangsFirst, "evicted", true},
		{"tcp", killsFirst, "killed", true},
		{"shm", leavesFirst, "left", true},
	} {
		if testing.Short() && c.long {
			continue
		}
		t.Run(c.fabric+"/"+c.fate, func(t *testing.T) {
			t.Parallel()
			var r demo.Account
			if err := json.Unmarshal([]byte(output(t, nil, chaosDemo("--json", "--fabric", c.fabric, "--seed", c.seed)...)), &r); err != nil {
				t.Fatal(err)
			}
			nothingKept(t)
			checkChaos(t, r, c.fate)
		})
	}
}

// checkChaos looks once more at what the parent looked at.
func checkChaos(t *testing.T, r demo.Account, fate string) {
	t.Helper()
	fates := map[string]int{}
	for _, p := range r.Processes {
		fates[p.Fate]++
		if p.Fate == "stayed" && (p.Digest != r.Digest || p.Messages != r.Messages || *p.Sent != p.Delivered) {
			t.Errorf("%+v, but the group has %d messages with digest %s", p, r.Messages, r.Digest)
		}
		if p.Fate == "left" && *p.Sent != p.Delivered {
			t.Errorf("%+v", p)
		}
	}
	if !r.Agree || r.Fault != "" || fates["stayed"] != 3 || fates[fate] == 0 || len(r.Digest) != 64 {
		t.Fatalf("%v of %d messages: %+v", fates, r.Messages, r)
	}
	for i, v := range r.Views {
		if last := i == len(r.Views)-1; int(v.ID) != i+1 || !last && len(v.Digest) != 64 {
			t.Errorf("view %d is %+v", i+1, v)
		}
	}
}

func TestTheStoryOfChaosIsToldAndEndsWithTheAgreement(t *testing.T) {
	t.Parallel()
	out := output(t, nil, chaosDemo("--seed", killsFirst, "--size", "100")...)
	nothingKept(t)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	const first = "3 nodes, fabric auto, a member that is silent for 2s is removed; --seed " + killsFirst
	if lines[0] != first || !strings.HasPrefix(lines[1], "  0.000s  view 1: nodes 1 ") {
		t.Errorf("begins with %q, %q", lines[0], lines[1])
	}
	for _, part := range []string{" killed\n", " starts", "has the state of ", "all stop sending\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("nothing of %q in\n%s", part, out)
		}
	}
	const end = "; nothing that a survivor sent is missing"
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "all 3 members have the same ") || !strings.HasSuffix(last, end) {
		t.Errorf("ends with %q", last)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 130 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestAnInterruptEndsChaosAndLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd := command(t, chaosDemo("--seed", killsFirst, "--duration", "1h")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := make([]byte, 4096)
	for all := ""; !strings.Contains(all, "killed"); {
		n, err := out.Read(told)
		if all += string(told[:n]); err != nil {
			t.Fatal(err, all)
		}
	}
	cmd.Process.Signal(syscall.SIGINT)
	for err == nil {
		_, err = out.Read(told)
	}
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("exit status %d", cmd.ProcessState.ExitCode())
	}
	nothingKept(t)
	if pids := descendants(t); len(pids) > 0 {
		t.Errorf("still there: %v", pids)
	}
}

// descendants are the processes that were started with the directory of this test, where /proc
// tells.
func descendants(t *testing.T) (pids []string) {
	t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range dirs {
		if env, err := os.ReadFile(f); err == nil && strings.Contains(string(env), "TMPDIR="+temporary(t)) && filepath.Dir(f) != "/proc/self" {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

func TestChaosThatTakesTooLongEnds(t *testing.T) {
	status, out, errs := inProcess(t, chaosDemo("--seed", "5", "--duration", "1ns", "--timeout", "1ns")...)
	if status != 1 || !strings.HasPrefix(errs, "squall demo: not done after 2ns: node 1 (process 1) is starting") {
		t.Fatal(status, out, errs)
	}
	nothingKept(t)
}

func TestFlagsOfTheOtherDemoAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"demo --seed 1 --duration 2s": "squall demo: --duration needs --chaos or --durable\nsquall demo: --seed needs --chaos\n",
		"demo --chaos --repeat 2":     "squall demo: --repeat does not go with --chaos, which takes --duration\n",
		"demo --chaos --nodes 2":      "squall demo: --nodes 2: with --chaos at least 3, so that the rest is a majority\n",
		"demo --chaos --size 7":       "squall demo: --size 7: with --chaos a message has at least 16 bytes; 0 leaves the lines as they are\n",
		"demo --chaos --duration 0s":  "squall demo: --duration 0s: must be more than 0\n",
	} {
		if status, out, errs := inProcess(t, strings.Fields(args)...); status != 1 || out != "" || errs != want {
			t.Errorf("squall %s: status %d, %q, %q", args, status, out, errs)
		}
	}
}
