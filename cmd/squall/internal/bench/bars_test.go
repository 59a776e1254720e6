package bench

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

func TestEveryBarIsAboutCasesOfItsSetThatCanBeMeasured(t *testing.T) {
	for _, others := range []rival{{}, {"peers"}} {
		t.Run("peers="+others.path, func(t *testing.T) { checkBarSets(t, barSets(DefaultSpec(), others)) })
		t.Run("foreign, peers="+others.path, func(t *testing.T) { checkBarSets(t, []barSet{foreignBars(DefaultSpec(), others)}) })
	}
}

func checkBarSets(t *testing.T, sets []barSet) {
	names := map[string]bool{}
	for _, set := range sets {
		for _, c := range set.cases {
			if names[c.Name] && c.Name != "shm" && c.Name != "tcp" {
				t.Errorf("%q is measured twice", c.Name)
			}
			names[c.Name] = true
			if c.Spec != nil {
				if err := c.Spec.Validate(); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
			}
		}
		has := func(name string) bool {
			for _, c := range set.cases {
				if c.Name == name {
					return true
				}
			}
			return false
		}
		for _, b := range set.bars {
			if !has(b.figure) || b.limit != "" && !has(b.limit) {
				t.Errorf("%s: %q or %q is not measured", b.what, b.figure, b.limit)
			}
		}
	}
}

func TestTheJudgeOfFanOutIsTheHarnessOrElseThisPackage(t *testing.T) {
	for path, want := range map[string]string{"": "fan-out, 10 KiB", "peers": "tcp-fanout, 10 KiB"} {
		set := streamBars(DefaultSpec(), rival{path}, 10<<10)
		judged := map[string]string{}
		for _, b := range set.bars {
			if strings.Contains(b.limit, "fan") && b.atLeast > 0 {
				judged[b.figure] += b.limit
				if said := strings.HasSuffix(b.what, ownFanout); said != (path == "") {
					t.Errorf("with %q: the row reads %q", path, b.what)
				}
			}
		}
		if len(judged) != 2 || judged["shm"] != want || judged["tcp"] != want {
			t.Errorf("with %q: %v, not %s", path, judged, want)
		}
	}
}

func TestBarsAreJudged(t *testing.T) {
	fast, slow := Series{Runs: []Run{{Rate: 12, Allocs: 0.0001}}}, Series{Runs: []Run{{Rate: 1, Allocs: 1}}}
	series := map[string]Series{"fast": fast, "slow": slow, "absent": {Err: errNoRival}}
	for _, c := range []struct {
		bar  bar
		want string
	}{
		{bar{figure: "fast", limit: "slow", of: rateOf, atLeast: 9}, "ok"},
		{bar{figure: "slow", limit: "fast", of: rateOf, atLeast: 9}, "missed"},
		{bar{figure: "slow", limit: "fast", of: rateOf, atMost: 0.5}, "ok"},
		{bar{figure: "fast", limit: "slow", of: rateOf, atMost: 0.5}, "missed"},
		{bar{figure: "slow", of: rateOf, atMost: 1}, "missed"}, // under, not at most
		{bar{figure: "fast", of: allocsOf, none: true}, "ok"},
		{bar{figure: "slow", of: allocsOf, none: true}, "missed"},
		{bar{figure: "fast", limit: "slow", of: rateOf}, "–"},
		{bar{figure: "fast", limit: "absent", of: rateOf, atLeast: 9}, errNoRival.Error()},
	} {
		if got := c.bar.row(series).Verdict; got != c.want {
			t.Errorf("%+v: %q, not %q", c.bar, got, c.want)
		}
	}
}

func TestTheTableIsMarkdown(t *testing.T) {
	var out bytes.Buffer
	b := bar{what: "shm", unit: "msgs/s", figure: "a", limit: "b", of: rateOf, atLeast: 9}
	row := b.row(map[string]Series{"a": {Runs: []Run{{Rate: 20}}}, "b": {Runs: []Run{{Rate: 2}}}})
	Report{Rows: []figures.Row{row}}.writeMarkdown(&out)
	if want := "| shm | 20.0 msgs/s (20.0 – 20.0) | b: 2.00 (2.00 – 2.00) | 10.0 (10.0 – 10.0) | at least 9.00 | ok |"; !strings.Contains(out.String(), want) {
		t.Errorf("nothing of %s in\n%s", want, &out)
	}
}

func TestAnotherProgramIsAskedAndUnderstood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho ignored\necho '{\"msgs_per_s\": 5, \"p50_us\": 7, \"ok\": true, \"note\": \"'\"$*\"'\"}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	run, err := rival{path}.throughput("etcd-raft", 100, time.Second).run(t.Context())
	if err != nil || run.Rate != 5 || run.Latency.P50Us != 7 {
		t.Fatal(run, err)
	}
	if _, err := (rival{}).latency("etcd-raft", 100, time.Second).run(t.Context()); !errors.Is(err, errNoRival) {
		t.Error(err)
	}
	if _, err := parseRival([]byte(`{"ok": false, "note": "lost the leader"}`)); err == nil || !strings.Contains(err.Error(), "lost the leader") {
		t.Error(err)
	}
	if _, err := parseRival([]byte("panic")); err == nil {
		t.Error("nonsense is understood")
	}
}
