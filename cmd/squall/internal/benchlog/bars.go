package benchlog

import (
	"context"
	"fmt"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// figures of a run that bars are about.
var (
	rateOf   = func(r Run) float64 { return r.Rate }
	bytesOf  = func(r Run) float64 { return r.BytesRate / 1e6 }
	p50Of    = func(r Run) float64 { return r.Latency.P50Us }
	p99Of    = func(r Run) float64 { return r.Latency.P99Us }
	aloneOf  = func(r Run) float64 { return r.Alone }
	besideOf = func(r Run) float64 { return r.Beside }
	openOf   = func(r Run) float64 { return r.OpenMs / 1e3 }
	fillOf   = func(r Run) float64 { return r.FillRate / 1e6 }
	cpuOf    = func(r Run) float64 { return r.CPUPerMsg }
)

// bar is a figure that has to reach a multiple of another one, or a value. It names cases of its set.
type bar struct {
	what, unit string
	figure     string
	of         func(Run) float64
	limits     []string // cases: the best of each round counts. None: the figure itself is held against the bar
	limitOf    func(Run) float64
	atLeast    float64 // 0: nothing is asked
	atMost     float64 // 0: nothing is asked
}

// set is bars over cases that take turns.
type set struct {
	cases []testCase
	bars  []bar
}

func (s *set) add(name string, measure func(ctx context.Context) (Run, error)) {
	s.cases = append(s.cases, testCase{name, measure})
}

// against adds a bar in which the same figure of other cases is the limit.
func (s *set) against(figure, unit string, of func(Run) float64, atLeast float64, limits ...string) {
	s.bars = append(s.bars, bar{what: figure, unit: unit, figure: figure, of: of, limits: limits, limitOf: of, atLeast: atLeast})
}

// alone adds a figure that nothing is asked of.
func (s *set) alone(what, unit, figure string, of func(Run) float64) {
	s.bars = append(s.bars, bar{what: what, unit: unit, figure: figure, of: of})
}

// asks is what a ratio, or a figure without a limit, is held against.
func (b bar) asks() figures.Bar {
	return figures.Bar{AtLeast: b.atLeast, AtMost: b.atMost, Alone: len(b.limits) == 0}
}

// The names of cases.
const (
	rawName    = "raw writes of 1 MiB"
	aroundName = "raw writes of 1 MiB around the page cache"
	syncName   = "one write of 4 KiB"
)

// commitName is the case of as many processes as there are members, each of which does what one commit of a tree must do.
func commitName(nodes int) string {
	return fmt.Sprintf("two writes with a sync each, %d processes", nodes)
}

// engineName is the case of an engine.
func engineName(engine string, sizeBytes int) string { return engine + ", " + figures.Size(sizeBytes) }

func (s *set) addStream(name string, spec Spec) {
	s.add(name, func(ctx context.Context) (Run, error) { return stream(ctx, spec) })
}

// addRaw adds what the disk can do: through the page cache, as most programs write, and around it, as an engine may.
func (s *set) addRaw(spec Spec) {
	for _, c := range []struct {
		name   string
		around bool
	}{{rawName, false}, {aroundName, true}} {
		s.add(c.name, func(ctx context.Context) (Run, error) {
			return raw(ctx, spec, spec.Nodes, pieces{Bytes: largePiece, Around: c.around})
		})
	}
}

// streamSet is what the flags describe, beside what the disk can do.
func streamSet(spec Spec, limits bool) (s set) {
	if limits {
		s.addRaw(spec)
	}
	name := engineName(spec.Engine, spec.SizeBytes)
	s.addStream(name, spec)
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

// latencySet is one message at a time, beside one small write that nothing disturbs. An engine that is a tree stands also beside the writes that no
// tree can do without, at as many processes at once: how much of its latency is inherent.
func latencySet(spec Spec, engines ...string) (s set) {
	spec.SizeBytes = min(spec.SizeBytes, 100)
	s.add(syncName, func(ctx context.Context) (Run, error) { return raw(ctx, spec, 1, pieces{Bytes: smallPiece}) })
	for _, engine := range engines {
		name := "latency p50, " + engine
		if engine == treeEngine {
			s.add(commitName(spec.Nodes), func(ctx context.Context) (Run, error) {
				return raw(ctx, spec, spec.Nodes, pieces{Bytes: treePiece, Head: true})
			})
		}
		s.add(name, func(ctx context.Context) (Run, error) {
			return loop(ctx, spec.with(func(s *Spec) { s.Engine = engine }))
		})
		s.bars = append(s.bars, bar{what: name, unit: "µs", figure: name, of: p50Of, limits: []string{syncName}, limitOf: p50Of, atMost: 3})
		if engine == treeEngine {
			s.against(name, "µs", p50Of, 0, commitName(spec.Nodes))
		}
		s.bars = append(s.bars, bar{what: "latency p99, " + engine, unit: "µs", figure: name, of: p99Of, limits: []string{syncName}, limitOf: p99Of})
	}
	return s
}

// besideSet is a subgroup without a log, beside one that has more to write than it can.
func besideSet(spec Spec) (s set) {
	name := fmt.Sprintf("without a log beside one with a log, %s", engineName(spec.Engine, spec.SizeBytes))
	s.add(name, func(ctx context.Context) (Run, error) { return beside(ctx, spec) })
	s.bars = append(s.bars, bar{what: name, unit: "msgs/s", figure: name, of: besideOf, limits: []string{name}, limitOf: aloneOf, atLeast: 0.5})
	s.alone("the one with a log meanwhile", "MB/s", name, bytesOf)
	return s
}

// reopenSet is how long a log takes to open.
func reopenSet(spec Spec, engines ...string) (s set) {
	for _, engine := range engines {
		name := fmt.Sprintf("open a log of %s records of 1 KiB, %s", figures.Number(float64(spec.Records)), engine)
		s.add(name, func(ctx context.Context) (Run, error) {
			return reopen(ctx, spec.with(func(s *Spec) { s.Engine = engine }))
		})
		s.bars = append(s.bars, bar{what: name, unit: "s", figure: name, of: openOf, atMost: 2})
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
func barSets(spec Spec, others rival) []set {
	var sets []set
	for _, a := range []asked{{10 << 10, 0.7, 2, 1.2, 1.5}, {100, 0, 3, 2.5, 3}} {
		sets = append(sets, a.streamBars(spec.with(func(s *Spec) { s.SizeBytes = a.sizeBytes }), others))
	}
	return append(sets, latencySet(spec, "wal", "bolt"), besideSet(spec), reopenSet(spec, "wal", "bolt"))
}

// streamBars are about three members that all send, against the disk and other systems.
func (a asked) streamBars(spec Spec, others rival) (s set) {
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
		s.addStream(v.name, spec.with(v.change))
	}
	var all []string
	for _, peer := range append([]string{harnessRaft}, products...) {
		c := others.durable(peer, a.sizeBytes, spec.Duration)
		s.cases = append(s.cases, c)
		all = append(all, c.name)
	}
	s.against(wal, "MB/s", bytesOf, a.raw, rawName)
	s.against(wal, "MB/s", bytesOf, 0, aroundName)
	s.against(wal, "msgs/s", rateOf, a.product, all[1:]...)
	s.against(wal, "msgs/s", rateOf, a.raft, all[0])
	s.against(bolt, "msgs/s", rateOf, a.boltdb, rivalName(boltRaft, a.sizeBytes))
	s.against(bolt, "MB/s", bytesOf, 0, rawName)
	for _, v := range variants[2:] {
		s.against(v.name, "msgs/s", rateOf, 0, wal)
	}
	return s
}

// rows judges the bars of a set.
func (s set) rows(series []Series) (rows []Row) {
	byName := map[string]Series{}
	for _, x := range series {
		byName[x.Name] = x
	}
	for _, b := range s.bars {
		rows = append(rows, b.row(byName))
	}
	return rows
}

// row judges the bar by what was measured.
func (b bar) row(series map[string]Series) Row {
	figure := series[b.figure]
	v := figure.values(b.of)
	r := Row{Beside: figures.Beside{What: b.what, Unit: b.unit, Figure: v.Summary()}, Judged: figures.Judged{Bar: b.asks().String()}}
	err := failures([]Series{figure})
	judged := r.Figure.Median
	if len(b.limits) > 0 {
		name, limit, failed := b.limit(series)
		l, pairs := limit.Summary(), v.Over(limit).Summary()
		r.LimitName, r.Limit, r.Pairs, judged = name, &l, &pairs, pairs.Median
		if err == nil {
			err = failed
		}
	}
	if r.Verdict = b.asks().Verdict(judged); err != nil {
		r.Verdict = err.Error()
	}
	return r
}

// limit is the best of each round, and the name of the case that is the best by its median.
func (b bar) limit(series map[string]Series) (name string, limit figures.Values, err error) {
	var all []figures.Values
	var failed []Series
	most := -1.0
	for _, l := range b.limits {
		x := series[l]
		if x.Err != nil {
			failed = append(failed, x)
			continue
		}
		v := x.values(b.limitOf)
		all = append(all, v)
		if m := v.Median(); m > most {
			name, most = l, m
		}
	}
	return name, figures.Best(all), failures(failed)
}
