package logs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// The harness's types for the runs of this workload.
type (
	Series = bench.Series[Run]
	Report = bench.Report[Run]
	bar    = bench.Bar[Run]
	set    struct{ bench.Set[Run] }
)

// Figures of a run.
var (
	rateOf    = func(r Run) float64 { return r.Rate }
	bytesOf   = func(r Run) float64 { return r.BytesRate / 1e6 }
	p50Of     = func(r Run) float64 { return r.Latency.P50Us }
	p99Of     = func(r Run) float64 { return r.Latency.P99Us }
	aloneOf   = func(r Run) float64 { return r.Alone }
	besideOf  = func(r Run) float64 { return r.Beside }
	openOf    = func(r Run) float64 { return r.OpenMs / 1e3 }
	fillOf    = func(r Run) float64 { return r.FillRate / 1e6 }
	cpuOf     = func(r Run) float64 { return r.CPUPerMsg }
	foreignOf = func(r Run) float64 { return r.Foreign }
)

func (s *set) add(name string, measure func(ctx context.Context, s Spec) (Run, error), spec Spec) {
	s.Add(bench.Case[Run]{Name: name, Measure: func(ctx context.Context) (Run, error) { return measure(ctx, spec) }})
}

// judge adds a bar. The disk is not the same from one minute to the next, so the rounds are
// compared.
func (s *set) judge(b bar) {
	b.ByRound = true
	s.Judge(b)
}

// against adds a bar in which the same figure of other cases is the limit.
func (s *set) against(figure, unit string, of func(Run) float64, atLeast float64, limits ...string) {
	s.judge(bar{Unit: unit, Figure: figure, Of: of, Limits: limits, Asked: bench.Asked{AtLeast: atLeast}})
}

// alone adds a figure that nothing is asked of.
func (s *set) alone(what, unit, figure string, of func(Run) float64) {
	s.judge(bar{What: what, Unit: unit, Figure: figure, Of: of})
}

// The names of cases.
const (
	rawName    = "raw writes of 1 MiB"
	aroundName = "raw writes of 1 MiB around the page cache"
	syncName   = "one write of 4 KiB"
)

// commitName is the case of as many processes as there are members, each of which does what one
// commit of a tree must do.
func commitName(nodes int) string {
	return fmt.Sprintf("two writes with a sync each, %d processes", nodes)
}

// engineName is the case of an engine.
func engineName(engine string, sizeBytes int) string { return engine + ", " + bench.Size(sizeBytes) }

// addRaw adds what the disk can do: through the page cache, as most programs write, and around it,
// as an engine may.
func (s *set) addRaw(spec Spec) {
	for _, c := range []struct {
		name   string
		around bool
	}{{rawName, false}, {aroundName, true}} {
		s.add(c.name, raw(spec.Nodes, pieces{Bytes: largePiece, Around: c.around}), spec)
	}
}

// streamSet is what the flags describe, beside what the disk can do.
func streamSet(spec Spec, limits bool) (s set) {
	if limits {
		s.addRaw(spec)
	}
	name := engineName(spec.Engine, spec.SizeBytes)
	s.add(name, stream, spec)
	if limits {
		s.against(name, "MB/s", bytesOf, 0, rawName)
		s.against(name, "MB/s", bytesOf, 0, aroundName)
	} else {
		s.alone(name, "MB/s", name, bytesOf)
	}
	s.alone("delivered, and on every disk", "msgs/s", name, rateOf)
	s.alone("processor time of all members", "µs/msg", name, cpuOf)
	return s
}

// latencySet is one message at a time, beside one small write that nothing disturbs. An engine that
// is a tree stands also beside the writes that no tree can do without, at as many processes at
// once: how much of its latency is inherent.
func latencySet(spec Spec, engines ...string) (s set) {
	spec.SizeBytes = min(spec.SizeBytes, 100)
	s.add(syncName, raw(1, pieces{Bytes: smallPiece}), spec)
	for _, engine := range engines {
		name := "latency p50, " + engine
		if engine == treeEngine {
			s.add(commitName(spec.Nodes), raw(spec.Nodes, pieces{Bytes: treePiece, Head: true}), spec)
		}
		s.add(name, loop, spec.with(func(s *Spec) { s.Engine = engine }))
		s.judge(bar{What: name, Unit: "µs", Figure: name, Of: p50Of, Limits: []string{syncName}, LimitOf: p50Of, Asked: bench.Asked{AtMost: 3}})
		if engine == treeEngine {
			s.against(name, "µs", p50Of, 0, commitName(spec.Nodes))
		}
		s.judge(bar{What: "latency p99, " + engine, Unit: "µs", Figure: name, Of: p99Of, Limits: []string{syncName}, LimitOf: p99Of})
	}
	return s
}

// besideSet is a subgroup without a log, beside one that has more to write than it can.
func besideSet(spec Spec) (s set) {
	name := fmt.Sprintf("without a log next to one with a log, %s", engineName(spec.Engine, spec.SizeBytes))
	s.add(name, beside, spec)
	s.judge(bar{What: name, Unit: "msgs/s", Figure: name, Of: besideOf, Limits: []string{name}, LimitOf: aloneOf, Asked: bench.Asked{AtLeast: 0.5}})
	s.alone("the one with a log at the same time", "MB/s", name, bytesOf)
	return s
}

// reopenSet is how long a log takes to open.
func reopenSet(spec Spec, engines ...string) (s set) {
	for _, engine := range engines {
		name := fmt.Sprintf("open a log of %s records of 1 KiB, %s", bench.Number(float64(spec.Records)), engine)
		s.add(name, reopen, spec.with(func(s *Spec) { s.Engine = engine }))
		s.judge(bar{What: name, Unit: "s", Figure: name, Of: openOf, Asked: bench.Asked{Under: 2}})
		s.alone("filling it", "MB/s", name, fillOf)
	}
	return s
}

// Other systems, as the program that measures them calls them.
const (
	harnessRaft = "etcd-raft"
	boltRaft    = "hashicorp-raft"
)

var products = []string{"dragonboat", "dragonboat-tan", "jetstream", boltRaft}

// asked is what is asked of messages of a size.
type asked struct {
	sizeBytes                  int
	raw, product, raft, boltdb float64
}

// barSets are all bars. spec gives the durations and the directory.
func barSets(spec Spec, others bench.Peers) []set {
	var sets []set
	for _, a := range []asked{{10 << 10, 0.7, 2, 1.2, 1.5}, {100, 0, 3, 2.5, 3}} {
		sets = append(sets, a.streamBars(spec.with(func(s *Spec) { s.SizeBytes = a.sizeBytes }), others))
	}
	return append(sets, latencySet(spec, "wal", "bolt"), besideSet(spec), reopenSet(spec, "wal", "bolt"))
}

// streamBars are about three members that all send, against the disk and other systems.
func (a asked) streamBars(spec Spec, others bench.Peers) (s set) {
	wal, bolt := engineName("wal", a.sizeBytes), engineName("bolt", a.sizeBytes)
	variants := []struct {
		name   string
		change func(*Spec)
	}{
		{wal, func(s *Spec) { s.Engine = "wal" }},
		{bolt, func(s *Spec) { s.Engine = "bolt" }},
		{wal + ", delivered after persist", func(s *Spec) { s.Engine, s.AfterPersist = "wal", true }},
		{wal + ", signed", func(s *Spec) { s.Engine, s.Sign = "wal", true }},
	}
	s.addRaw(spec)
	for _, v := range variants {
		s.add(v.name, stream, spec.with(v.change))
	}
	var all []string
	for _, peer := range append([]string{harnessRaft}, products...) {
		c := durable(others, spec.Dir, peer, a.sizeBytes, spec.Duration)
		s.Add(c)
		all = append(all, c.Name)
	}
	s.against(wal, "MB/s", bytesOf, a.raw, rawName)
	s.against(wal, "MB/s", bytesOf, 0, aroundName)
	s.against(wal, "msgs/s", rateOf, a.product, all[1:]...)
	s.against(wal, "msgs/s", rateOf, a.raft, all[0])
	s.against(bolt, "msgs/s", rateOf, a.boltdb, bench.PeerName(boltRaft, a.sizeBytes))
	s.against(bolt, "MB/s", bytesOf, 0, rawName)
	for _, v := range variants[2:] {
		s.against(v.name, "msgs/s", rateOf, 0, wal)
	}
	return s
}

// durable is the case of a peer that streams messages and has each on disk before it counts. In one
// of them only the leader takes proposals.
func durable(p bench.Peers, dir, peer string, sizeBytes int, d time.Duration) bench.Case[Run] {
	proposers := "3"
	if peer == boltRaft {
		proposers = "1"
	}
	return bench.Case[Run]{Name: bench.PeerName(peer, sizeBytes), Measure: func(ctx context.Context) (Run, error) {
		r, err := p.Measure(ctx, "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", proposers, "-mode", "durable",
			"-secs", bench.Seconds(d), "-lat", "0", "-dir", dir)
		return Run{
			Rate: r.Rate, BytesRate: r.Rate * float64(sizeBytes), CPUPerMsg: r.CPUus, Cores: r.CPUus * r.Rate / 1e6, Foreign: r.Foreign,
		}, err
	}}
}
