package messages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func TestEveryCaseOfABarCanBeMeasured(t *testing.T) {
	for _, others := range []bench.Peers{{}, {Path: "peers"}} {
		for _, set := range append(barSets(DefaultSpec(), others), foreignBars(DefaultSpec(), others), foreignLatencyBars(DefaultSpec())) {
			for _, c := range set.Cases {
				if c.Spec != nil {
					if err := c.Spec.(*Spec).Validate(); err != nil {
						t.Errorf("%s: %v", c.Name, err)
					}
				}
			}
		}
	}
}

func TestTheJudgeOfFanOutIsTheHarnessOrElseThisPackage(t *testing.T) {
	for path, want := range map[string]string{"": "fan-out, 10 KiB", "peers": "tcp-fanout, 10 KiB"} {
		judged := ""
		for _, b := range streamBars(DefaultSpec(), bench.Peers{Path: path}, 10<<10).Bars {
			if len(b.Limits) == 1 && strings.Contains(b.Limits[0].Name, "fan") && b.AtLeast > 0 {
				judged += b.Figure.Name + " by " + b.Limits[0].Name + "; "
				if said := strings.HasSuffix(b.What, ownFanout); said != (path == "") {
					t.Errorf("with %q: the row reads %q", path, b.What)
				}
			}
		}
		if judged != "shm, 10 KiB by "+want+"; tcp, 10 KiB by "+want+"; " {
			t.Errorf("with %q: %s", path, judged)
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
