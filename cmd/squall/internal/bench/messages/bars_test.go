package messages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func TestEveryBarIsAboutCasesOfItsSetThatCanBeMeasured(t *testing.T) {
	for _, others := range []bench.Peers{{}, {Path: "peers"}} {
		t.Run("peers="+others.Path, func(t *testing.T) { checkBarSets(t, barSets(DefaultSpec(), others)) })
		t.Run("foreign, peers="+others.Path, func(t *testing.T) {
			checkBarSets(t, []set{foreignBars(DefaultSpec(), others), foreignLatencyBars(DefaultSpec())})
		})
	}
}

func checkBarSets(t *testing.T, sets []set) {
	names := map[string]bool{}
	for _, set := range sets {
		for _, c := range set.Cases {
			if names[c.Name] && c.Name != "shm" && c.Name != "tcp" {
				t.Errorf("%q is measured twice", c.Name)
			}
			names[c.Name] = true
			if c.Spec != nil {
				if err := c.Spec.(*Spec).Validate(); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
		has := func(name string) bool {
			for _, c := range set.Cases {
				if c.Name == name {
					return true
				}
			}
			return false
		}
		for _, b := range set.Bars {
			if !has(b.Figure) || slices.ContainsFunc(b.Limits, func(name string) bool { return !has(name) }) {
				t.Errorf("%s: %q or %q is not measured", b.What, b.Figure, b.Limits)
			}
		}
	}
}

func TestTheJudgeOfFanOutIsTheHarnessOrElseThisPackage(t *testing.T) {
	for path, want := range map[string]string{"": "fan-out, 10 KiB", "peers": "tcp-fanout, 10 KiB"} {
		set := streamBars(DefaultSpec(), bench.Peers{Path: path}, 10<<10)
		judged := map[string]string{}
		for _, b := range set.Bars {
			if len(b.Limits) == 1 && strings.Contains(b.Limits[0], "fan") && b.AtLeast > 0 {
				judged[b.Figure] += b.Limits[0]
				if said := strings.HasSuffix(b.What, ownFanout); said != (path == "") {
					t.Errorf("with %q: the row reads %q", path, b.What)
				}
			}
		}
		if len(judged) != 2 || judged["shm"] != want || judged["tcp"] != want {
			t.Errorf("with %q: %v, not %s", path, judged, want)
		}
	}
}

func TestAnotherProgramIsAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho \"$@\" >> " + path + ".asked\necho '{\"msgs_per_s\": 5, \"p50_us\": 7, \"ok\": true}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Case{throughputOf(bench.Peers{Path: path}, "etcd-raft", 100, time.Second), latencyOfPeer(bench.Peers{Path: path}, "etcd-raft", 100, time.Second)} {
		if run, err := c.Measure(t.Context()); err != nil || run.Rate != 5 || run.Latency.P50Us != 7 {
			t.Fatal(run, err)
		}
	}
	asked, err := os.ReadFile(path + ".asked")
	const want = "-peer etcd-raft -size 100 -proposers 3 -mode volatile -secs 1 -lat 0 -json\n-peer etcd-raft -size 100 -proposers 1 -mode volatile -secs 0.2 -lat 1 -json\n"
	if err != nil || string(asked) != want {
		t.Errorf("%v: %s", err, asked)
	}
}
