package messages

import (
	"context"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
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

// columns are the figures of a run in a CSV file.
var columns = []bench.Column[Run]{
	{Name: "rate_msgs_per_s", Of: rateOf},
	{Name: "undelayed_msgs_per_s", Of: func(r Run) float64 { return r.Undelayed }},
	{Name: "total_msgs_per_s", Of: totalOf},
	{Name: "bytes_per_s", Of: func(r Run) float64 { return r.BytesRate }},
	{Name: "cpu_us_per_msg", Of: func(r Run) float64 { return r.CPUPerMsg }},
	{Name: "cpu_percent_max", Of: cpuOf},
	{Name: "allocs_per_msg", Of: allocsOf},
	{Name: "nulls_per_msg", Of: func(r Run) float64 { return r.Nulls }},
	{Name: "send_batch", Of: func(r Run) float64 { return r.Send }},
	{Name: "receive_batch", Of: func(r Run) float64 { return r.Receive }},
	{Name: "deliver_batch", Of: func(r Run) float64 { return r.Deliver }},
	{Name: "loaded_p50_us", Of: func(r Run) float64 { return r.Loaded.P50Us }},
	{Name: "loaded_p99_us", Of: func(r Run) float64 { return r.Loaded.P99Us }},
	{Name: "latency_p50_us", Of: p50Of},
	{Name: "latency_p99_us", Of: p99Of},
	{Name: "foreign_cores", Of: foreignOf},
}

// limitsOf are the cases of the limits that a group is measured against.
func limitsOf(s Spec) []Case {
	cases := []Case{caseOf("fan-out", s.limit(Fanout)), caseOf("batched fan-out", s.limit(Batched))}
	if s.Fabric != "tcp" {
		cases = append([]Case{caseOf("same memory", s.limit(Memory))}, cases...)
	}
	return cases
}

// beside adds a figure of a case beside that of each of some limits, or alone if there are none.
func beside(p *set, figure bar, limits []Case) {
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
	beside(&p, bar{What: "delivered, slowest member", Unit: "msgs/s", Figure: own, Of: rateOf}, p.Cases)
	p.Add(caseOf(own, s))
	for _, b := range []struct {
		on         bool
		what, unit string
		of         func(Run) float64
	}{
		{true, "bytes delivered, slowest member", "GB/s", func(r Run) float64 { return r.BytesRate / 1e9 }},
		{true, "deliveries of all members", "msgs/s", totalOf},
		{len(s.Delays) > 0, "messages of senders without delay", "msgs/s", func(r Run) float64 { return r.Undelayed }},
		{s.SizeBytes >= stampBytes, "latency under this load, p50", "µs", func(r Run) float64 { return r.Loaded.P50Us }},
		{s.SizeBytes >= stampBytes, "latency under this load, p99", "µs", func(r Run) float64 { return r.Loaded.P99Us }},
		{true, "CPU of all members per message", "µs", func(r Run) float64 { return r.CPUPerMsg }},
		{true, "allocations of all members per message", "", allocsOf},
		{true, "nulls per message", "", func(r Run) float64 { return r.Nulls }},
		{true, "mean batch, send", "msgs", func(r Run) float64 { return r.Send }},
		{true, "mean batch, receive", "indexes", func(r Run) float64 { return r.Receive }},
		{true, "mean batch, deliver", "msgs", func(r Run) float64 { return r.Deliver }},
	} {
		if b.on {
			p.Judge(bar{What: b.what, Unit: b.unit, Figure: own, Of: b.of})
		}
	}
	return p
}

// roundTripOf is the limit of latency for a group's messages.
func roundTripOf(s Spec, network string, spin bool) Spec {
	return s.with(func(s *Spec) {
		s.Kind, s.Load, s.Nodes, s.Senders, s.Network, s.Spin = RoundTrip, Stream, 2, All, network, spin
	})
}

// latencySet sends one message at a time through a group, and through sockets.
func latencySet(s Spec, limits bool) (p set) {
	if limits {
		for _, network := range []string{"tcp", "unix"} {
			p.Add(caseOf("round trip, "+network+", blocking", roundTripOf(s, network, false)),
				caseOf("round trip, "+network+", spinning", roundTripOf(s, network, true)))
		}
	}
	trips := p.Cases
	for _, load := range []Load{FromUpcall, FromThread} {
		own := caseOf("sent by the "+string(load), s.with(func(s *Spec) { s.Load = load }))
		p.Add(own)
		beside(&p, bar{What: own.Name + ", p50", Unit: "µs", Figure: own.Name, Of: p50Of}, trips)
		beside(&p, bar{What: own.Name + ", p99", Unit: "µs", Figure: own.Name, Of: p99Of}, trips)
	}
	return p
}

// idleSet does nothing.
func idleSet(s Spec) (p set) {
	idle := caseOf("idle group", s.with(func(s *Spec) { s.Load = Idle }))
	p.Add(idle)
	p.Judge(bar{What: "CPU of the busiest member", Unit: "% of a core", Figure: idle.Name, Of: cpuOf})
	return p
}
