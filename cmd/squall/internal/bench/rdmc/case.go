package rdmc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/netlab"
	"github.com/squall-go/squall/rdmc/schedule"
)

// Case is one thing that is measured several times.
type Case struct {
	Way        way                `json:"way"`
	Algorithm  schedule.Algorithm `json:"-"`
	Schedule   string             `json:"schedule"` // what is written for it
	Nodes      int                `json:"nodes"`
	Bytes      int                `json:"bytes"`
	BlockBytes int                `json:"block_bytes,omitempty"`
	Rate       netlab.Rate        `json:"rate_bits_per_s,omitempty"` // of each host's link; 0: all on one host
	Slow       bool               `json:"slow_link,omitempty"`       // one link has half the rate
	Everybody  bool               `json:"all_send,omitempty"`        // every node is a root
	Sharing    sharing            `json:"shared_memory,omitempty"`
	MPI        *rival             `json:"mpi,omitempty"`
}

// relayed is the case of a message that travels by a schedule.
func relayed(a schedule.Algorithm, nodes, bytes int, rate netlab.Rate) Case {
	return Case{Way: byBlocks, Algorithm: a, Schedule: a.String(), Nodes: nodes, Bytes: bytes, BlockBytes: blockBytes(a, nodes, bytes), Rate: rate}
}

// plainTCP is the case of a message that the root sends to one receiver after another.
func plainTCP(nodes, bytes int, rate netlab.Rate) Case {
	return Case{Way: byTurns, Schedule: "plain TCP, in turn", Nodes: nodes, Bytes: bytes, Rate: rate}
}

// memoryCopy is the case of a message that every receiver copies.
func memoryCopy(nodes, bytes int) Case {
	return Case{Way: byCopy, Schedule: "a copy in memory", Nodes: nodes, Bytes: bytes}
}

// with is the case after some changes.
func (c Case) with(change func(*Case)) Case {
	change(&c)
	return c
}

// title is what a table writes of a case.
func (c Case) title() string {
	switch title := c.Schedule; {
	case c.Slow:
		return title + ", one slow link"
	case c.Everybody:
		return title + ", all send"
	case c.Sharing != notShared:
		return "shared memory, " + string(c.Sharing)
	case c.Way == byBlocks && c.Algorithm == schedule.Auto:
		chosen, _ := schedule.Choose(c.Nodes, int64(c.Bytes), nil)
		return fmt.Sprintf("%s (%v)", title, chosen)
	default:
		return title
	}
}

// name tells the case apart from all others.
func (c Case) name() string {
	name := fmt.Sprintf("%s, %d nodes, %s", c.title(), c.Nodes, humanize.IBytes(uint64(c.Bytes)))
	if c.Rate > 0 {
		name += ", " + c.Rate.String()
	}
	return name
}

// ideal is how long the message's bytes take at the rate of a link; 0 without links.
func (c Case) ideal() time.Duration { return c.atRate(c.Bytes) }

// blockTime is how long a block takes at the rate of a link.
func (c Case) blockTime() time.Duration { return c.atRate(c.BlockBytes) }

func (c Case) atRate(bytes int) time.Duration {
	if c.Rate == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / c.Rate.BytesPerSecond() * 1e9)
}

// roots are the nodes that send.
func (c Case) roots() []int {
	if !c.Everybody {
		return []int{0}
	}
	all := make([]int, c.Nodes)
	for i := range all {
		all[i] = i
	}
	return all
}

// replicated is how many bytes all receivers get together.
func (c Case) replicated() float64 {
	return float64(len(c.roots())) * float64(c.Nodes-1) * float64(c.Bytes)
}

// slowLink is the two receivers between which the schedule sends the most blocks: a link that
// matters to it.
func (c Case) slowLink() (from, to int, err error) {
	p, err := schedule.New(c.Algorithm, c.Nodes, (c.Bytes-1)/c.BlockBytes+1, nil)
	if err != nil {
		return 0, 0, err
	}
	most := 0
	counts := map[[2]int32]int{}
	for m := range p.All() {
		pair := [2]int32{min(m.From, m.To), max(m.From, m.To)}
		if counts[pair]++; pair[0] > 0 && counts[pair] > most {
			most, from, to = counts[pair], int(pair[0]), int(pair[1])
		}
	}
	if most == 0 {
		return 0, 0, fmt.Errorf("%v sends nothing from one receiver to another among %d nodes", c.Algorithm, c.Nodes)
	}
	return from, to, nil
}

// Run is what one run of a case measured.
type Run struct {
	Seconds    float64 `json:"seconds"`              // from the start until the last receiver has the whole message
	Ideal      float64 `json:"of_ideal"`             // the same over the ideal time; 0 without links
	Skew       float64 `json:"skew_s"`               // between the first receiver and the last one
	SkewBlocks float64 `json:"skew_blocks"`          // the same in block times; 0 without links
	CPUPerGB   float64 `json:"cpu_s_per_gb"`         // of all nodes, per GB that a receiver got
	BusyPerGB  float64 `json:"machine_cpu_s_per_gb"` // of the whole machine meanwhile; 0: unknown
	PeakBytes  float64 `json:"peak_bytes"`           // a receiver's memory beyond its buffer; -1: unknown
}

// bitsPerSecond is the rate of all messages together.
func (c Case) bitsPerSecond(r Run) float64 {
	return 8 * float64(len(c.roots())) * float64(c.Bytes) / r.Seconds
}

// summarize makes a run of what the members saw.
func (c Case) summarize(reports []report, busy time.Duration) (r Run, err error) {
	var start, first, last time.Time
	var cpu time.Duration
	r.PeakBytes = -1
	for i, m := range reports {
		cpu += m.CPU
		start = earlier(start, m.Start)
		for _, at := range m.Done {
			first = earlier(first, at)
			if at.After(last) {
				last = at
			}
		}
		if i > 0 || c.Everybody {
			r.PeakBytes = max(r.PeakBytes, float64(m.PeakBytes))
		}
	}
	if start.IsZero() || !last.After(start) {
		return r, fmt.Errorf("%s: no member saw it begin or end", c.title())
	}
	r.Seconds, r.Skew = last.Sub(start).Seconds(), last.Sub(first).Seconds()
	r.CPUPerGB, r.BusyPerGB = cpu.Seconds()/(c.replicated()/1e9), busy.Seconds()/(c.replicated()/1e9)
	if ideal := c.ideal().Seconds(); ideal > 0 {
		r.Ideal = r.Seconds / ideal
	}
	if block := c.blockTime().Seconds(); block > 0 {
		r.SkewBlocks = r.Skew / block
	}
	return r, nil
}

// earlier is the earlier one of two times that are set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// The harness's types for the runs of this workload.
type (
	Series = bench.Series[Run]
	set    = bench.Set[Run]
	bar    = bench.Bar[Run]
)

// of is the case for the harness.
func (f *fleet) of(c Case) bench.Case[Run] {
	return bench.Case[Run]{Name: c.name(), Spec: c, Measure: func(ctx context.Context) (Run, error) { return f.measure(ctx, c) }}
}

// byHosts are the cases in one set for all that run on the same hosts.
func byHosts(cases []bench.Case[Run]) (sets []set) {
	last := Case{}
	for _, c := range slices.SortedStableFunc(slices.Values(cases), func(a, b bench.Case[Run]) int {
		x, y := a.Spec.(Case), b.Spec.(Case)
		return cmp.Or(cmp.Compare(x.Nodes, y.Nodes), cmp.Compare(x.Rate, y.Rate))
	}) {
		if now := c.Spec.(Case); len(sets) == 0 || now.Nodes != last.Nodes || now.Rate != last.Rate {
			sets, last = append(sets, set{}), now
		}
		sets[len(sets)-1].Add(c)
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

// loss is the part of the rate that the second case loses against the first one.
func loss(s []Series) float64 { return 1 - median(s[0], seconds)/median(s[1], seconds) }

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

// tableSet compares schedules.
func tableSet(o *options) (s set) {
	for _, n := range o.nodes {
		for _, a := range o.algorithms {
			s.Add(o.fleet.of(relayed(a, n, o.bytes, o.rateOf(n))))
		}
		s.Add(o.fleet.of(plainTCP(n, o.bytes, o.rateOf(n))))
		s.Add(o.rivalCases(n, o.bytes)...)
	}
	return s
}

func (o *options) rivalCases(nodes, bytes int) (all []bench.Case[Run]) {
	for i := range o.rivals {
		all = append(all, o.fleet.of(Case{Schedule: o.rivals[i].Name, Nodes: nodes, Bytes: bytes, Rate: o.rateOf(nodes), MPI: &o.rivals[i]}))
	}
	return all
}

// slowLinkBars halve the rate of one link between two receivers.
func (o *options) slowLinkBars(s *set, nodes, bytes int) {
	var pairs [][]bench.Case[Run]
	for _, a := range []schedule.Algorithm{schedule.Pipeline, schedule.Chain} {
		c := relayed(a, nodes, bytes, o.rateOf(nodes))
		pairs = append(pairs, []bench.Case[Run]{o.fleet.of(c), o.fleet.of(c.with(func(c *Case) { c.Slow = true }))})
	}
	pipeline, chain := pairs[0], pairs[1]
	formula := 1 - keptOnSlowLink(nodes, 0.5)
	about := fmt.Sprintf("one link at half the rate, n = %d: ", nodes)
	s.Judge(
		bar{What: fmt.Sprintf("%sthe pipeline loses, where the formula says %.2f", about, formula), Figure: pipeline[0], Limits: pipeline[1:], Derive: loss, Asked: bench.Asked{AtMost: formula + 0.10}},
		bar{What: about + "the chain loses", Figure: chain[0], Limits: chain[1:], Derive: loss},
		bar{
			What: about + "the pipeline's loss over the chain's", Figure: pipeline[0], Limits: append(pipeline[1:], chain...), Asked: bench.Asked{Under: 1},
			Derive: func(s []Series) float64 { return loss(s[:2]) / loss(s[2:]) },
		})
}

// overlapBars have every node send to all others at once.
func (o *options) overlapBars(s *set, nodes, bytes int) {
	rate, n := o.rateOf(nodes), float64(nodes)
	c := relayed(schedule.Auto, nodes, bytes, rate).with(func(c *Case) { c.Everybody = true })
	possible := n / (n - 1) * float64(rate) * netlab.Goodput
	s.Alone(fmt.Sprintf("%d groups with %d roots: all messages' rate over n/(n-1) of what a link has for them", nodes, nodes), "", o.fleet.of(c),
		func(r Run) float64 { return c.bitsPerSecond(r) / possible }, bench.Asked{AtLeast: 0.85})
}

// memcpyBars compare a message among processes of one host with copies in memory.
func (o *options) memcpyBars(s *set, nodes, bytes int) {
	once := []bench.Case[Run]{o.fleet.of(memoryCopy(nodes, bytes))}
	for _, x := range []struct {
		by    string
		how   sharing
		asked bench.Asked
	}{
		{"by TCP", notShared, bench.Asked{}},
		{"copied from the root's memory", copied, bench.Asked{AtMost: 1.5}},
		{"viewed in the root's memory", viewed, bench.Asked{Under: 1}},
	} {
		own := o.fleet.of(relayed(schedule.Auto, nodes, bytes, 0).with(func(c *Case) { c.Sharing = x.how }))
		s.Judge(bar{What: fmt.Sprintf("%d MB to %d processes of one host, %s", bytes/1e6, nodes, x.by), Unit: "s", Figure: own, Limits: once, Of: seconds, Asked: x.asked})
	}
}

// memory prints bytes; a receiver may have used less than before.
func memory(v float64) string {
	if v < 0 {
		return "–"
	}
	return humanize.IBytes(uint64(v))
}

// line is a case in a table.
func line(s Series, c Case) table.Row {
	v := s.Values(seconds)
	least, most := v.Range()
	block, rate := "–", "one host"
	if c.BlockBytes > 0 {
		block = humanize.IBytes(uint64(c.BlockBytes))
	}
	if c.Rate > 0 {
		rate = c.Rate.String()
	}
	return table.Row{
		c.title(), c.Nodes, humanize.IBytes(uint64(c.Bytes)), rate, show.Number(v.Median()), show.Number(least) + " – " + show.Number(most),
		show.Number(median(s, ofIdeal)), block, show.Number(median(s, skewBlocks)), show.Number(median(s, cpuPerGB)), show.Number(median(s, busyPerGB)), memory(median(s, peakBytes)),
	}
}

var header = table.Row{"schedule", "n", "size", "link", "s", "range", "of ideal", "block", "skew, blocks", "CPU s/GB", "machine s/GB", "memory beyond"}

// casesTable has everything that was measured.
func casesTable(all []Series) table.Writer {
	t := table.NewWriter()
	t.AppendHeader(header)
	for _, s := range all {
		if c, ok := s.Spec.(Case); ok && len(s.Runs) > 0 {
			t.AppendRow(line(s, c))
		}
	}
	var right []table.ColumnConfig
	for i := 2; i <= len(header); i++ {
		right = append(right, table.ColumnConfig{Number: i, Align: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	return t
}
