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
		figure.Limits = []string{limit.Name}
		p.Judge(figure)
	}
	if len(limits) == 0 {
		p.Judge(figure)
	}
}

// throughputSet streams messages through a group and its limits.
func throughputSet(s Spec, limits bool) (p set) {
	if limits {
		p.Add(limitsOf(s)...)
	}
	const own = "squall"
	withLimits(&p, bar{What: "delivered, slowest member", Unit: "msgs/s", Figure: own, Of: rateOf}, p.Cases)
	p.Add(caseOf(own, s))
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
			p.Alone(b.what, b.unit, own, b.of)
		}
	}
	return p
}

// linkShare is how much of what TCP can carry over a sender's link its messages take, which go to
// each of the others.
func (s Spec) linkShare(r Run) float64 {
	return slices.Max(r.BySender) * float64(s.SizeBytes) * float64(s.Nodes-1) / (s.Link.BytesPerSecond() * netlab.Goodput)
}

// rawTrip is the name of the limit of latency.
const rawTrip = "raw round trip, tcp"

// roundTripOf is that limit for a group's messages.
func roundTripOf(s Spec) Spec {
	return s.with(func(s *Spec) {
		s.Kind, s.Load, s.Nodes, s.Senders = RoundTrip, Stream, 2, All
	})
}

// latencySet sends one message at a time through a group, and through a socket.
func latencySet(s Spec, limits bool) (p set) {
	if limits {
		p.Add(caseOf(rawTrip, roundTripOf(s)))
	}
	trips := p.Cases
	for _, load := range []Load{FromUpcall, FromThread} {
		own := caseOf("sent by the "+string(load), s.with(func(s *Spec) { s.Load = load }))
		p.Add(own)
		withLimits(&p, bar{What: own.Name + ", p50", Unit: "µs", Figure: own.Name, Of: p50Of}, trips)
		withLimits(&p, bar{What: own.Name + ", p99", Unit: "µs", Figure: own.Name, Of: p99Of}, trips)
	}
	return p
}

// idleSet does nothing.
func idleSet(s Spec) (p set) {
	idle := caseOf("idle group", s.with(func(s *Spec) { s.Load = Idle }))
	p.Add(idle)
	p.Alone("CPU of the busiest member", "% of a core", idle.Name, cpuOf)
	return p
}

// barSets are all bars. base gives the durations.
func barSets(base Spec, others bench.Peers) []set {
	base = base.with(func(s *Spec) {
		d := DefaultSpec()
		d.Warmup, d.Duration = base.Warmup, base.Duration
		*s = d
	})
	sets := []set{streamBars(base, others, 10<<10), streamBars(base, others, 100)}
	for _, fabric := range []string{"shm", "tcp"} {
		sets = append(sets, fabricBars(base.with(func(s *Spec) { s.Fabric = fabric })))
	}
	return append(sets, shmBars(base.with(func(s *Spec) { s.Fabric = "shm" })), latencyBars(base, others))
}

// ownFanout marks rows that the harness's fan-out should judge and this package's own does.
const ownFanout = " (by this command's own fan-out)"

// streamBars are about three members that all send, against the limits and other systems.
func streamBars(base Spec, others bench.Peers, sizeBytes int) set {
	base.SizeBytes = sizeBytes
	base.Window, base.RingBytes = bench.InFlight(sizeBytes)
	size := bench.Size(sizeBytes)
	shm, tcp := base.with(func(s *Spec) { s.Fabric = "shm" }), base.with(func(s *Spec) { s.Fabric = "tcp" })
	ask := map[int]struct{ shm, memory, tcp, raft float64 }{10 << 10: {9, 0.7, 1.3, 2.2}, 100: {1.6, 0, 0.55, 4.5}}[sizeBytes]
	fanout, batched, memory := "fan-out, "+size, "batched fan-out, "+size, "same memory, "+size
	raft := throughputOf(others, "etcd-raft", sizeBytes, base.Duration)
	s := set{Cases: []Case{
		caseOf(fanout, shm.limit(Fanout)), caseOf("shm", shm), caseOf(batched, shm.limit(Batched)), caseOf("tcp", tcp),
		caseOf(memory, shm.limit(Memory)), raft,
	}}
	add := func(fabric, limit string, atLeast float64) {
		s.Bars = append(s.Bars, bar{What: fabric + ", " + size, Unit: "msgs/s", Figure: fabric, Limits: []string{limit}, Of: rateOf, Asked: bench.Asked{AtLeast: atLeast}})
	}
	// The bars are multiples of the harness's fan-out, which makes each message anew and locks for
	// it. This package's own, which does neither, stands next to it. Without a harness it is the
	// judge, a harder one, and the row says so.
	byFanout := func(fabric string, atLeast float64) {
		add(fabric, fanout, atLeast)
		s.Bars[len(s.Bars)-1].What += ownFanout
	}
	if others.Present() {
		harness := throughputOf(others, "tcp-fanout", sizeBytes, base.Duration)
		s.Cases = append(s.Cases, harness)
		byFanout = func(fabric string, atLeast float64) {
			add(fabric, harness.Name, atLeast)
			add(fabric, fanout, 0)
		}
	}
	byFanout("shm", ask.shm)
	add("shm", memory, ask.memory)
	byFanout("tcp", ask.tcp)
	add("tcp", batched, 0)
	add("tcp", raft.Name, ask.raft)
	s.Bars = append(s.Bars,
		bar{What: "allocations per message, shm, " + size, Figure: "shm", Of: allocsOf, Asked: bench.Asked{None: true}},
		bar{What: "allocations per message, tcp, " + size, Figure: "tcp", Of: allocsOf, Asked: bench.Asked{None: true}})
	return s
}

// fabricBars are about silent and slow senders, and about batching.
func fabricBars(base Spec) set {
	variant := func(name string, change func(*Spec)) Case { return caseOf(base.Fabric+", "+name, base.with(change)) }
	all := variant("all send", func(*Spec) {})
	two := variant("two senders of three", func(s *Spec) { s.Senders = "2" })
	silent := variant("one of three senders silent", func(s *Spec) { s.Delays = map[int]time.Duration{3: Forever} })
	slow := variant("one of three senders sleeps 100 µs", func(s *Spec) { s.Delays = map[int]time.Duration{3: 100 * time.Microsecond} })
	none := variant("batching off", func(s *Spec) { s.Batching = Batching{} })
	return set{
		Cases: []Case{all, two, silent, slow, none},
		Bars: []bar{
			{What: silent.Name, Unit: "msgs/s", Figure: silent.Name, Limits: []string{two.Name}, Of: rateOf, Asked: bench.Asked{AtLeast: 0.95}},
			{What: slow.Name + ": messages of the other two", Unit: "msgs/s", Figure: slow.Name, Limits: []string{all.Name}, Of: firstTwoOf, Asked: bench.Asked{AtLeast: 0.9}},
			{What: base.Fabric + ", batching on, nulls on", Unit: "msgs/s", Figure: all.Name, Limits: []string{none.Name}, Of: rateOf},
		},
	}
}

// shmBars are about many subgroups, many processes, and none to do.
func shmBars(base Spec) set {
	three := caseOf("3 processes, one subgroup", base)
	sixteen := caseOf("16 processes", base.with(func(s *Spec) { s.Nodes = 16 }))
	fifty := caseOf("50 subgroups, one active", base.with(func(s *Spec) { s.Subgroups = 50 }))
	idle := caseOf("idle group of 3", base.with(func(s *Spec) { s.Load = Idle }))
	idleTCP := caseOf("idle group of 3, tcp", base.with(func(s *Spec) { s.Load, s.Fabric = Idle, "tcp" }))
	return set{
		Cases: []Case{three, sixteen, fifty, idle, idleTCP},
		Bars: []bar{
			{What: fifty.Name, Unit: "msgs/s", Figure: fifty.Name, Limits: []string{three.Name}, Of: rateOf, Asked: bench.Asked{AtLeast: 0.6}},
			{What: sixteen.Name + ": deliveries of all members", Unit: "msgs/s", Figure: sixteen.Name, Limits: []string{three.Name}, Of: totalOf, Asked: bench.Asked{AtLeast: 0.8}},
			{What: idle.Name + ": CPU of the busiest", Unit: "%", Figure: idle.Name, Of: cpuOf, Asked: bench.Asked{Under: 1}},
			{What: idleTCP.Name + ": CPU of the busiest", Unit: "%", Figure: idleTCP.Name, Of: cpuOf, Asked: bench.Asked{Under: 1}},
		},
	}
}

// latencyBars are about one message at a time.
func latencyBars(base Spec, others bench.Peers) set {
	base.SizeBytes = 100
	raw := caseOf(rawTrip, roundTripOf(base))
	raft := latencyOfPeer(others, "etcd-raft", base.SizeBytes, base.Duration)
	s := set{Cases: []Case{raw, raft}}
	add := func(fabric string, nodes int, limit Case, atMost float64) {
		for _, load := range []Load{FromUpcall, FromThread} {
			c := caseOf(fmt.Sprintf("latency p50, %s, %d processes, sent by the %s", fabric, nodes, load), base.with(func(s *Spec) {
				s.Fabric, s.Nodes, s.Load = fabric, nodes, load
			}))
			s.Cases = append(s.Cases, c)
			s.Bars = append(s.Bars, bar{What: c.Name, Unit: "µs", Figure: c.Name, Limits: []string{limit.Name}, Of: p50Of, Asked: bench.Asked{AtMost: atMost}})
		}
	}
	add("tcp", 2, raw, 1)
	add("tcp", 3, raft, 1)
	add("shm", 2, raw, 0.5)
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
	d := DefaultSpec()
	d.Nodes, d.SizeBytes, d.Warmup, d.Duration = 2, 100, base.Warmup, base.Duration
	raw := caseOf(rawTrip, roundTripOf(d))
	s.Add(raw)
	for _, asked := range []struct {
		fabric   string
		p50, p99 float64
	}{{"shm", 0.7, 1.5}, {"tcp", 1.3, 2}} {
		for _, load := range []Load{FromUpcall, FromThread} {
			c := caseOf(fmt.Sprintf("%s, sent by the %s", asked.fabric, load), d.with(func(s *Spec) { s.Fabric, s.Load = asked.fabric, load }))
			s.Add(c)
			s.Judge(
				bar{What: c.Name + ", p50", Unit: "µs", Figure: c.Name, Limits: []string{raw.Name}, Of: p50Of, Asked: bench.Asked{AtMost: asked.p50}},
				bar{What: c.Name + ", p99", Unit: "µs", Figure: c.Name, Limits: []string{raw.Name}, Of: p99Of, Asked: bench.Asked{AtMost: asked.p99}})
		}
	}
	return s
}

// foreignBars are about three members that all send, while foreign processes take their part of the
// cores.
func foreignBars(base Spec, others bench.Peers) set {
	d := DefaultSpec()
	d.Warmup, d.Duration = base.Warmup, base.Duration
	shm, tcp := d.with(func(s *Spec) { s.Fabric = "shm" }), d.with(func(s *Spec) { s.Fabric = "tcp" })
	size := bench.Size(d.SizeBytes)
	fanout := caseOf("fan-out, "+size, tcp.limit(Fanout))
	raft := throughputOf(others, "etcd-raft", d.SizeBytes, d.Duration)
	s := set{Cases: []Case{fanout, caseOf("shm", shm), raft, caseOf("tcp", tcp)}}
	add := func(fabric, limit string, atLeast float64) {
		what := fmt.Sprintf("%s, %s, next to foreign load", fabric, size)
		s.Bars = append(s.Bars, bar{What: what, Unit: "msgs/s", Figure: fabric, Limits: []string{limit}, Of: rateOf, Asked: bench.Asked{AtLeast: atLeast}})
	}
	judge := fanout.Name
	if others.Present() {
		harness := throughputOf(others, "tcp-fanout", d.SizeBytes, d.Duration)
		s.Cases = append(s.Cases, harness)
		judge = harness.Name
		add("tcp", fanout.Name, 0)
	}
	add("tcp", judge, 0.6)
	add("tcp", raft.Name, 2)
	add("shm", raft.Name, 3)
	return s
}
