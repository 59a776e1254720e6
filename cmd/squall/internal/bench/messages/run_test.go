package messages

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/internal/proc"
)

// tiny is a spec that takes no time to speak of.
func tiny(change func(*Spec)) Spec {
	return DefaultSpec().with(func(s *Spec) {
		s.Warmup, s.Duration = 10*time.Millisecond, 100*time.Millisecond
		change(s)
	})
}

// measured measures a spec with windows, and times before them, that become longer, until a run is
// as expected: on a busy machine processes start late and do little.
func measured(t *testing.T, s Spec, expected func(Run) bool) Run {
	t.Helper()
	for ; ; s.Warmup, s.Duration = 3*s.Warmup, 3*s.Duration {
		run, err := Measure(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if expected(run) {
			return run
		}
		if s.Duration > 10*time.Second {
			t.Fatalf("in %v: %+v", s.Duration, run)
		}
	}
}

// takesItsTime leaves a test out of the short ones: starting processes takes a second or so under
// the race detector.
func takesItsTime(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; the short tests have others that do")
	}
}

func TestEveryWorkloadIsMeasuredAndItsDigestsAgree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Spec)
	}{
		{"shm", func(s *Spec) { s.Fabric = "shm" }},
		{"tcp", func(s *Spec) { s.Fabric = "tcp" }},
		{"auto, small", func(s *Spec) { s.SizeBytes = 100 }},
		{"empty messages", func(s *Spec) { s.SizeBytes = 0 }},
		{"one sender", func(s *Spec) { s.Senders = One }},
		{"subgroups", func(s *Spec) { s.Subgroups = 5 }},
		{"copied", func(s *Spec) { s.Copy = true }},
		{"unordered", func(s *Spec) { s.Unordered = true }},
		{"batches", func(s *Spec) { s.SizeBytes, s.SendBatch = 100, 64 }},
		{"silent sender", func(s *Spec) { s.Delays = map[int]time.Duration{2: Forever} }},
		{"slow sender", func(s *Spec) { s.Delays = map[int]time.Duration{2: time.Millisecond} }},
		{"no batching, no nulls", func(s *Spec) { s.Batching, s.Nulls = Batching{}, false }},
		{"small window", func(s *Spec) { s.Window, s.RingBytes = 4, 64<<10 }},
		{"fan-out", func(s *Spec) { s.Kind = Fanout }},
		{"batched fan-out", func(s *Spec) { s.Kind = Batched }},
		{"batched fan-out of messages longer than a batch", func(s *Spec) { s.Kind, s.SizeBytes = Batched, 200<<10 }},
		{"memory", func(s *Spec) { s.Kind = Memory }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != "auto, small" && c.name != "fan-out" {
				takesItsTime(t)
			}
			measured(t, tiny(c.change), func(r Run) bool { return r.Rate > 0 })
		})
	}
}

func TestALinkLimitsMembersOnHostsOfTheirOwn(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	for _, kind := range []Kind{Squall, Batched} {
		s := tiny(func(s *Spec) { s.Kind, s.Fabric, s.SizeBytes, s.Link = kind, "tcp", 1000, 20*netlab.Mbit })
		if _, err := Measure(t.Context(), s); errors.Is(err, netlab.ErrUnavailable) {
			t.Skip(err)
		}
		run := measured(t, s, func(r Run) bool { return r.Rate > 0 && s.linkShare(r) < 1.05 }) // a bucket is full at first
		t.Logf("%s: %.2f of the link", kind, s.linkShare(run))
	}
}

func TestLatencyIsMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Spec)
	}{
		{"upcall", func(s *Spec) { s.Load = FromUpcall }},
		{"goroutine", func(s *Spec) { s.Load = FromThread }},
		{"round trip", func(s *Spec) { *s = *roundTripOf(*s).Spec.(*Spec) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.name != "upcall" {
				takesItsTime(t)
			}
			run := measured(t, tiny(func(s *Spec) { s.SizeBytes = 100; c.change(s) }), func(r Run) bool { return r.Latency.Count > 0 })
			if l := run.Latency; l.P50Us <= 0 || l.P99Us < l.P50Us {
				t.Fatalf("%+v", run)
			}
		})
	}
}

func TestALatencyIsTakenUnderLoadToo(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	run := measured(t, tiny(func(*Spec) {}), func(r Run) bool { return r.Loaded.Count > 0 })
	if run.Loaded.P50Us <= 0 {
		t.Fatalf("%+v", run.Loaded)
	}
}

func TestAnIdleGroupDeliversNothing(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	run, err := Measure(t.Context(), tiny(func(s *Spec) { s.Load = Idle }))
	if err != nil || run.Rate != 0 {
		t.Fatalf("%+v, %v", run, err)
	}
}

func TestWithoutNullsASilentSenderStopsTheOrderAndNotTheRun(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	spec := tiny(func(s *Spec) { s.Nulls, s.Delays = false, map[int]time.Duration{3: Forever} })
	// The first message of each sender is delivered, and that may be late: within the window.
	measured(t, spec, func(r Run) bool { return r.Rate == 0 })
}

func TestASilentSenderSendsNothing(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	run := measured(t, tiny(func(s *Spec) { s.Delays = map[int]time.Duration{3: Forever} }), func(r Run) bool { return r.BySender[0] > 0 })
	if run.BySender[2] != 0 {
		t.Fatalf("%+v", run)
	}
}

func TestAMemberThatDiesIsNamed(t *testing.T) {
	t.Parallel()
	takesItsTime(t)
	for _, kind := range []Kind{Squall, Memory} {
		err := tiny(func(s *Spec) { s.Kind = kind }).start(t.Context(), func(f *bench.Fleet) error {
			f.Children()[1].Kill()
			_, _, err := bench.Sampled[Sample](f, bench.Request{Op: opRun}, 0, 5*time.Second)
			return err
		})
		var exit *proc.Exit
		if !errors.As(err, &exit) || exit.ID != 2 || !strings.Contains(err.Error(), "member 2 (pid ") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestTheEndOfTheContextEndsARun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Measure(ctx, tiny(func(s *Spec) { s.Duration = time.Minute }))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestTheSlowestMemberCounts(t *testing.T) {
	s := DefaultSpec().with(func(s *Spec) { s.Nodes, s.SizeBytes = 2, 10 })
	r := s.summarize([]Sample{
		{Usage: bench.Usage{Elapsed: time.Second, CPU: time.Second, Mallocs: 60}, Delivered: []uint64{70, 30}},
		{Usage: bench.Usage{Elapsed: 2 * time.Second, CPU: time.Second}, Delivered: []uint64{100, 20}},
	})
	if r.Rate != 60 || r.BySender[0] != 50 || r.TotalRate != 160 || r.BytesRate != 600 || r.Allocs != 0.5 || r.CPUPercent != 100 {
		t.Fatalf("%+v", r)
	}
}
