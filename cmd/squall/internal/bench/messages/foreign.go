package messages

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// maxForeign is the largest number of foreign processes.
const maxForeign = 64

// startForeign starts n processes that keep a core each as busy as they can, beside whatever is
// measured, and returns the function that ends them. They end with this process, too.
func startForeign(ctx context.Context, n int) (stop func() error, err error) {
	f, err := bench.Start(ctx, bench.FleetConfig{
		Workload: Workload.Name, Count: n,
		Config: func(node int) any { return job{Spec: Spec{Kind: Foreign}, Node: node} },
		Env:    []string{"GOMAXPROCS=1"},
	})
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// foreign is a process that has nothing to do with the others and keeps a core busy.
type foreign struct {
	stop context.CancelFunc
	done chan struct{}
}

func (*foreign) Listen(context.Context) (string, error)                 { return "", nil }
func (*foreign) Answer(_ context.Context, r bench.Request) (any, error) { return nil, r.Unknown() }

// Connect begins to compute.
func (f *foreign) Connect(ctx context.Context, _ []string) error {
	ctx, f.stop = context.WithCancel(ctx)
	f.done = make(chan struct{})
	go func() {
		defer close(f.done)
		compute(ctx)
	}()
	return nil
}

func (f *foreign) Close() error {
	if f.stop != nil {
		f.stop()
		<-f.done
	}
	return nil
}

// compute keeps a core busy until ctx ends.
func compute(ctx context.Context) {
	for ctx.Err() == nil {
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		}
	}
}

// foreignLatencyBars are about one message at a time, of two members, while foreign processes take
// their part of the cores.
func foreignLatencyBars(base Spec) (s set) {
	d := DefaultSpec()
	d.Nodes, d.SizeBytes, d.Warmup, d.Duration = 2, 100, base.Warmup, base.Duration
	raw := caseOf("raw round trip, tcp", roundTripOf(d, "tcp", false))
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
