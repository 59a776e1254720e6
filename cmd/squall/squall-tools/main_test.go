package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/demo"
	"github.com/squall-go/squall/cmd/squall/internal/tools"

	"github.com/squall-go/squall/internal/testutil"
)

// asSquall makes this test binary the command, in the processes of a test and in the members that
// they start.
const asSquall = "SQUALL_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asSquall) != "" {
		main()
	}
	testutil.Overlap(4)
	os.Exit(m.Run())
}

// command is squall in a process of its own, which is gone when the test ends.
func command(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asSquall+"=1", "TMPDIR="+temporary(t))
	return cmd
}

var temporaries sync.Map // directories by the names of tests

// temporary is the directory to which the temporary files of a test's commands go.
func temporary(t *testing.T) string {
	dir, known := temporaries.Load(t.Name())
	if !known {
		dir, _ = temporaries.LoadOrStore(t.Name(), t.TempDir())
	}
	return dir.(string)
}

// output runs squall, which must succeed and say nothing but its result.
func output(t *testing.T, in io.Reader, args ...string) string {
	t.Helper()
	cmd := command(t, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("squall %s: %v\n%s%s", strings.Join(args, " "), err, errs.String(), out.String())
	}
	return out.String()
}

func TestMembersAgreeOnEveryFabric(t *testing.T) {
	t.Parallel()
	for fabric, link := range map[string]string{"auto": "shm", "shm": "shm", "tcp": "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			t.Parallel()
			var r demo.Result
			if err := json.Unmarshal([]byte(output(t, nil, "demo", "--json", "--fabric", fabric, "--repeat", "2")), &r); err != nil {
				t.Fatal(err)
			}
			if !r.Agree || len(r.Members) != 3 || len(r.Links) != 3 || r.Messages != uint64(2*r.Lines) {
				t.Fatalf("%+v", r)
			}
			for _, l := range r.Links {
				if l.Fabric != link {
					t.Errorf("between %v: %q, not %s", l.Between, l.Fabric, link)
				}
			}
			for _, m := range r.Members {
				if m.Messages != r.Messages || m.Bytes != r.Members[0].Bytes || m.Digest != r.Members[0].Digest || len(m.Digest) != 64 {
					t.Errorf("member %d: %+v, member 1: %+v", m.ID, m, r.Members[0])
				}
				if m.MsgsPerSecond <= 0 || m.Loaded.P99Ns < m.Loaded.P50Ns || m.Unloaded.Messages == 0 || m.Unloaded.P50Ns <= 0 || m.Batch.Deliver < 1 {
					t.Errorf("member %d measured %+v", m.ID, m)
				}
			}
		})
	}
}

func TestTheTableIsNarrowAndEndsWithTheAgreement(t *testing.T) {
	t.Parallel()
	out := output(t, strings.NewReader("one\n\nthree"), "demo", "--nodes", "2", "--repeat", "100", "--size", "1000", "-")
	const first = "-: 3 lines of 1,000 bytes, sent 100 times by 2 members"
	const last = "all 2 members delivered the same 300 messages in the same order"
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if lines[0] != first || lines[len(lines)-1] != last {
		t.Errorf("begins with %q, ends with %q", lines[0], lines[len(lines)-1])
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestAMemberAloneAgreesWithItself(t *testing.T) {
	t.Parallel()
	if out := output(t, nil, "demo", "--nodes", "1", "--repeat", "1"); !strings.HasSuffix(out, "the only member delivered its 4,641 messages\n") {
		t.Fatal(out)
	}
}

// running is a demo that goes on until something happens to it.
type running struct {
	*exec.Cmd
	errs *bufio.Scanner
	pids []int // by member, from 0
}

var pidLine = regexp.MustCompile(`^member (\d+) has pid (\d+)$`)

// runDemo starts a demo and returns once every member has started.
func runDemo(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{Cmd: command(t, append([]string{"demo", "-v", "--repeat", "1000000"}, args...)...)}
	errs, err := r.StderrPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.errs = bufio.NewScanner(errs)
	for len(r.pids) < 3 {
		if m := pidLine.FindStringSubmatch(r.line(t)); m != nil {
			pid, _ := strconv.Atoi(m[2])
			r.pids = append(r.pids, pid)
		}
	}
	return r
}

func (r *running) line(t *testing.T) string {
	t.Helper()
	if !r.errs.Scan() {
		t.Fatalf("the demo ended: %v, %v", r.errs.Err(), r.Wait())
	}
	return r.errs.Text()
}

// formed waits until the members have a group.
func (r *running) formed(t *testing.T) {
	t.Helper()
	for r.line(t) != "the group has formed" {
	}
}

// end returns the exit status and what the command itself had to say, once all members are gone.
func (r *running) end(t *testing.T) (status int, errs []string) {
	t.Helper()
	for r.errs.Scan() {
		if said, ok := strings.CutPrefix(r.errs.Text(), "squall demo: "); ok {
			errs = append(errs, said)
		}
	}
	r.Wait()
	for i, pid := range r.pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("member %d (pid %d) is still there", i+1, pid)
		}
	}
	return r.ProcessState.ExitCode(), errs
}

func TestAKilledMemberIsNamedByItsParentAndByTheOthers(t *testing.T) {
	t.Parallel()
	for _, fabric := range []string{"shm", "tcp"} {
		t.Run(fabric, func(t *testing.T) {
			t.Parallel()
			r := runDemo(t, "--fabric", fabric)
			r.formed(t)
			if err := syscall.Kill(r.pids[1], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			killed := time.Now()
			status, errs := r.end(t)
			want := fmt.Sprintf("member 2 (pid %d) was killed by signal 9 (killed); members 1 and 3 report: node 2 at ", r.pids[1])
			if status != 1 || len(errs) != 1 || !strings.HasPrefix(errs[0], want) {
				t.Fatalf("exit status %d, %q, not %q", status, errs, want)
			}
			t.Logf("%s; after %v", errs[0], time.Since(killed))
		})
	}
}

func TestAMemberKilledBeforeThereIsAGroupIsNamed(t *testing.T) {
	t.Parallel()
	r := runDemo(t, "--fabric", "shm")
	syscall.Kill(r.pids[0], syscall.SIGKILL)
	status, errs := r.end(t)
	want := fmt.Sprintf("member 1 (pid %d) was killed by signal 9 (killed)", r.pids[0])
	if status != 1 || len(errs) != 1 || !strings.HasPrefix(errs[0], want) {
		t.Fatalf("exit status %d, %q, not %q", status, errs, want)
	}
}

func TestAnInterruptEndsAllMembers(t *testing.T) {
	t.Parallel()
	r := runDemo(t)
	r.formed(t)
	r.Process.Signal(os.Interrupt)
	if status, errs := r.end(t); status != 130 || len(errs) != 1 || errs[0] != "interrupted" {
		t.Fatalf("exit status %d, %q", status, errs)
	}
}

func TestADemoThatTakesTooLongSaysHowFarItCame(t *testing.T) {
	status, _, errs := inProcess(t, "demo", "--nodes", "1", "--timeout", "1ns")
	if status != 1 || !strings.HasPrefix(errs, "squall demo: not done after 1ns") {
		t.Fatal(status, errs)
	}
}

// inProcess runs a command that starts no members.
func inProcess(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	t.Setenv(asSquall, "1") // should it start one
	t.Setenv("TMPDIR", temporary(t))
	var o, e bytes.Buffer
	status = run(args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

func TestAllFaultsOfACommandLineAreReportedAtOnce(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	status, _, errs := inProcess(t, "demo", "--nodes", "17", "--fabric", "pigeon", "--size", "-1", "--repeat", "-2", "--timeout", "0s", missing, dir)
	want := []string{"--nodes 17: ", `--fabric "pigeon": `, "--size -1: ", "--repeat -2: ", "--timeout 0s: ", missing + ": no such file", dir + ": is a directory"}
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if status != 1 || len(lines) != len(want) {
		t.Fatalf("status %d:\n%s", status, errs)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, "squall demo: "+want[i]) {
			t.Errorf("%s\nis not about %q", line, want[i])
		}
	}
}

func TestMistakesAreExplained(t *testing.T) {
	for args, want := range map[string]string{
		"demo --nodez 3":     "squall demo: unknown flag: --nodez\nsquall demo: see squall demo --help\n",
		"demo -":             "squall demo: -: nothing to send, not one line\n",
		"demos":              "squall: unknown command \"demos\" for \"squall\"\nsquall: Did you mean this?\nsquall: \tdemo\n",
		"demo run-process":   "squall demo run-process: run-process is started by other commands of this program, not by hand: no configuration on standard input: EOF\n",
		"log verfy a":        "squall log: unknown command \"verfy\" for \"squall log\"\nsquall log: Did you mean this?\nsquall log: \tverify\nsquall log: see squall log --help\n",
		"rdmc --json nop":    "squall rdmc: unknown command \"nop\" for \"squall rdmc\"\nsquall rdmc: see squall rdmc --help\n",
		"completion foo":     "squall completion: unknown command \"foo\" for \"squall completion\"\nsquall completion: see squall completion --help\n",
		"log cat --limit x":  "squall log cat: --limit x: must be a whole number from 0 on\nsquall log cat: see squall log cat --help\n",
		"log ls --timeout x": "squall log ls: --timeout x: must be a duration like 90s or 2h\nsquall log ls: see squall log ls --help\n",
		"version --verbos":   "squall version: unknown flag: --verbos\nsquall version: see squall version --help\n",
	} {
		if status, out, errs := inProcess(t, strings.Fields(args)...); status != 1 || out != "" || errs != want {
			t.Errorf("squall %s: status %d, %q, %q", args, status, out, errs)
		}
	}
}

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestACommandWhoseOutputIsLostFails(t *testing.T) {
	for _, args := range []string{"version", "--version", "--help", "ripc ls", "completion bash", "dds idl --help"} {
		var errs bytes.Buffer
		if status := run(strings.Fields(args), strings.NewReader(""), full{}, &errs); status != 1 || !strings.HasSuffix(errs.String(), ": no space left on device\n") {
			t.Errorf("squall %s: status %d, %q", args, status, errs.String())
		}
	}
}

func TestNoGroupTakesACommandThatItDoesNotHave(t *testing.T) {
	groups := [][]string{nil, {"completion"}}
	for _, c := range newRoot().Commands() {
		if c.HasSubCommands() {
			groups = append(groups, []string{c.Name()})
		}
	}
	if len(groups) < 5 {
		t.Fatalf("only %d groups were found", len(groups))
	}
	for _, g := range groups {
		if status, out, errs := inProcess(t, append(g, "verfy")...); status != 1 || out != "" || errs == "" {
			t.Errorf("squall %v verfy: status %d, %q, %q", g, status, out, errs)
		}
	}
}

func TestAGroupOfCommandsPrintsItsHelp(t *testing.T) {
	for _, args := range []string{"log", "log --help", "rdmc", "completion", "rdmc -h", "help log"} {
		if status, out, errs := inProcess(t, strings.Fields(args)...); status != 0 || !strings.Contains(out, "Available Commands:") || errs != "" {
			t.Errorf("squall %s: status %d, %q, %q", args, status, out, errs)
		}
	}
}

func TestTheVersionIsTheSameEitherWay(t *testing.T) {
	_, long, _ := inProcess(t, "version")
	_, short, _ := inProcess(t, "--version")
	if long != short || !strings.HasPrefix(long, "squall ") {
		t.Fatalf("%q, %q", long, short)
	}
}

// Of two commands with one name, the second one cannot be called.
func TestEachCommandHasANameOfItsOwn(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(parent *cobra.Command) {
		seen := map[string]bool{}
		for _, c := range parent.Commands() {
			for _, name := range append(c.Aliases, c.Name()) {
				if seen[name] {
					t.Errorf("%q has two commands %q", parent.CommandPath(), name)
				}
				seen[name] = true
			}
			walk(c)
		}
	}
	walk(newRoot())
}

func TestTheSmallProgramNamesTheCommandsThatItLacks(t *testing.T) {
	own := newRoot()
	for _, other := range tools.Commands() {
		if c, _, err := own.Find([]string{other.Name()}); err != nil || c.Short != other.Short {
			t.Errorf("%s: %v, %q, not %q", other.Name(), err, other.Short, c.Short)
		}
	}
}
