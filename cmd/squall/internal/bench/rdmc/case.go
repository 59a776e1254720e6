package rdmc

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

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

	of Case
}

// bitsPerSecond is the rate of all messages together.
func (c Case) bitsPerSecond(r Run) float64 {
	return 8 * float64(len(c.roots())) * float64(c.Bytes) / r.Seconds
}

// summarize makes a run of what the members saw.
func (c Case) summarize(reports []report, busy time.Duration) (r Run, err error) {
	var start, first, last instant
	var cpu time.Duration
	r.of, r.PeakBytes = c, -1
	for i, m := range reports {
		cpu += m.CPU
		if m.Start > 0 && (start == 0 || m.Start < start) {
			start = m.Start
		}
		for _, at := range m.Done {
			if first == 0 || at < first {
				first = at
			}
			last = max(last, at)
		}
		if i > 0 || c.Everybody {
			r.PeakBytes = max(r.PeakBytes, float64(m.PeakBytes))
		}
	}
	if start == 0 || last <= start {
		return r, fmt.Errorf("%s: no member saw it begin or end", c.title())
	}
	r.Seconds, r.Skew = last.sub(start).Seconds(), last.sub(first).Seconds()
	r.CPUPerGB, r.BusyPerGB = cpu.Seconds()/(c.replicated()/1e9), busy.Seconds()/(c.replicated()/1e9)
	if ideal := c.ideal().Seconds(); ideal > 0 {
		r.Ideal = r.Seconds / ideal
	}
	if block := c.blockTime().Seconds(); block > 0 {
		r.SkewBlocks = r.Skew / block
	}
	return r, nil
}
