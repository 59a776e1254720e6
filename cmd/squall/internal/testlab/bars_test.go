//go:build system && unix

package testlab

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
)

var measureBars = flag.Bool("bars", false, "measure how long deliveries stand still when the membership changes")

// barRuns is how often each is measured.
const barRuns = 20

// bar is how long the longest gap between two deliveries at a member may be, when something happens
// to another one.
type bar struct {
	name    string
	happens func(lab *Cluster, members []*Process) (watched []*Process, err error)
	limit   time.Duration // of the median; 0: FailAfter + 100 ms
	runs    int
}

var bars = []bar{
	{name: "kill -9 of rank 0", limit: 50 * time.Millisecond, runs: barRuns, happens: kill(0)},
	{name: "kill -9 of rank 2", limit: 50 * time.Millisecond, runs: barRuns, happens: kill(2)},
	{name: "a fourth one joins", limit: 50 * time.Millisecond, runs: barRuns, happens: func(lab *Cluster, members []*Process) ([]*Process, error) {
		p, err := lab.Join(4)
		if err != nil {
			return nil, err
		}
		return members, await(append(slices.Clone(members), p), members)
	}},
	{name: "rank 2 leaves", limit: 50 * time.Millisecond, runs: barRuns, happens: func(_ *Cluster, members []*Process) ([]*Process, error) {
		return members[:2], errors.Join(members[2].Leave(), await(members[:2], members[:2]))
	}},
	{name: "SIGSTOP of rank 2", runs: 3, happens: stop(2)},
	{name: "SIGSTOP of rank 0", runs: 3, happens: stop(0)},
}

func kill(victim int) func(*Cluster, []*Process) ([]*Process, error) {
	return func(_ *Cluster, members []*Process) ([]*Process, error) {
		rest := slices.Delete(slices.Clone(members), victim, victim+1)
		members[victim].Kill()
		return rest, await(rest, rest)
	}
}

func stop(victim int) func(*Cluster, []*Process) ([]*Process, error) {
	return func(_ *Cluster, members []*Process) ([]*Process, error) {
		rest := slices.Delete(slices.Clone(members), victim, victim+1)
		err := errors.Join(members[victim].Stop(), await(rest, rest))
		return rest, err
	}
}

// await waits until all of some are in a view of these, and go on delivering in it.
func await(view, some []*Process) error {
	var errs []error
	for _, p := range some {
		errs = append(errs, p.AwaitView(ids(view)...), p.awaitProgress(messagesBefore))
	}
	return errors.Join(errs...)
}

// The table of bars: go test -tags system ./internal/testlab -run Bars -v -args -bars
func TestBars(t *testing.T) {
	if !*measureBars {
		t.Skip("measures time; runs with -args -bars, on a machine that does nothing else")
	}
	t.Log("BAR | what happens | fabric | runs | ms, p50 before it | least | p50 | longest | bar |")
	for _, b := range bars {
		for _, f := range fabrics[:2] {
			t.Run(fmt.Sprintf("%s/fabric=%s", b.name, f.name), func(t *testing.T) {
				var calm, gaps []time.Duration
				for range b.runs {
					before, gap := b.measure(t, f.of)
					calm, gaps = append(calm, before), append(gaps, gap)
				}
				slices.Sort(gaps)
				slices.Sort(calm)
				limit, p50 := b.limit, gaps[len(gaps)/2]
				if limit == 0 {
					limit, p50 = DefaultFailAfter+100*time.Millisecond, gaps[len(gaps)-1]
				}
				ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }
				t.Logf("BAR | %s | %s | %d | %s | %s | %s | %s | < %s |", b.name, f.name, b.runs, ms(calm[len(calm)/2]),
					ms(gaps[0]), ms(gaps[len(gaps)/2]), ms(gaps[len(gaps)-1]), ms(limit))
				if p50 >= limit {
					t.Errorf("the gap is %v, the bar %v", p50, limit)
				}
			})
		}
	}
}

// measure returns the longest gaps at any of the members that are watched: in a while before it
// happens, and when it does.
func (b *bar) measure(t *testing.T, fabric func(squall.NodeID) squall.Fabric) (calm, gap time.Duration) {
	t.Helper()
	lab := NewCluster(t, Options{Fabric: fabric})
	defer lab.cleanUp()
	members := lab.Form(3)
	slices.SortFunc(members, byRank(members[0].View()))
	lab.AwaitProgress(messagesBefore, members...)
	lab.Each(members, (*Process).Mark)
	lab.AwaitProgress(10*messagesBefore, members...)
	calm = longest(t, members)
	lab.Each(members, (*Process).Mark)
	watched, err := b.happens(lab, members)
	lab.must(err)
	return calm, longest(t, watched)
}

// byRank compares processes by their places in a view.
func byRank(v *Installed) func(a, b *Process) int {
	rank := func(p *Process) int {
		return slices.IndexFunc(v.Members, func(m Incarnation) bool { return m.ID == p.ID() })
	}
	return func(a, b *Process) int { return rank(a) - rank(b) }
}

func longest(t *testing.T, of []*Process) (gap time.Duration) {
	t.Helper()
	for _, p := range of {
		a, err := p.Status()
		if err != nil {
			t.Fatal(err)
		}
		gap = max(gap, a.Gap)
	}
	return gap
}
