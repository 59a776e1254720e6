package messages

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/netlab"
)

// The harness's types for the runs of this workload.
type (
	Case   = bench.Case[Run]
	Series = bench.Series[Run]
	Report = bench.Report[Run]
	set    = bench.Set[Run]
	bar    = bench.Bar[Run]
)

// caseOf is the case of a spec.
func caseOf(name string, s Spec) Case {
	return Case{Name: name, Spec: &s, Measure: func(ctx context.Context) (Run, error) { return Measure(ctx, s) }}
}

// Figures of a run.
var (
	rateOf     = func(r Run) float64 { return r.Rate }
	firstTwoOf = func(r Run) float64 { return r.BySender[0] + r.BySender[1] }
	totalOf    = func(r Run) float64 { return r.TotalRate }
	p50Of      = func(r Run) float64 { return r.Latency.P50Us }
	p99Of      = func(r Run) float64 { return r.Latency.P99Us }
	cpuOf      = func(r Run) float64 { return r.CPUPercent }
	allocsOf   = func(r Run) float64 { return r.Allocs }
	foreignOf  = func(r Run) float64 { return r.Foreign }
)

// limitsOf are the cases of the limits that a group is measured against.
func limitsOf(s Spec) []Case {
	cases := []Case{caseOf("fan-out", s.limit(Fanout)), caseOf("batched fan-out", s.limit(Batched))}
	if s.Fabric != "tcp" {
		cases = append([]Case{caseOf("same memory", s.limit(Memory))}, cases...)
	}
	return cases
}

// withLimits adds a row for a figure and each of its limits, or one row if there are none.
func withLimits(p *set, figure bar, limits []Case) {
	for _, limit := range limits {
		figure.Limits = []Case{limit}
		p.Judge(figure)
	}
	if len(limits) == 0 {
		p.Judge(figure)
	}
}

// throughputSet streams messages through a group and its limits.
func throughputSet(s Spec, limits bool) (p set) {
	own := caseOf("squall", s)
	if limits {
		p.Add(limitsOf(s)...)
	}
	withLimits(&p, bar{What: "delivered, slowest member", Unit: "msgs/s", Figure: own, Of: rateOf}, p.Cases)
	for _, b := range []struct {
		on         bool
		what, unit string
		of         func(Run) float64
	}{
		{true, "bytes delivered, slowest member", "GB/s", func(r Run) float64 { return r.BytesRate / 1e9 }},
		{true, "deliveries of all members", "msgs/s", totalOf},
		{s.Link > 0, "payload on the busiest sender's link, of TCP's limit", "", s.linkShare},
		{s.SizeBytes >= stampBytes, "latency under this load, p50", "µs", func(r Run) float64 { return r.Loaded.P50Us }},
		{s.SizeBytes >= stampBytes, "latency under this load, p99", "µs", func(r Run) float64 { return r.Loaded.P99Us }},
		{true, "CPU of all members per message", "µs", func(r Run) float64 { return r.CPUPerMsg }},
		{true, "allocations of all members per message", "", allocsOf},
		{true, "nulls per message", "", func(r Run) float64 { return r.Nulls }},
	} {
		if b.on {
			p.Alone(b.what, b.unit, own, b.of, bench.Asked{})
		}
	}
	return p
}

// linkShare is how much of what TCP can carry over a sender's link its messages take, which go to
// each of the others.
func (s Spec) linkShare(r Run) float64 {
	return slices.Max(r.BySender) * float64(s.SizeBytes) * float64(s.Nodes-1) / (s.Link.BytesPerSecond() * netlab.Goodput)
}

// roundTripOf is the limit of latency for a group's messages.
func roundTripOf(s Spec) Case {
	return caseOf("raw round trip, tcp", s.with(func(s *Spec) {
		s.Kind, s.Load, s.Nodes, s.Senders = RoundTrip, Stream, 2, All
	}))
}

// latencySet sends one message at a time through a group, and through a socket.
func latencySet(s Spec, limits bool) (p set) {
	if limits {
		p.Add(roundTripOf(s))
	}
	trips := p.Cases
	for _, load := range []Load{FromUpcall, FromThread} {
		own := caseOf("sent by the "+string(load), s.with(func(s *Spec) { s.Load = load }))
		withLimits(&p, bar{What: own.Name + ", p50", Unit: "µs", Figure: own, Of: p50Of}, trips)
		withLimits(&p, bar{What: own.Name + ", p99", Unit: "µs", Figure: own, Of: p99Of}, trips)
	}
	return p
}

// idleSet does nothing.
func idleSet(s Spec) (p set) {
	p.Alone("CPU of the busiest member", "% of a core", caseOf("idle group", s.with(func(s *Spec) { s.Load = Idle })), cpuOf, bench.Asked{})
	return p
}

// defaultsWith are the defaults with the durations of a spec.
func defaultsWith(base Spec) Spec {
	return DefaultSpec().with(func(s *Spec) { s.Warmup, s.Duration = base.Warmup, base.Duration })
}

// on is the spec on a fabric.
func (s Spec) on(fabric string) Spec { return s.with(func(s *Spec) { s.Fabric = fabric }) }

// barSets are all bars. base gives the durations.
func barSets(base Spec, others bench.Peers) []set {
	base = defaultsWith(base)
	return []set{
		streamBars(base, others, 10<<10), streamBars(base, others, 100), fabricBars(base.on("shm")), fabricBars(base.on("tcp")),
		shmBars(base.on("shm")), latencyBars(base, others),
	}
}

// ownFanout marks rows that the harness's fan-out should judge and this package's own does.
const ownFanout = " (by this command's own fan-out)"

// streamBars are about three members that all send, against the limits and other systems.
func streamBars(base Spec, others bench.Peers, sizeBytes int) (s set) {
	base.SizeBytes = sizeBytes
	base.Window, base.RingBytes = bench.InFlight(sizeBytes)
	named := func(name string, s Spec) Case { return caseOf(name+", "+bench.Size(sizeBytes), s) }
	shm, tcp := named("shm", base.on("shm")), named("tcp", base.on("tcp"))
	fanout, batched := named("fan-out", base.limit(Fanout)), named("batched fan-out", base.limit(Batched))
	memory, raft := named("same memory", base.limit(Memory)), throughputOf(others, "etcd-raft", sizeBytes, base.Duration)
	ask := map[int]struct{ shm, memory, tcp, raft float64 }{10 << 10: {9, 0.7, 1.3, 2.2}, 100: {1.6, 0, 0.55, 4.5}}[sizeBytes]
	compare := func(figure, limit Case, atLeast float64) {
		s.Compare(figure, "msgs/s", rateOf, bench.Asked{AtLeast: atLeast}, limit)
	}
	// The bars are multiples of the harness's fan-out, which makes each message anew and locks for
	// it. This package's own, which does neither, stands next to it. Without a harness it is the
	// judge, a harder one, and the row says so.
	byFanout := func(figure Case, atLeast float64) {
		if !others.Present() {
			s.Judge(bar{What: figure.Name + ownFanout, Unit: "msgs/s", Figure: figure, Limits: []Case{fanout}, Of: rateOf, Asked: bench.Asked{AtLeast: atLeast}})
			return
		}
		compare(figure, throughputOf(others, "tcp-fanout", sizeBytes, base.Duration), atLeast)
		compare(figure, fanout, 0)
	}
	byFanout(shm, ask.shm)
	compare(shm, memory, ask.memory)
	byFanout(tcp, ask.tcp)
	compare(tcp, batched, 0)
	if sizeBytes < 1<<10 { // the batched fan-out has its messages ahead, too
		compare(named("tcp, batches of 64", tcp.Spec.(*Spec).with(func(s *Spec) { s.SendBatch = 64 })), batched, 0.65)
	}
	compare(tcp, raft, ask.raft)
	for _, c := range []Case{shm, tcp} {
		s.Alone("allocations per message, "+c.Name, "", c, allocsOf, bench.Asked{None: true})
	}
	return s
}

// fabricBars are about silent and slow senders, and about batching.
func fabricBars(base Spec) (s set) {
	variant := func(name string, change func(*Spec)) Case { return caseOf(base.Fabric+", "+name, base.with(change)) }
	delayed := func(d time.Duration) func(*Spec) {
		return func(s *Spec) { s.Delays = map[int]time.Duration{3: d} }
	}
	all := variant("all send", func(*Spec) {})
	two := variant("two senders of three", func(s *Spec) { s.Senders = "2" })
	silent := variant("one of three senders silent", delayed(Forever))
	slow := variant("one of three senders sleeps 100 µs", delayed(100*time.Microsecond))
	none := variant("batching off", func(s *Spec) { s.Batching = Batching{} })
	s.Compare(silent, "msgs/s", rateOf, bench.Asked{AtLeast: 0.95}, two)
	s.Judge(bar{What: slow.Name + ": messages of the other two", Unit: "msgs/s", Figure: slow, Limits: []Case{all}, Of: firstTwoOf, Asked: bench.Asked{AtLeast: 0.9}},
		bar{What: base.Fabric + ", batching on, nulls on", Unit: "msgs/s", Figure: all, Limits: []Case{none}, Of: rateOf})
	return s
}

// shmBars are about many subgroups, many processes, and none to do.
func shmBars(base Spec) (s set) {
	three := caseOf("3 processes, one subgroup", base)
	sixteen := caseOf("16 processes", base.with(func(s *Spec) { s.Nodes = 16 }))
	s.Compare(caseOf("50 subgroups, one active", base.with(func(s *Spec) { s.Subgroups = 50 })), "msgs/s", rateOf, bench.Asked{AtLeast: 0.6}, three)
	s.Judge(bar{What: sixteen.Name + ": deliveries of all members", Unit: "msgs/s", Figure: sixteen, Limits: []Case{three}, Of: totalOf, Asked: bench.Asked{AtLeast: 0.8}})
	idle := base.with(func(s *Spec) { s.Load = Idle })
	for _, c := range []Case{caseOf("idle group of 3", idle), caseOf("idle group of 3, tcp", idle.on("tcp"))} {
		s.Alone(c.Name+": CPU of the busiest", "%", c, cpuOf, bench.Asked{Under: 1})
	}
	return s
}

// latencyBars are about one message at a time.
func latencyBars(base Spec, others bench.Peers) (s set) {
	base.SizeBytes = 100
	raw, raft := roundTripOf(base), latencyOfPeer(others, "etcd-raft", base.SizeBytes, base.Duration)
	for _, x := range []struct {
		fabric string
		nodes  int
		limit  Case
		atMost float64
	}{{"tcp", 2, raw, 1}, {"tcp", 3, raft, 1}, {"shm", 2, raw, 0.5}} {
		for _, load := range []Load{FromUpcall, FromThread} {
			name := fmt.Sprintf("latency p50, %s, %d processes, sent by the %s", x.fabric, x.nodes, load)
			own := caseOf(name, base.with(func(s *Spec) { s.Fabric, s.Nodes, s.Load = x.fabric, x.nodes, load }))
			s.Compare(own, "µs", p50Of, bench.Asked{AtMost: x.atMost}, x.limit)
		}
	}
	return s
}

// throughputOf is the case of a peer that streams messages, of which three are proposed everywhere
// at once.
func throughputOf(p bench.Peers, peer string, sizeBytes int, d time.Duration) Case {
	return peerCase(p, bench.PeerName(peer, sizeBytes), "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", "3",
		"-mode", "volatile", "-secs", bench.Seconds(d), "-lat", "0")
}

// latencyOfPeer is the case of a peer's closed loop at its leader.
func latencyOfPeer(p bench.Peers, peer string, sizeBytes int, d time.Duration) Case {
	return peerCase(p, peer+", latency", "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", "1",
		"-mode", "volatile", "-secs", "0.2", "-lat", bench.Seconds(d))
}

func peerCase(p bench.Peers, name string, args ...string) Case {
	return Case{Name: name, Measure: func(ctx context.Context) (Run, error) {
		r, err := p.Measure(ctx, args...)
		return Run{Rate: r.Rate, Latency: bench.Latency{P50Us: r.P50Us, P99Us: r.P99Us}}, err
	}}
}

// foreignLatencyBars are about one message at a time, of two members, while foreign processes take
// their part of the cores.
func foreignLatencyBars(base Spec) (s set) {
	d := defaultsWith(base).with(func(s *Spec) { s.Nodes, s.SizeBytes = 2, 100 })
	raw := []Case{roundTripOf(d)}
	for _, asked := range []struct {
		fabric   string
		p50, p99 float64
	}{{"shm", 0.7, 1.5}, {"tcp", 1.3, 2}} {
		for _, load := range []Load{FromUpcall, FromThread} {
			c := caseOf(fmt.Sprintf("%s, sent by the %s", asked.fabric, load), d.with(func(s *Spec) { s.Fabric, s.Load = asked.fabric, load }))
			s.Judge(
				bar{What: c.Name + ", p50", Unit: "µs", Figure: c, Limits: raw, Of: p50Of, Asked: bench.Asked{AtMost: asked.p50}},
				bar{What: c.Name + ", p99", Unit: "µs", Figure: c, Limits: raw, Of: p99Of, Asked: bench.Asked{AtMost: asked.p99}})
		}
	}
	return s
}

// foreignBars are about three members that all send, while foreign processes take their part of the
// cores.
func foreignBars(base Spec, others bench.Peers) (s set) {
	base = defaultsWith(base)
	own := func(fabric string) Case {
		return caseOf(fmt.Sprintf("%s, %s, next to foreign load", fabric, bench.Size(base.SizeBytes)), base.on(fabric))
	}
	compare := func(figure, limit Case, atLeast float64) {
		s.Compare(figure, "msgs/s", rateOf, bench.Asked{AtLeast: atLeast}, limit)
	}
	shm, tcp, fanout := own("shm"), own("tcp"), caseOf("fan-out, "+bench.Size(base.SizeBytes), base.limit(Fanout))
	if others.Present() {
		compare(tcp, fanout, 0)
		fanout = throughputOf(others, "tcp-fanout", base.SizeBytes, base.Duration)
	}
	raft := throughputOf(others, "etcd-raft", base.SizeBytes, base.Duration)
	compare(tcp, fanout, 0.6)
	compare(tcp, raft, 2)
	compare(shm, raft, 3)
	return s
}
