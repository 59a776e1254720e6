package objects

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

var short = spec{Fabric: "shm", SizeBytes: 100, Clients: 8, Processes: 2, Warmup: time.Millisecond, Duration: 400 * time.Millisecond}

// measured measures a spec with windows that become longer until a run is as expected: on a busy
// machine processes start late and do little.
func measured(t *testing.T, s spec, expected func(run) bool) run {
	t.Helper()
	for ; ; s.Duration *= 3 {
		r, err := s.measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if expected(r) {
			return r
		}
		if s.Duration > 10*time.Second {
			t.Fatalf("in %v: %+v", s.Duration, r)
		}
	}
}

func TestLoadsAreMeasured(t *testing.T) {
	for _, s := range []spec{
		short.with(func(s *spec) { s.Load = sends }),
		short.with(func(s *spec) { s.Load = cborLoad }),
		short.with(func(s *spec) { s.Load, s.Fabric = readOne, "tcp" }),
		short.with(func(s *spec) { s.Load, s.Dials = puts, 2 }),
		short.with(func(s *spec) { s.Load, s.Durable, s.Dir, s.Duration = puts, true, t.TempDir(), time.Second }),
		short.with(func(s *spec) { s.Load, s.Fabric = gets, "tcp" }),
	} {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			r := measured(t, s, func(r run) bool { return r.Rate > 0 && r.Mean > 0 })
			if under := r.Mean * r.Rate / 1e6; s.Load == readOne && (under < 0.99 || under > 1.01) {
				t.Errorf("one call at a time: %g are in flight, by a mean of %g us and a rate of %g/s", under, r.Mean, r.Rate)
			}
		})
	}
}

func TestAMemberIsKilledAndNothingIsLost(t *testing.T) {
	s := short.with(func(s *spec) { s.Load, s.Dials, s.Duration = deposits, 2, 500*time.Millisecond })
	for ; ; s.Duration *= 3 { // until there are replies before and after the kill
		r, err := s.measureKills(t.Context(), 1)
		if err != nil || r.Wrong != 0 || s.Duration > 10*time.Second {
			t.Fatalf("in %v: %+v, %v", s.Duration, r, err)
		}
		if r.Gap > 0 && r.Rate > 0 {
			return
		}
	}
}

func TestRoundTripsOfSocketsAreALimitOfReads(t *testing.T) {
	var set bench.Set[run]
	o := options{base: short, trip: func(_ context.Context, network string, _ int, _, _ time.Duration) (float64, error) {
		return float64(len(network)), nil
	}}
	o.readBars(&set)
	if r, err := set.Bars[0].Limits[0].Measure(t.Context()); err != nil || r.Mean != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAllFaultsOfTheFlagsAreToldAtOnce(t *testing.T) {
	cmd := NewCommand(nil)
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs([]string{"--size", "0", "--clients", "7", "--runs", "0", "--kills", "0", "--duration", "0s", "--only", "pigeons"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	for _, flag := range []string{"--size", "--clients", "--runs", "--kills", "--duration", "--only"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s: %v", flag, err)
		}
	}
}

func TestOtherSystemsAreMeasuredByAnotherProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peers")
	script := "#!/bin/sh\necho \"$@\" >> " + path + ".asked\necho '{\"msgs_per_s\": 5, \"p50_us\": 7, \"ok\": true}'\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := options{base: short.with(func(s *spec) { s.Duration, s.Dir = time.Second, "/data" }), peers: path, etcd: "/etcd"}
	for _, section := range []string{"memory", "disk", "gets", "etcd"} {
		for _, c := range o.suite().Set(section).Cases {
			if c.Spec != nil {
				continue
			}
			if r, err := c.Measure(t.Context()); err != nil || r.Rate != 5 || r.Mean != 7 {
				t.Errorf("%s: %v, %v", c.Name, r, err)
			}
		}
	}
	asked, err := os.ReadFile(path + ".asked")
	line := func(system, place, load, clients string) string {
		text := "-system " + system + " -place " + place + " -load " + load + " -clients " + clients + " -size 100 -dir /data -secs 1"
		if system == "squall" {
			text += " -program /etcd"
		}
		return text + " -json\n"
	}
	want := line("etcd", "memory", "puts", "8") + line("redis", "tcp", "puts", "8") + line("redis", "unix", "puts", "8") +
		line("etcd", "disk", "puts", "8") + line("jetstream", "disk", "puts", "8") + line("etcd", "memory", "linearizable gets", "8")
	for _, x := range [][2]string{{"puts", "1"}, {"puts", "8"}, {"puts", "1000"}, {"linearizable gets", "8"}, {"events", "100"}} {
		want += line("squall", "disk", x[0], x[1]) + line("etcd", "disk", x[0], x[1])
	}
	if err != nil || string(asked) != want {
		t.Errorf("%v: %s", err, asked)
	}
}
