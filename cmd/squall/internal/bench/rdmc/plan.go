package rdmc

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Series is a case with its runs.
type Series = bench.Series[Run]

// plan is what a command measures, and what follows from it.
type plan struct {
	cases []Case
	bars  bench.Set[Run]
}

// add adds a case, once, and returns its name.
func (p *plan) add(c Case) string {
	name := c.name()
	if !slices.ContainsFunc(p.cases, func(have Case) bool { return have.name() == name }) {
		p.cases = append(p.cases, c)
	}
	return name
}

// expect adds a figure of some cases.
func (p *plan) expect(what string, asked bench.Asked, figure func(s []Series) float64, of ...string) {
	p.bars.Judge(bench.Bar[Run]{What: what, Figure: of[0], Limits: of[1:], Derive: figure, Asked: asked})
}

// sets are the cases, in one set for all that run on the same hosts.
func (p *plan) sets(f *fleet) (sets []bench.Set[Run]) {
	at := map[[2]int]int{}
	slices.SortStableFunc(p.cases, func(a, b Case) int { return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Rate, b.Rate)) })
	for _, c := range p.cases {
		hosts := [2]int{c.Nodes, int(c.Rate)}
		if _, ok := at[hosts]; !ok {
			at[hosts] = len(sets)
			sets = append(sets, bench.Set[Run]{})
		}
		sets[at[hosts]].Add(bench.Case[Run]{Name: c.name(), Spec: c, Measure: func(ctx context.Context) (Run, error) { return f.measure(ctx, c) }})
	}
	return sets
}

// Figures of runs.
func seconds(r Run) float64    { return r.Seconds }
func ofIdeal(r Run) float64    { return r.Ideal }
func skewBlocks(r Run) float64 { return r.SkewBlocks }
func cpuPerGB(r Run) float64   { return r.CPUPerGB }
func busyPerGB(r Run) float64  { return r.BusyPerGB }
func peakBytes(r Run) float64  { return r.PeakBytes }

func median(s Series, figure func(Run) float64) float64 { return s.Values(figure).Median() }

// Figures of one case, and of two.
func medianOf(figure func(Run) float64) func([]Series) float64 {
	return func(s []Series) float64 { return median(s[0], figure) }
}

func ratioOf(figure func(Run) float64) func([]Series) float64 {
	return func(s []Series) float64 { return median(s[0], figure) / median(s[1], figure) }
}

// loss is the part of the rate that the second case loses against the first one.
func loss(s []Series) float64 { return 1 - ratioOf(seconds)(s) }

// againstBest is the time of the first case over that of the fastest other one.
func againstBest(s []Series) float64 {
	best := median(s[1], seconds)
	for _, other := range s[2:] {
		best = min(best, median(other, seconds))
	}
	return median(s[0], seconds) / best
}

// keptOnSlowLink is the part of the rate that is left to a binomial pipeline of which one link has
// only a part of it: a node passes blocks to each of its l neighbours in turn, so it is slow in one
// of l steps (RDMC §4.5).
func keptOnSlowLink(nodes int, part float64) float64 {
	l := 0.0
	for reached := 1; reached < nodes; reached *= 2 {
		l++
	}
	return l * part / (1 + (l-1)*part)
}

// tablePlan compares schedules.
func tablePlan(o *options) plan {
	p := plan{}
	for _, n := range o.nodes {
		for _, a := range o.algorithms {
			c := relayed(a, n, o.bytes, o.rateOf(n))
			if o.block > 0 {
				c.BlockBytes = o.block
			}
			p.add(c)
		}
		if o.plain {
			p.add(plainTCP(n, o.bytes, o.rateOf(n)))
		}
		for i := range o.rivals {
			p.addRival(&o.rivals[i], n, o.bytes, o.rateOf(n))
		}
	}
	return p
}

func (p *plan) addRival(r *rival, nodes, bytes int, rate netlab.Rate) string {
	return p.add(Case{Schedule: r.Name, Nodes: nodes, Bytes: bytes, Rate: rate, MPI: r})
}

// slowLinkPlan halves the rate of one link between two receivers.
func slowLinkPlan(p *plan, nodes, bytes int, rate netlab.Rate) {
	slow := func(c *Case) { c.Slow = true }
	var pairs [2][2]string
	for i, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Chain} {
		c := relayed(a, nodes, bytes, rate)
		pairs[i] = [2]string{p.add(c), p.add(c.with(slow))}
	}
	formula := 1 - keptOnSlowLink(nodes, 0.5)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the pipeline loses, where the formula says %.2f", nodes, formula),
		bench.Asked{AtMost: formula + 0.10}, loss, pairs[0][:]...)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the chain loses", nodes), bench.Asked{}, loss, pairs[1][:]...)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the pipeline's loss over the chain's", nodes), bench.Asked{Under: 1},
		func(s []Series) float64 { return loss(s[:2]) / loss(s[2:]) }, append(pairs[0][:], pairs[1][:]...)...)
}

// overlapPlan has every node send to all others at once.
func overlapPlan(p *plan, nodes, bytes int, rate netlab.Rate) {
	c := relayed(schedule.Auto, nodes, bytes, rate).with(func(c *Case) { c.Everybody = true })
	p.expect(fmt.Sprintf("%d groups with %d roots: all messages' rate over n/(n-1) of what a link has for them", nodes, nodes), bench.Asked{AtLeast: 0.85},
		func(s []Series) float64 {
			n := float64(nodes)
			possible := n / (n - 1) * float64(rate) * netlab.Goodput
			return median(s[0], c.bitsPerSecond) / possible
		}, p.add(c))
}

// memcpyPlan compares a message among processes of one host with copies in memory.
func memcpyPlan(p *plan, nodes, bytes int) {
	once := p.add(memoryCopy(nodes, bytes))
	by := func(s sharing) string {
		return p.add(relayed(schedule.Auto, nodes, bytes, 0).with(func(c *Case) { c.Sharing = s }))
	}
	about := fmt.Sprintf("%d MB to %d processes of one host, over a copy in memory by each receiver: ", bytes/1e6, nodes)
	p.expect(about+"by TCP", bench.Asked{}, ratioOf(seconds), by(notShared), once)
	p.expect(about+"copied from the root's memory", bench.Asked{AtMost: 1.5}, ratioOf(seconds), by(copied), once)
	p.expect(about+"viewed in the root's memory", bench.Asked{Under: 1}, ratioOf(seconds), by(viewed), once)
}
