package bench

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
)

// figures of a run that bars are about.
var (
	rateOf     = func(r Run) float64 { return r.Rate }
	firstTwoOf = func(r Run) float64 { return r.BySender[0] + r.BySender[1] }
	totalOf    = func(r Run) float64 { return r.TotalRate }
	p50Of      = func(r Run) float64 { return r.Latency.P50Us }
	cpuOf      = func(r Run) float64 { return r.CPUPercent }
	allocsOf   = func(r Run) float64 { return r.Allocs }
)

// bar is a figure that has to reach a multiple of another one, or a value. It names cases of its set.
type bar struct {
	what, unit    string
	figure, limit string // cases; without a limit the figure itself is held against the bar
	of            func(Run) float64
	atLeast       float64 // 0: nothing is asked
	atMost        float64 // 0: nothing is asked
	none          bool    // the figure has to be 0, but for what the measurement itself does
}

// barSet are bars over cases that take turns.
type barSet struct {
	cases []Case
	bars  []bar
}

// asks is what a ratio, or a figure without a limit, is held against.
func (b bar) asks() figures.Bar {
	return figures.Bar{AtLeast: b.atLeast, AtMost: b.atMost, None: b.none, Alone: b.limit == ""}
}

// row judges the bar by what was measured.
func (b bar) row(series map[string]Series) figures.Row {
	figure, limit := series[b.figure], series[b.limit]
	r := newRow(b.what, b.unit, figure.values(b.of), b.limit, limit.values(b.of))
	r.Bar = b.asks().String()
	switch err := errors.Join(figure.Err, limit.Err); {
	case err != nil:
		r.Verdict = strings.ReplaceAll(err.Error(), "\n", "; ")
	case b.limit != "":
		r.Verdict = b.asks().Verdict(r.Ratio)
	default:
		r.Verdict = b.asks().Verdict(r.Figure.Median)
	}
	return r
}

// barSets are all bars. base gives the durations.
func barSets(base Spec, others rival) []barSet {
	base = base.with(func(s *Spec) {
		d := DefaultSpec()
		d.Warmup, d.Duration = base.Warmup, base.Duration
		*s = d
	})
	sets := []barSet{streamBars(base, others, 10<<10), streamBars(base, others, 100)}
	for _, fabric := range []string{"shm", "tcp"} {
		sets = append(sets, fabricBars(base.with(func(s *Spec) { s.Fabric = fabric })))
	}
	return append(sets, shmBars(base.with(func(s *Spec) { s.Fabric = "shm" })), latencyBars(base, others))
}

// ownFanout marks rows that the harness's fan-out should judge and this package's own does.
const ownFanout = " (by this command's own fan-out)"

// streamBars are about three members that all send, against the limits and other systems.
func streamBars(base Spec, others rival, sizeBytes int) barSet {
	base.SizeBytes = sizeBytes
	if sizeBytes < 1<<10 { // small messages want many on their way; large ones a ring that stays in the cache
		base.Window, base.RingBytes = 16<<10, 2<<20
	}
	size := figures.Size(sizeBytes)
	shm, tcp := base.with(func(s *Spec) { s.Fabric = "shm" }), base.with(func(s *Spec) { s.Fabric = "tcp" })
	ask := map[int]struct{ shm, memory, tcp, raft float64 }{10 << 10: {9, 0.7, 1.3, 2.2}, 100: {1.6, 0, 0.55, 4.5}}[sizeBytes]
	fanout, batched, memory := "fan-out, "+size, "batched fan-out, "+size, "same memory, "+size
	raft := others.throughput("etcd-raft", sizeBytes, base.Duration)
	set := barSet{cases: []Case{
		caseOf(fanout, shm.limit(Fanout)), caseOf("shm", shm), caseOf(batched, shm.limit(Batched)), caseOf("tcp", tcp),
		caseOf(memory, shm.limit(Memory)), raft,
	}}
	add := func(fabric, limit string, atLeast float64) {
		set.bars = append(set.bars, bar{what: fabric + ", " + size, unit: "msgs/s", figure: fabric, limit: limit, of: rateOf, atLeast: atLeast})
	}
	// The bars are multiples of the harness's fan-out, which makes each message anew and locks for it. This package's own, which
	// does neither, stands beside it. Without a harness it is the judge, a harder one, and the row says so.
	byFanout := func(fabric string, atLeast float64) {
		add(fabric, fanout, atLeast)
		set.bars[len(set.bars)-1].what += ownFanout
	}
	if others.present() {
		harness := others.throughput("tcp-fanout", sizeBytes, base.Duration)
		set.cases = append(set.cases, harness)
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
	set.bars = append(set.bars,
		bar{what: "allocations per message, shm, " + size, figure: "shm", of: allocsOf, none: true},
		bar{what: "allocations per message, tcp, " + size, figure: "tcp", of: allocsOf, none: true})
	return set
}

// fabricBars are about silent and slow senders, and about batching.
func fabricBars(base Spec) barSet {
	variant := func(name string, change func(*Spec)) Case { return caseOf(base.Fabric+", "+name, base.with(change)) }
	all := variant("all send", func(*Spec) {})
	two := variant("two senders of three", func(s *Spec) { s.Senders = "2" })
	silent := variant("one of three senders silent", func(s *Spec) { s.Delays = map[int]time.Duration{3: Forever} })
	slow := variant("one of three senders sleeps 100 µs", func(s *Spec) { s.Delays = map[int]time.Duration{3: 100 * time.Microsecond} })
	none := variant("batching off", func(s *Spec) { s.Batching = Batching{} })
	return barSet{
		cases: []Case{all, two, silent, slow, none},
		bars: []bar{
			{what: silent.Name, unit: "msgs/s", figure: silent.Name, limit: two.Name, of: rateOf, atLeast: 0.95},
			{what: slow.Name + ": messages of the other two", unit: "msgs/s", figure: slow.Name, limit: all.Name, of: firstTwoOf, atLeast: 0.9},
			{what: base.Fabric + ", batching on, nulls on", unit: "msgs/s", figure: all.Name, limit: none.Name, of: rateOf},
		},
	}
}

// shmBars are about many subgroups, many processes, and none to do.
func shmBars(base Spec) barSet {
	three := caseOf("3 processes, one subgroup", base)
	sixteen := caseOf("16 processes", base.with(func(s *Spec) { s.Nodes = 16 }))
	fifty := caseOf("50 subgroups, one active", base.with(func(s *Spec) { s.Subgroups = 50 }))
	idle := caseOf("idle group of 3", base.with(func(s *Spec) { s.Load = Idle }))
	idleTCP := caseOf("idle group of 3, tcp", base.with(func(s *Spec) { s.Load, s.Fabric = Idle, "tcp" }))
	return barSet{
		cases: []Case{three, sixteen, fifty, idle, idleTCP},
		bars: []bar{
			{what: fifty.Name, unit: "msgs/s", figure: fifty.Name, limit: three.Name, of: rateOf, atLeast: 0.6},
			{what: sixteen.Name + ": deliveries of all members", unit: "msgs/s", figure: sixteen.Name, limit: three.Name, of: totalOf, atLeast: 0.8},
			{what: idle.Name + ": CPU of the busiest", unit: "%", figure: idle.Name, of: cpuOf, atMost: 1},
			{what: idleTCP.Name + ": CPU of the busiest", unit: "%", figure: idleTCP.Name, of: cpuOf, atMost: 1},
		},
	}
}

// latencyBars are about one message at a time.
func latencyBars(base Spec, others rival) barSet {
	base.SizeBytes = 100
	raw := caseOf("raw round trip, tcp", roundTripOf(base, "tcp", false))
	unix := caseOf("raw round trip, unix socket", roundTripOf(base, "unix", false))
	spinning := caseOf("raw round trip, tcp, spinning", roundTripOf(base, "tcp", true))
	raft := others.latency("etcd-raft", base.SizeBytes, base.Duration)
	set := barSet{cases: []Case{raw, unix, spinning, raft}}
	add := func(fabric string, nodes int, limit Case, atMost float64) {
		for _, load := range []Load{FromUpcall, FromThread} {
			c := caseOf(fmt.Sprintf("latency p50, %s, %d processes, sent by the %s", fabric, nodes, load), base.with(func(s *Spec) {
				s.Fabric, s.Nodes, s.Load = fabric, nodes, load
			}))
			set.cases = append(set.cases, c)
			set.bars = append(set.bars, bar{what: c.Name, unit: "µs", figure: c.Name, limit: limit.Name, of: p50Of, atMost: atMost})
		}
	}
	add("tcp", 2, raw, 1)
	add("tcp", 3, raft, 1)
	add("shm", 2, raw, 0.5)
	set.bars = append(set.bars,
		bar{what: unix.Name, unit: "µs", figure: unix.Name, limit: raw.Name, of: p50Of},
		bar{what: spinning.Name, unit: "µs", figure: spinning.Name, limit: raw.Name, of: p50Of})
	return set
}

// rowsOf judges the bars of a set.
func (s barSet) rowsOf(series []Series) (rows []figures.Row) {
	byName := map[string]Series{}
	for _, s := range series {
		byName[s.Name] = s
	}
	for _, b := range s.bars {
		rows = append(rows, b.row(byName))
	}
	return rows
}

// writeMarkdown prints the rows as the table of docs/benchmarks.md.
func (r Report) writeMarkdown(w io.Writer) {
	figures.JudgedTable(w, "ratio (pairs)", r.Rows).RenderMarkdown()
}
