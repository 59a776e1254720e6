package topics

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

var short = spec{Fabric: "shm", SizeBytes: 100, Readers: 1, Level: atomic, Warmup: time.Millisecond, Duration: 400 * time.Millisecond}

// measured measures a spec with windows that become longer until a run is as expected: on a busy
// machine processes start late and do little.
func measured(t *testing.T, s spec, expected func(run) bool) {
	t.Helper()
	for ; ; s.Duration *= 3 {
		r, err := s.measure(t.Context())
		if err == nil && expected(r) {
			return
		}
		if short := err != nil && strings.Contains(err.Error(), "give a longer --duration"); err != nil && !short || s.Duration > 10*time.Second {
			t.Fatalf("in %v: %+v, %v", s.Duration, r, err)
		}
	}
}

func TestLoadsAreMeasured(t *testing.T) {
	for _, s := range []spec{
		short,
		short.with(func(s *spec) { s.Fabric, s.Copy, s.Readers = "tcp", true, 2 }),
		short.with(func(s *spec) { s.Codec, s.Topics = "xcdr", 3 }),
		short.with(func(s *spec) { s.Trips = true }),
		short.with(func(s *spec) { s.Level = unordered }),
		short.with(func(s *spec) { s.Level, s.Plain = transient, true }),
		short.with(func(s *spec) { s.Level, s.Dir, s.Duration = durable, t.TempDir(), time.Second }),
		short.with(func(s *spec) { s.Client, s.Copy = noClient, true }),
		short.with(func(s *spec) { s.Client, s.Copy = readerClient, true }),
		short.with(func(s *spec) { s.Client, s.Copy, s.Fabric = writerClient, true, "tcp" }),
		short.with(func(s *spec) { s.History, s.Duration = 1000, 3*time.Second }),
		short.with(func(s *spec) { s.Level, s.Dir, s.Duration = persistent, t.TempDir(), time.Second }),
	} {
		t.Run(s.name(), func(t *testing.T) {
			t.Parallel()
			measured(t, s, func(r run) bool {
				switch {
				case s.History > 0:
					return r.TookMs > 0 && r.GapMs > 0
				case s.Trips:
					return r.Rate > 0 && r.Latency.P50Us > 0
				}
				return r.Rate > 0
			})
		})
	}
}

func TestAllFaultsOfTheFlagsAreToldAtOnce(t *testing.T) {
	cmd := NewCommand()
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs([]string{"--size", "0", "--readers", "0", "--runs", "0", "--duration", "0s", "--fabric", "pigeons", "--only", "pigeons"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	for _, flag := range []string{"--size", "--readers", "--runs", "--duration", "--fabric", "--only"} {
		if err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("nothing about %s: %v", flag, err)
		}
	}
}

// fake is a ddsperf that prints what the real one does.
func fake(t *testing.T, lines string) ddsperf {
	path := filepath.Join(t.TempDir(), "ddsperf")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '"+strings.ReplaceAll(lines, "%", "%%")+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return ddsperf{path: path}
}

func TestWhatDdsperfPrintsIsRead(t *testing.T) {
	s := short.with(func(s *spec) { s.Readers = 2 })
	good := fake(t, `[1] participant vm:2: new
[1] 1.000  size 100 total 1000 lost 0 delta 1000 lost 0 rate 1.00 kS/s 64.08 Mb/s
[1] 2.000  rss:7.5MB vcsw:380 ivcsw:264
[1] 3.000  size 100 total 5000 lost 0 delta 2000 lost 0 rate 2.00 kS/s 64.08 Mb/s
[2] 2.001 vm:1 size 100 mean 24.1us min 7.0us 50% 12.5us 90% 17.4us 99% 84.4us max 69630.4us cnt 20257
[2] 3.001 vm:1 size 100 mean 24.1us min 7.0us 50% 11us 90% 17.4us 99% 84.4us max 69630.4us cnt 20257
`)
	if r, err := good.limit(s).Measure(t.Context()); err != nil || r.Rate != 2000 {
		t.Errorf("%+v, %v", r, err)
	}
	s.Trips = true
	if r, err := good.limit(s).Measure(t.Context()); err != nil || r.Latency.P50Us != 5.5 {
		t.Errorf("%+v, %v", r, err)
	}
	for lines, want := range map[string]string{
		"": "nothing",
		"[1] 1.000  size 100 total 1 lost 0\n[1] 1.000  size 100 total 5 lost 0\n": "one moment",
		"[1] 1.000  size 100 total 1 lost 0\n[1] 2.000  size 100 total 5 lost 3\n": "lost 3",
	} {
		if _, err := fake(t, lines).stream(t.Context(), 100, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", lines, err)
		}
	}
	if _, err := fake(t, "").trips(t.Context(), 100); err == nil || !strings.Contains(err.Error(), "no answers") {
		t.Errorf("no answers: %v", err)
	}
	if _, err := (ddsperf{}).limit(s).Measure(t.Context()); !errors.Is(err, bench.ErrAbsent) {
		t.Errorf("without the program: %v", err)
	}
}

func TestFigure18IsDrawn(t *testing.T) {
	dir := t.TempDir()
	o := options{base: short, figure: true, out: dir}
	o.base.Dir = dir
	r, err := bench.Measure(t.Context(), 1, o.figureSets(), nil, &bytes.Buffer{})
	if err == nil {
		err = o.drawFigure(&r)
	}
	var out bytes.Buffer
	if err = errors.Join(err, r.Print(&out, bench.Output{})); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "dds-figure-18.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range levels {
		if !strings.Contains(string(svg), string(l)) || !strings.Contains(out.String(), string(l)) && l != atomic {
			t.Errorf("nothing of %s in %s", l, out.String())
		}
	}
}
