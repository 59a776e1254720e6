package topics

import (
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

func rateOf(r run) float64   { return r.Rate }
func medianOf(r run) float64 { return r.Latency.P50Us }
func tookOf(r run) float64   { return r.TookMs }
func gapOf(r run) float64    { return r.GapMs }

// set returns the cases and bars of a section.
func (o *options) set(section string) (s bench.Set[run]) {
	rival := ddsperf{o.ddsperf, o.base}
	switch section {
	case "stream":
		o.streamBars(&s, rival)
	case "trips":
		o.tripBars(&s, rival)
	case "topics":
		o.topicBars(&s)
	case "levels":
		o.levelBars(&s)
	case "relay":
		o.relayBars(&s)
	case "late":
		o.lateBars(&s)
	}
	return s
}

func caseOf(s spec) bench.Case[run] {
	return bench.Case[run]{Name: s.name(), Spec: s, Measure: s.measure}
}

// against adds cases that are held against one of ddsperf.
func against(s *bench.Set[run], rival ddsperf, unit string, of func(run) float64, specs []spec, asked []bench.Asked) {
	limit := rival.limit(specs[0])
	s.Add(limit)
	for i, x := range specs {
		s.Add(caseOf(x))
		s.Judge(bench.Bar[run]{Unit: unit, Figure: x.name(), Limits: []string{limit.Name}, Of: of, Asked: asked[i]})
	}
}

func (o *options) streamBars(s *bench.Set[run], rival ddsperf) {
	for _, bytes := range []int{100, 10 << 10} {
		shm := o.base.with(func(s *spec) { s.SizeBytes, s.Fabric = bytes, "shm" })
		tcp := shm.with(func(s *spec) { s.Fabric = "tcp" })
		taken := shm.with(func(s *spec) { s.Copy = true })
		specs, asked := []spec{shm, tcp, taken}, []bench.Asked{{AtLeast: 5}, {AtLeast: 2}, {}}
		if bytes > 100 {
			asked[0].AtLeast = 12
		} else {
			specs = append(specs, shm.with(func(s *spec) { s.Codec = "xcdr" }))
			asked = append(asked, bench.Asked{AtLeast: 2})
		}
		against(s, rival, "samples/s", rateOf, specs, asked)
		s.Judge(bench.Bar[run]{What: shm.name() + ": allocations of a sample", Figure: shm.name(), Of: func(r run) float64 { return r.Allocs }, Asked: bench.Asked{Under: 0.01}})
	}
}

func (o *options) tripBars(s *bench.Set[run], rival ddsperf) {
	shm := o.base.with(func(s *spec) { s.Trips, s.Readers, s.SizeBytes, s.Fabric = true, 1, 100, "shm" })
	tcp := shm.with(func(s *spec) { s.Fabric = "tcp" })
	against(s, rival, "µs", medianOf, []spec{shm, tcp}, []bench.Asked{{AtMost: 0.3}, {AtMost: 1}})
}

func (o *options) topicBars(s *bench.Set[run]) {
	one := o.base.with(func(s *spec) { s.SizeBytes, s.Fabric = 100, "shm" })
	many := one.with(func(s *spec) { s.Topics = 40 })
	s.Add(caseOf(one), caseOf(many))
	s.Judge(bench.Bar[run]{Unit: "samples/s", Figure: many.name(), Limits: []string{one.name()}, Of: rateOf, ByRound: true, Asked: bench.Asked{AtLeast: 0.85}})
}

// levelBars hold the levels of storage against each other, as Figure 18 of the paper does.
func (o *options) levelBars(s *bench.Set[run]) {
	at := func(l level, plain bool) spec {
		return o.base.with(func(s *spec) { s.Level, s.Plain = l, plain })
	}
	for _, l := range levels {
		s.Add(caseOf(at(l, false)), caseOf(at(l, true)))
	}
	bar := func(figure, limit spec, a bench.Asked) {
		s.Judge(bench.Bar[run]{Unit: "samples/s", Figure: figure.name(), Limits: []string{limit.name()}, Of: rateOf, ByRound: true, Asked: a})
	}
	bar(at(atomic, false), at(unordered, false), bench.Asked{AtLeast: 0.9})
	// A history refers to the ring where that has room for it.
	long := at(atomic, false).with(func(s *spec) { s.RingBytes = historyRingBytes })
	inRing := long.with(func(s *spec) { s.Level = transient })
	s.Add(caseOf(long), caseOf(inRing))
	bar(inRing, long, bench.Asked{AtLeast: 0.6})
	bar(inRing, at(atomic, false), bench.Asked{})
	bar(at(transient, false), at(atomic, false), bench.Asked{})
	// Where it copies, it reads what a listener may leave unread, and takes the lines from the writer's cache. So the same with listeners that read, too, and with the least history.
	read := at(atomic, false).with(func(s *spec) { s.Touch = true })
	kept := read.with(func(s *spec) { s.Level = transient })
	least := at(transient, false).with(func(s *spec) { s.Depth = 1 })
	for _, pair := range [][2]spec{{kept, read}, {least, at(atomic, false)}} {
		s.Add(caseOf(pair[0]))
		bar(pair[0], pair[1], bench.Asked{})
	}
	s.Add(caseOf(read))
	s.Add(caseOf(at(durable, false)))
	bar(at(persistent, false), at(durable, false), bench.Asked{AtLeast: 0.8})
	for _, l := range levels {
		bar(at(l, false), at(l, true), bench.Asked{AtLeast: 1.3})
	}
}

// relayBars hold a client's reader, and a client's writer, against those of a member. A client that is slower than the order loses samples of a volatile topic.
func (o *options) relayBars(s *bench.Set[run]) {
	for _, bytes := range []int{100, 10 << 10} {
		with := func(c client) spec {
			return o.base.with(func(s *spec) { s.SizeBytes, s.Readers, s.Copy, s.Client = bytes, 1, true, c })
		}
		limit := with(noClient)
		s.Add(caseOf(limit))
		for _, c := range []client{readerClient, writerClient} {
			s.Add(caseOf(with(c)))
			s.Judge(bench.Bar[run]{Unit: "samples/s", Figure: with(c).name(), Limits: []string{limit.name()}, Of: rateOf, ByRound: true})
		}
		reader := with(readerClient).name()
		s.Judge(bench.Bar[run]{What: reader + ": lost", Unit: "%", Figure: reader, Of: func(r run) float64 { return r.Lost }})
	}
}

// lateBars have a process join late, for histories of several lengths.
func (o *options) lateBars(s *bench.Set[run]) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		x := o.base.with(func(s *spec) {
			s.SizeBytes, s.Readers, s.History = 100, 1, n
			s.Duration = max(s.Duration, time.Second+time.Duration(n)*4*time.Microsecond) // it is over within the window
		})
		var took, gap bench.Asked
		if n == 1_000_000 {
			took.Under, gap.AtMost = 3000, 50
		}
		s.Add(caseOf(x))
		s.Judge(
			bench.Bar[run]{What: x.name() + ": until it is there", Unit: "ms", Figure: x.name(), Of: tookOf, Asked: took},
			bench.Bar[run]{What: x.name() + ": longest gap of another reader", Unit: "ms", Figure: x.name(), Of: gapOf, Asked: gap},
		)
	}
}
