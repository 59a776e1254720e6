package rdmc

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

func TestTheFormulaForOneSlowLink(t *testing.T) {
	for _, c := range []struct {
		nodes      int
		part, want float64
	}{{64, 0.5, 6.0 / 7}, {8, 0.5, 0.75}, {2, 0.5, 0.5}, {8, 1, 1}} {
		if got := keptOnSlowLink(c.nodes, c.part); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d nodes, a link at %v: %v, not %v", c.nodes, c.part, got, c.want)
		}
	}
}

func TestTheSlowLinkIsOneThatTheScheduleUses(t *testing.T) {
	for _, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Chain} {
		for n := 3; n <= 9; n++ {
			c := relayed(a, n, 1<<20, netlab.Mbit)
			from, to, err := c.slowLink()
			if err != nil || from < 1 || to <= from || to >= n {
				t.Errorf("%v, %d nodes: %d to %d, %v", a, n, from, to, err)
			}
		}
	}
	if _, _, err := relayed(schedule.Sequential, 4, 1<<20, netlab.Mbit).slowLink(); err == nil {
		t.Error("receivers pass nothing on in the sequential schedule")
	}
}

func TestARunIsFromTheFirstStartToTheLastEnd(t *testing.T) {
	c := relayed(schedule.Chain, 3, 1_000_000, 8*netlab.Mbit)
	c.BlockBytes = 10_000 // 10 ms
	at := time.UnixMilli
	r, err := c.summarize([]report{
		{Start: at(1000), CPU: time.Second, PeakBytes: 999},
		{Done: map[int]time.Time{0: at(2100)}, CPU: time.Second, PeakBytes: 7},
		{Done: map[int]time.Time{0: at(2200)}, CPU: 2 * time.Second, PeakBytes: 5},
	}, 5*time.Second)
	want := Run{Seconds: 1.2, Ideal: 1.2, Skew: 0.1, SkewBlocks: 10, CPUPerGB: 2000, BusyPerGB: 2500, PeakBytes: 7}
	if err != nil || math.Abs(r.SkewBlocks-want.SkewBlocks) > 1e-9 || r.Seconds != want.Seconds || r.Ideal != want.Ideal || r.CPUPerGB != want.CPUPerGB || r.BusyPerGB != want.BusyPerGB || r.PeakBytes != 7 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := c.summarize([]report{{}, {Done: map[int]time.Time{0: at(1)}}}, 0); err == nil {
		t.Error("a run that no member began is fine")
	}
}

func TestCasesOfTheSameHostsTakeTurns(t *testing.T) {
	var s set
	f := &fleet{}
	for range 2 {
		s.Add(f.of(plainTCP(3, 1, 0)), f.of(memoryCopy(2, 1)), f.of(relayed(schedule.Chain, 2, 1, netlab.Mbit)), f.of(plainTCP(2, 1, 0)))
	}
	var got string
	for _, s := range byHosts(s.Cases) {
		for _, c := range s.Cases {
			got += c.Name + "; "
		}
		got += "| "
	}
	if want := "a copy in memory, 2 nodes, 1 B; plain TCP, in turn, 2 nodes, 1 B; | chain, 2 nodes, 1 B, 1mbit; | plain TCP, in turn, 3 nodes, 1 B; | "; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

func TestALossIsOfTheRateAndTheFastestOtherOneCounts(t *testing.T) {
	took := func(seconds ...float64) (all []Series) {
		for _, s := range seconds {
			all = append(all, Series{Runs: []Run{{Seconds: s}}})
		}
		return all
	}
	if l, b := loss(took(3, 4)), againstBest(took(3, 4, 2, 6)); l != 0.25 || b != 1.5 {
		t.Error(l, b)
	}
}

func TestTheBarsCoverEverySizeOfGroup(t *testing.T) {
	o, err := parse(t, "--bars")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, r := range barSet(o).Bars {
		text.WriteString(r.What + "\n")
	}
	for _, want := range []string{
		"n = 2, auto: time", "n = 3, pipeline: time", "n = 16, auto: time", "n = 16, pipeline: skew", "n = 5, auto: a receiver's memory",
		"n = 8, auto: processor time", "1 MiB, n = 8", "8 MiB, n = 8", "one link", "8 groups", "256 MB", "copied from", "viewed in",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no bar about %q in\n%s", want, &text)
		}
	}
	if o, err = parse(t, "--bars", "--nodes", "4"); err != nil || len(barSet(o).Cases) != 7 {
		t.Errorf("of 4 nodes there are %d cases, %v", len(barSet(o).Cases), err)
	}
}

func TestContentThatDiffersIsFound(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 1000} {
		b := make([]byte, size)
		fill(b, 5)
		if err := check(b, 5); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] ^= 1
			if err := check(b, 5); !errors.Is(err, errContent) {
				t.Errorf("byte %d of %d: %v", i, size, err)
			}
			b[i] ^= 1
		}
	}
	if first, second := make([]byte, 64), make([]byte, 64); true {
		fill(first, 1)
		fill(second, 2)
		if string(first) == string(second) {
			t.Error("two messages are the same")
		}
	}
}
