package benchrdmc

import (
	"fmt"

	"github.com/squall-go/squall/internal/testlab/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

// plan is what a command measures, and what follows from it.
type plan struct {
	cases []Case
	rows  []row
}

// row is a figure that follows from some cases, and its bar if it has one.
type row struct {
	what   string
	of     []int // places of cases
	figure func(s []*Series) float64
	limit  float64
	want   want
}

// want says on which side of its limit a figure has to be.
type want string

const (
	anything want = ""
	atMost   want = "at most"
	below    want = "below"
	atLeast  want = "at least"
)

// holds reports whether a figure is on its side of a limit.
func (w want) holds(v, limit float64) bool {
	switch w {
	case atMost:
		return v <= limit
	case below:
		return v < limit
	case atLeast:
		return v >= limit
	}
	return true
}

// Finding is a figure that follows from what was measured.
type Finding struct {
	What    string  `json:"what"`
	Reached float64 `json:"reached"`
	Want    want    `json:"want,omitempty"`
	Limit   float64 `json:"limit,omitempty"`
	Verdict string  `json:"verdict"` // ok, missed, or why there is no figure; "" without a limit
}

const (
	verdictOK     = "ok"
	verdictMissed = "missed"
)

// add adds a case, once, and returns its place.
func (p *plan) add(c Case) int {
	for i, have := range p.cases {
		if have == c {
			return i
		}
	}
	p.cases = append(p.cases, c)
	return len(p.cases) - 1
}

// expect adds a figure of some cases.
func (p *plan) expect(what string, w want, limit float64, figure func(s []*Series) float64, of ...int) {
	p.rows = append(p.rows, row{what, of, figure, limit, w})
}

// findings are the figures of what was measured.
func (p *plan) findings(all []Series) (f []Finding) {
	for _, r := range p.rows {
		f = append(f, r.find(all))
	}
	return f
}

func (r *row) find(all []Series) Finding {
	f := Finding{What: r.what, Want: r.want, Limit: r.limit}
	var s []*Series
	for _, i := range r.of {
		if all[i].err != nil || len(all[i].Runs) == 0 {
			f.Verdict = fmt.Sprintf("not measured: %v", all[i].err)
			return f
		}
		s = append(s, &all[i])
	}
	f.Reached = r.figure(s)
	switch {
	case r.want == anything:
	case r.want.holds(f.Reached, r.limit):
		f.Verdict = verdictOK
	default:
		f.Verdict = verdictMissed
	}
	return f
}

// Figures of one case, and of two.
func medianOf(figure func(Run) float64) func([]*Series) float64 {
	return func(s []*Series) float64 { return s[0].median(figure) }
}

func ratioOf(figure func(Run) float64) func([]*Series) float64 {
	return func(s []*Series) float64 { return s[0].median(figure) / s[1].median(figure) }
}

// loss is the part of the rate that the second case loses against the first one.
func loss(s []*Series) float64 { return 1 - s[0].median(seconds)/s[1].median(seconds) }

// againstBest is the time of the first case over that of the fastest other one.
func againstBest(s []*Series) float64 {
	best := s[1].median(seconds)
	for _, other := range s[2:] {
		best = min(best, other.median(seconds))
	}
	return s[0].median(seconds) / best
}

// keptOnSlowLink is the part of the rate that is left to a binomial pipeline of which one link has only a part of it: a node passes blocks to
// each of its l neighbours in turn, so it is slow in one of l steps (RDMC §4.5).
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

func (p *plan) addRival(r *rival, nodes, bytes int, rate netlab.Rate) int {
	return p.add(Case{Schedule: r.Name, Nodes: nodes, Bytes: bytes, Rate: rate, MPI: r})
}

// slowLinkPlan halves the rate of one link between two receivers.
func slowLinkPlan(p *plan, nodes, bytes int, rate netlab.Rate) {
	slow := func(c *Case) { c.Slow = true }
	var pairs [2][2]int
	for i, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Chain} {
		c := relayed(a, nodes, bytes, rate)
		pairs[i] = [2]int{p.add(c), p.add(c.with(slow))}
	}
	formula := 1 - keptOnSlowLink(nodes, 0.5)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the pipeline loses, where the formula says %.2f", nodes, formula),
		atMost, formula+0.10, loss, pairs[0][:]...)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the chain loses", nodes), anything, 0, loss, pairs[1][:]...)
	p.expect(fmt.Sprintf("one link at half the rate, n = %d: the pipeline's loss over the chain's", nodes), below, 1,
		func(s []*Series) float64 { return loss(s[:2]) / loss(s[2:]) }, append(pairs[0][:], pairs[1][:]...)...)
}

// overlapPlan has every node send to all others at once.
func overlapPlan(p *plan, nodes, bytes int, rate netlab.Rate) {
	everybody := p.add(relayed(schedule.Auto, nodes, bytes, rate).with(func(c *Case) { c.Everybody = true }))
	p.expect(fmt.Sprintf("%d groups with %d roots: all messages' rate over n/(n-1) of what a link has for them", nodes, nodes), atLeast, 0.85,
		func(s []*Series) float64 {
			n := float64(nodes)
			possible := n / (n - 1) * float64(rate) * netlab.Goodput
			return s[0].median(s[0].bitsPerSecond) / possible
		}, everybody)
}

// memcpyPlan compares a message among processes of one host with copies in memory.
func memcpyPlan(p *plan, nodes, bytes int) {
	once := p.add(memoryCopy(nodes, bytes))
	by := func(s sharing) int {
		return p.add(relayed(schedule.Auto, nodes, bytes, 0).with(func(c *Case) { c.Sharing = s }))
	}
	about := fmt.Sprintf("%d MB to %d processes of one host, over a copy in memory by each receiver: ", bytes/1e6, nodes)
	p.expect(about+"by TCP", anything, 0, ratioOf(seconds), by(notShared), once)
	p.expect(about+"copied from the root's memory", atMost, 1.5, ratioOf(seconds), by(copied), once)
	p.expect(about+"viewed in the root's memory", below, 1, ratioOf(seconds), by(viewed), once)
}
