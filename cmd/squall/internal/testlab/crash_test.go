//go:build system && unix

package testlab

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/internal/testutil"
)

var (
	crashRounds = flag.Int("crashes", 0, "measure how long deliveries stand still when a process crashes while it joins: so many rounds")
	crashSeed   = flag.Uint64("crash-seed", 0, "of the moments at which it crashes; 0 is a new one")
)

// A supervised process, at one address, crashes again and again while it becomes a member or right
// after, and is started again.
type crasher struct {
	t    *testing.T
	lab  *Cluster
	rest []*Process
	addr string
	dice *rand.Rand
	open time.Duration // how long the last one that got in took
}

func newCrasher(t *testing.T, fabric func(squall.NodeID) squall.Fabric, seed uint64) *crasher {
	t.Helper()
	t.Logf("again with: -args -crash-seed %d", seed)
	c := &crasher{t: t, lab: NewCluster(t, Options{Fabric: fabric, FailAfter: 2 * time.Second}), dice: rand.New(rand.NewPCG(seed, 0)), open: 20 * time.Millisecond}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	c.lab.must(err)
	c.addr = l.Addr().String()
	c.lab.must(l.Close())
	c.rest = c.lab.Form(3)
	c.lab.AwaitProgress(messagesBefore, c.rest...)
	return c
}

// moment draws when the next process crashes: a third right as it is in, a third within 50 ms after
// that, and a third on the way there.
func (c *crasher) moment() Crash {
	switch c.dice.IntN(3) {
	case 0:
		return Crash{Planned: true, Open: true}
	case 1:
		return Crash{Planned: true, Open: true, After: time.Duration(1 + c.dice.Int64N(int64(50*time.Millisecond)))}
	}
	return Crash{Planned: true, After: time.Duration(1 + c.dice.Int64N(int64(c.open+c.open/4)))}
}

// round has one process crash, and returns the longest gap between two deliveries at the others.
func (c *crasher) round(when Crash) time.Duration {
	c.t.Helper()
	c.lab.adjust = func(s *Spec) { s.Listen, s.Crash = c.addr, when }
	defer func() { c.lab.adjust = nil }()
	c.lab.Each(c.rest, (*Process).Mark)
	start := time.Now()
	p, err := c.lab.Begin(4)
	c.lab.must(err)
	if when.Open && p.await("to be in the group", openTime, func() bool { return p.open }) == nil {
		c.open = time.Since(start)
	}
	<-p.ended
	p.Kill() // notes that its log has no end
	c.lab.AwaitView(c.rest...)
	c.lab.AwaitProgress(4*messagesBefore, c.rest...)
	return longest(c.t, c.rest)
}

func TestAProcessThatCrashesAsItJoinsHoldsUpNobody(t *testing.T) {
	rounds, seed := *crashRounds, *crashSeed
	if rounds == 0 {
		rounds = 4
	}
	if seed == 0 {
		seed = testutil.Seed(t)
	}
	if *crashRounds > 0 {
		t.Log("BAR | fabric | runs | ms, p50 | p99 | longest |")
	}
	for _, f := range fabrics[:2] {
		t.Run(fmt.Sprintf("fabric=%s", f.name), func(t *testing.T) {
			c := newCrasher(t, f.of, seed)
			var gaps []time.Duration
			for i := range rounds {
				when := c.moment()
				if i == 0 {
					when = Crash{Planned: true, Open: true}
				}
				gap := c.round(when)
				if gap > c.lab.opts.FailAfter { // the crowded machine explains less than that, silence of a member explains as much
					t.Errorf("crash %+v: no delivery for %v", when, gap)
				} else if gap > 100*time.Millisecond {
					t.Logf("crash %+v: no delivery for %v", when, gap)
				}
				gaps = append(gaps, gap)
			}
			if *crashRounds > 0 {
				slices.Sort(gaps)
				ms := func(part float64) string {
					return fmt.Sprintf("%.1f", gaps[int(part*float64(len(gaps)-1))].Seconds()*1e3)
				}
				t.Logf("BAR | %s | %d | %s | %s | %s |", f.name, rounds, ms(0.5), ms(0.99), ms(1))
				if p99 := gaps[int(0.99*float64(len(gaps)-1))]; p99 > 100*time.Millisecond {
					t.Errorf("p99 is %v", p99)
				}
			}
			c.lab.Finish()
		})
	}
}
