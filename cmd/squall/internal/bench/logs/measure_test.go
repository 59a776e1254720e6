package logs

import (
	"errors"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/persist"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
)

func TestAMeterKnowsHowManyMessagesLieBeforeAVersion(t *testing.T) {
	m := &meter{}
	at := func(view squall.ViewID, seq squall.Seq) squall.Version { return squall.Version{View: view, Seq: seq} }
	run := func(view squall.ViewID, seqs ...squall.Seq) {
		var messages []squall.Message
		for _, seq := range seqs {
			messages = append(messages, squall.Message{View: view, Seq: seq})
		}
		m.deliver(messages)
	}
	if n := m.before(at(9, 9)); n != 0 {
		t.Errorf("%d of none", n)
	}
	run(1, 0, 1, 4)
	run(1, 5)
	run(2, 0, 7)
	for _, c := range []struct {
		before squall.Version
		want   uint64
	}{{at(1, 0), 0}, {at(1, 4), 0}, {at(1, 5), 3}, {at(1, 6), 4}, {at(2, 0), 4}, {at(2, 7), 4}, {at(2, 8), 6}, {at(2, 8), 6}} {
		if n := m.before(c.before); n != c.want {
			t.Errorf("%d before %v, not %d", n, c.before, c.want)
		}
	}
	run(2, 8)
	if n := m.before(at(3, 0)); n != 7 || m.delivered() != 7 {
		t.Errorf("%d of %d", n, m.delivered())
	}
}

// logOf returns a directory with a log of some records.
func logOf(t *testing.T, data ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	err := withLog(t.Context(), dir, Spec{Engine: "wal"}, func(l *logUnderTest) error {
		for i, d := range data {
			l.log.Append(&persist.Record{Version: version(i), Time: squall.Time(i + 1), Sender: 1, Data: []byte(d)})
		}
		return l.log.Sync(t.Context())
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLogsThatDifferFailTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		other []string
		sent  uint64
		want  error
	}{
		"the same":      {[]string{"a", "b"}, 2, nil},
		"another order": {[]string{"b", "a"}, 2, errDiffer},
		"one is short":  {[]string{"a"}, 2, errCount},
		"too few":       {[]string{"a", "b"}, 3, errCount},
	} {
		if err := compare(t.Context(), []string{logOf(t, "a", "b"), logOf(t, c.other...)}, c.sent); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheSlowestMemberCounts(t *testing.T) {
	s := Spec{SizeBytes: 1000}
	r := s.summarize([]*Sample{
		{Delivered: []uint64{400}, Persisted: 300, Usage: bench.Usage{Elapsed: time.Second, CPU: time.Second / 2}},
		{Delivered: []uint64{350}, Persisted: 200, Usage: bench.Usage{Elapsed: 2 * time.Second, CPU: time.Second}},
	}, 1.5)
	if r.Rate != 100 || r.Delivered != 175 || r.BytesRate != 100_000 || r.Cores != 1 || r.CPUPerMsg != 10_000 || r.Foreign != 0.5 {
		t.Errorf("%+v", r)
	}
}

func TestTheProcessThatWaitsLongestCounts(t *testing.T) {
	of := func(p50, p99 float64) *Sample {
		return &Sample{Latency: bench.Latency{Count: 1, P50Us: p50, P99Us: p99}}
	}
	if l := slowestLatency([]*Sample{of(1, 9), of(3, 4), of(2, 8)}); l.P50Us != 3 || l.P99Us != 4 {
		t.Errorf("%+v", l)
	}
}

func TestARunSettlesWhenEveryDiskHasWhatAllSent(t *testing.T) {
	if n, settled := sum([]State{{1, 3, 3}, {2, 3, 3}}); n != 3 || !settled {
		t.Error(n, settled)
	}
	for _, behind := range []State{{2, 2, 2}, {2, 3, 2}} {
		if _, settled := sum([]State{{1, 3, 3}, behind}); settled {
			t.Errorf("%+v", behind)
		}
	}
}

func TestAMemberThatEndsEndsTheRun(t *testing.T) {
	s := defaultSpec()
	s.Dir, s.Nodes = disk(t), 2
	var ended error
	err := withFleet(t.Context(), job{Spec: s, Kind: memberKind}, s.Nodes, func(f *bench.Fleet) error {
		f.Children()[1].Kill()
		<-f.Children()[1].Done()
		_, _, ended = s.sample(f, opStream, []string{logged})
		return nil
	})
	if exit := (*proc.Exit)(nil); !errors.As(ended, &exit) || exit.ID != 2 {
		t.Errorf("%v: %v", err, ended)
	}
}
