package rdmc

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Sizes and numbers of nodes of the bars.
const (
	barBytes     = 64 << 20
	overlapBytes = 32 << 20
	memcpyBytes  = 256_000_000
	slowNodes    = 8
	overlapNodes = 8
	memcpyNodes  = 4
	rivalNodes   = 8
)

// barNodes are the sizes of groups to which a large message goes; cpuNodes are the sizes for which
// the processor time is compared, which takes long because plain TCP does.
var (
	barNodes   = []int{2, 3, 4, 5, 8, 16}
	cpuNodes   = []int{4, 8}
	rivalBytes = []int{1 << 20, 8 << 20}
)

// barsPlan is everything that RDMC promises. The nodes given, if any, choose the part of it that is
// about so many.
func barsPlan(o *options) plan {
	p := plan{}
	has := func(n int) bool { return !o.given("nodes") || slices.Contains(o.nodes, n) }
	for _, n := range barNodes {
		if has(n) {
			sizeBars(&p, o, n)
		}
	}
	if has(rivalNodes) {
		for _, bytes := range rivalBytes {
			rivalBars(&p, o, bytes)
		}
	}
	if has(slowNodes) {
		slowLinkPlan(&p, slowNodes, barBytes, o.rateOf(slowNodes))
	}
	if has(overlapNodes) {
		overlapPlan(&p, overlapNodes, overlapBytes, o.rateOf(overlapNodes))
	}
	if has(memcpyNodes) {
		memcpyPlan(&p, memcpyNodes, memcpyBytes)
	}
	return p
}

// sizeBars are about one large message to n nodes.
func sizeBars(p *plan, o *options, n int) {
	most := map[schedule.Algorithm]float64{schedule.Auto: 1.08, schedule.Pipeline: 1.10}
	if n >= 16 {
		most = map[schedule.Algorithm]float64{schedule.Auto: 1.10, schedule.Pipeline: 1.15}
	}
	for _, a := range []schedule.Algorithm{schedule.Auto, schedule.Pipeline} {
		c := relayed(a, n, barBytes, o.rateOf(n))
		i := p.add(c)
		about := fmt.Sprintf("64 MiB, n = %d, %v: ", n, a)
		p.expect(about+"time over ideal", bench.Asked{AtMost: most[a]}, medianOf(ofIdeal), i)
		if a == schedule.Pipeline {
			p.expect(about+"skew in block times", bench.Asked{AtMost: 3}, medianOf(skewBlocks), i)
		}
		p.expect(about+"a receiver's memory beyond its buffer, in blocks", bench.Asked{AtMost: 8}, func(s []Series) float64 {
			return median(s[0], peakBytes) / float64(c.BlockBytes)
		}, i)
		if slices.Contains(cpuNodes, n) {
			plain := p.add(plainTCP(n, barBytes, o.rateOf(n)))
			p.expect(about+"processor time per GB over plain TCP's, nodes", bench.Asked{AtMost: 1}, ratioOf(cpuPerGB), i, plain)
			p.expect(about+"processor time per GB over plain TCP's, whole machine", bench.Asked{AtMost: 1}, ratioOf(busyPerGB), i, plain)
		}
	}
}

// rivalBars are about smaller messages, and how long other programs take.
func rivalBars(p *plan, o *options, bytes int) {
	own := p.add(relayed(schedule.Auto, rivalNodes, bytes, o.rateOf(rivalNodes)))
	about := fmt.Sprintf("%d MiB, n = %d, auto: ", bytes>>20, rivalNodes)
	if len(o.rivals) == 0 {
		p.expect(about+"time over ideal", bench.Asked{}, medianOf(ofIdeal), own)
		return
	}
	of := []string{own}
	for i := range o.rivals {
		of = append(of, p.addRival(&o.rivals[i], rivalNodes, bytes, o.rateOf(rivalNodes)))
	}
	p.expect(about+"time over that of the fastest MPI", bench.Asked{Under: 1}, againstBest, of...)
}
