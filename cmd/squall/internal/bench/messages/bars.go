package messages

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

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
	if sizeBytes < 1<<10 { // small messages want many on their way; large ones a ring that stays in the cache
		base.Window, base.RingBytes = 16<<10, 2<<20
	}
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
	// it. This package's own, which does neither, stands beside it. Without a harness it is the
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
	raw := caseOf("raw round trip, tcp", roundTripOf(base, "tcp", false))
	unix := caseOf("raw round trip, unix socket", roundTripOf(base, "unix", false))
	spinning := caseOf("raw round trip, tcp, spinning", roundTripOf(base, "tcp", true))
	raft := latencyOfPeer(others, "etcd-raft", base.SizeBytes, base.Duration)
	s := set{Cases: []Case{raw, unix, spinning, raft}}
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
	s.Bars = append(s.Bars,
		bar{What: unix.Name, Unit: "µs", Figure: unix.Name, Limits: []string{raw.Name}, Of: p50Of},
		bar{What: spinning.Name, Unit: "µs", Figure: spinning.Name, Limits: []string{raw.Name}, Of: p50Of})
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
