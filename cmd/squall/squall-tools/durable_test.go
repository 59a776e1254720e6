package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/squall-go/squall/cmd/squall/internal/demo"
)

// durableDemo are the arguments of a short demo.
func durableDemo(args ...string) []string {
	return append([]string{"demo", "--durable", "--duration", "200ms"}, args...)
}

func TestWhatWasAcknowledgedSurvivesTheEndOfAllMembers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fabric, engine, nodes string
		long                  bool
	}{{"shm", "bolt", "3", false}, {"tcp", "wal", "3", false}, {"auto", "bolt", "1", true}, {"shm", "wal", "2", true}} {
		if testing.Short() && c.long {
			continue
		}
		t.Run(c.fabric+"/"+c.engine+"/"+c.nodes, func(t *testing.T) {
			t.Parallel()
			var r demo.Account
			out := output(t, nil, durableDemo("--json", "--fabric", c.fabric, "--engine", c.engine, "--nodes", c.nodes)...)
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err)
			}
			nothingKept(t)
			checkDurable(t, r)
		})
	}
}

// checkDurable looks once more at what the parent looked at.
func checkDurable(t *testing.T, r demo.Account) {
	t.Helper()
	var kept, before uint64
	for i, p := range r.Processes {
		kept += p.Delivered
		killed := i < r.Nodes
		if p.Acknowledged == 0 || p.Delivered < p.Acknowledged || (p.Fate == "killed") != killed || *p.Recovered > 0 == killed {
			t.Errorf("%+v", p)
		}
		if killed {
			before += p.Acknowledged
		} else if p.Messages != r.Messages || p.Digest != r.Digest || *p.Sent != p.Acknowledged || *p.Sent != p.Delivered || *p.Recovered < before {
			t.Errorf("%+v, but the group has %d messages with digest %s, %d of them acknowledged before the kill", p, r.Messages, r.Digest, before)
		}
	}
	if !r.Agree || r.Fault != "" || len(r.Processes) != 2*r.Nodes || kept != r.Messages || r.Before != before || r.OnDisks != r.Messages || len(r.Digest) != 64 {
		t.Errorf("%d kept, %d before: %+v", kept, before, r)
	}
}

// figures are what differs between two runs of the same demo.
var figures = regexp.MustCompile(`[0-9][0-9,.]*`)

func TestTheStoryOfAComebackIsToldAndEndsWithTheAgreement(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	out := output(t, nil, durableDemo("--size", "100", "--nodes", "1", "--dir", dir)...)
	story, _, _ := strings.Cut(out, "\n\n")
	const want = `N node, fabric auto; it keeps what it delivers in a log, engine bolt
Ns  view N: nodes N
Ns  all killed; N messages were acknowledged
Ns  the logs, record by record: N messages are on every disk, the same ones
Ns  node N starts again (process N)
Ns  node N has the state of N messages, from its log, after N ms
Ns  view N: nodes N
Ns  all stop sending
Ns  the logs, record by record: N messages are on every disk, the same ones`
	got := regexp.MustCompile(`(?m)^ +`).ReplaceAllString(figures.ReplaceAllString(story, "N"), "")
	const view, state = "Ns  view N: nodes N\n", "Ns  node N has the state of N messages, from its log, after N ms\n"
	if got = strings.ReplaceAll(got, view+state, state+view); got != want { // the application recovers beside the loop: either may come first
		t.Errorf("told:\n%s\nnot:\n%s", got, want)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	const end = "the only member has its N messages in order, on their disks too; nothing acknowledged is lost, N of it before all were killed"
	if last := lines[len(lines)-1]; figures.ReplaceAllString(last, "N") != end {
		t.Errorf("ends with %q", last)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 140 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	status, _, errs := inProcess(t, "demo", "--durable", "--dir", dir)
	if want := "squall demo: --dir " + dir + ": it is not empty; the logs of an earlier demo would be taken for logs of this one\n"; status != 1 || errs != want {
		t.Errorf("status %d, %q", status, errs)
	}
}

func TestADurableDemoThatTakesTooLongKeepsTheLogs(t *testing.T) {
	status, out, errs := inProcess(t, durableDemo("--duration", "1ns", "--timeout", "1ns")...)
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if status != 1 || len(lines) != 2 || !strings.HasPrefix(lines[0], "squall demo: not done after 2ns: node 1 (process 1) ") {
		t.Fatal(status, out, errs)
	}
	dir, ok := strings.CutPrefix(lines[1], "squall demo: the members' logs are in ")
	if _, err := os.Stat(dir); !ok || err != nil {
		t.Fatalf("%q: %v", lines[1], err)
	}
}

func TestFlagsThatADurableDemoDoesNotTakeAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"demo --durable --chaos --seed 1":  "squall demo: --chaos does not go with --durable\nsquall demo: --seed does not go with --durable\n",
		"demo --durable --engine paper":    "squall demo: --engine \"paper\": use bolt or wal\n",
		"demo --durable --size 7":          "squall demo: --size 7: with --durable a message has at least 16 bytes; 0 leaves the lines as they are\n",
		"demo --durable --duration 0s":     "squall demo: --duration 0s: must be more than 0\n",
		"demo --engine wal":                "squall demo: --engine needs --durable\n",
		"demo --chaos --dir somewhere":     "squall demo: --dir needs --durable\n",
		"demo --durable --repeat 2":        "squall demo: --repeat does not go with --durable\n",
		"demo --durable --fail-after 200s": "squall demo: --fail-after does not go with --durable\n",
	} {
		if status, out, errs := inProcess(t, strings.Fields(args)...); status != 1 || out != "" || errs != want {
			t.Errorf("squall %s: status %d, %q, %q", args, status, out, errs)
		}
	}
}
