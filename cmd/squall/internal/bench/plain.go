package bench

import "github.com/squall-go/squall/cmd/squall/internal/figures"

// plan is what a command measures, and how its rows follow from that.
type plan struct {
	cases []Case
	rows  func([]Series) []figures.Row
}

// limitsOf are the cases of the limits that a group is measured against.
func limitsOf(s Spec) []Case {
	cases := []Case{caseOf("fan-out", s.limit(Fanout)), caseOf("batched fan-out", s.limit(Batched))}
	if s.Fabric != "tcp" {
		cases = append([]Case{caseOf("same memory", s.limit(Memory))}, cases...)
	}
	return cases
}

// throughputPlan streams messages through a group and its limits.
func throughputPlan(s Spec, limits bool) plan {
	p := plan{}
	if limits {
		p.cases = limitsOf(s)
	}
	p.cases = append(p.cases, caseOf("squall", s))
	p.rows = func(series []Series) (rows []figures.Row) {
		own := series[len(series)-1]
		rate := own.values(func(r Run) float64 { return r.Rate })
		for _, limit := range series[:len(series)-1] {
			rows = append(rows, newRow("delivered, slowest member", "msgs/s", rate, limit.Name, limit.values(func(r Run) float64 { return r.Rate })))
		}
		if len(rows) == 0 {
			rows = append(rows, newRow("delivered, slowest member", "msgs/s", rate, "", nil))
		}
		figure := func(what, unit string, value func(Run) float64) {
			rows = append(rows, newRow(what, unit, own.values(value), "", nil))
		}
		figure("bytes delivered, slowest member", "GB/s", func(r Run) float64 { return r.BytesRate / 1e9 })
		figure("deliveries of all members", "msgs/s", func(r Run) float64 { return r.TotalRate })
		if len(s.Delays) > 0 {
			figure("messages of senders without delay", "msgs/s", func(r Run) float64 { return r.Undelayed })
		}
		if s.SizeBytes >= stampBytes {
			figure("latency under this load, p50", "µs", func(r Run) float64 { return r.Loaded.P50Us })
			figure("latency under this load, p99", "µs", func(r Run) float64 { return r.Loaded.P99Us })
		}
		figure("CPU of all members per message", "µs", func(r Run) float64 { return r.CPUPerMsg })
		figure("allocations of all members per message", "", func(r Run) float64 { return r.Allocs })
		figure("nulls per message", "", func(r Run) float64 { return r.Nulls })
		figure("mean batch, send", "msgs", func(r Run) float64 { return r.Send })
		figure("mean batch, receive", "indexes", func(r Run) float64 { return r.Receive })
		figure("mean batch, deliver", "msgs", func(r Run) float64 { return r.Deliver })
		return rows
	}
	return p
}

// roundTripOf is the limit of latency for a group's messages.
func roundTripOf(s Spec, network string, spin bool) Spec {
	return s.with(func(s *Spec) {
		s.Kind, s.Load, s.Nodes, s.Senders, s.Network, s.Spin = RoundTrip, Stream, 2, All, network, spin
	})
}

// latencyPlan sends one message at a time through a group, and through sockets.
func latencyPlan(s Spec, limits bool) plan {
	p := plan{}
	if limits {
		for _, network := range []string{"tcp", "unix"} {
			p.cases = append(p.cases, caseOf(network+", blocking", roundTripOf(s, network, false)), caseOf(network+", spinning", roundTripOf(s, network, true)))
		}
	}
	own := len(p.cases)
	for _, load := range []Load{FromUpcall, FromThread} {
		p.cases = append(p.cases, caseOf("sent by the "+string(load), s.with(func(s *Spec) { s.Load = load })))
	}
	p.rows = func(series []Series) (rows []figures.Row) {
		p50 := func(r Run) float64 { return r.Latency.P50Us }
		p99 := func(r Run) float64 { return r.Latency.P99Us }
		for _, o := range series[own:] {
			for _, limit := range series[:own] {
				rows = append(rows, newRow(o.Name+", p50", "µs", o.values(p50), "round trip, "+limit.Name, limit.values(p50)))
			}
			if own == 0 {
				rows = append(rows, newRow(o.Name+", p50", "µs", o.values(p50), "", nil))
			}
			rows = append(rows, newRow(o.Name+", p99", "µs", o.values(p99), "", nil))
		}
		return rows
	}
	return p
}

// idlePlan does nothing.
func idlePlan(s Spec) plan {
	s = s.with(func(s *Spec) { s.Load = Idle })
	return plan{
		cases: []Case{caseOf("idle group", s)},
		rows: func(series []Series) []figures.Row {
			return []figures.Row{newRow("CPU of the busiest member", "% of a core", series[0].values(func(r Run) float64 { return r.CPUPercent }), "", nil)}
		},
	}
}
