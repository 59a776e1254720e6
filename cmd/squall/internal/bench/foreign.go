package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/figures"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// maxForeign is the largest number of foreign processes.
const maxForeign = 64

// startForeign starts n processes that keep a core each as busy as they can, beside whatever is measured, and returns the function that
// ends them. They end with this process, too.
func startForeign(ctx context.Context, n int) (stop func(), err error) {
	var all []*proc.Child
	stop = func() {
		for _, c := range all {
			c.Kill()
		}
		for _, c := range all {
			c.Wait() // it was killed
		}
	}
	for i := range n {
		c, err := proc.Start(ctx, memberCommand, job{Spec: Spec{Kind: Foreign}}, proc.Options{ID: i + 1, Role: "foreign process", Env: []string{"GOMAXPROCS=1"}})
		if err != nil {
			stop()
			return nil, err
		}
		all = append(all, c)
	}
	return stop, nil
}

// compute keeps a core busy until ctx ends.
func compute(ctx context.Context) error {
	for ctx.Err() == nil {
		for end := time.Now().Add(time.Millisecond); time.Now().Before(end); {
		}
	}
	return context.Cause(ctx)
}

// foreignBars are about three members that all send, while foreign processes take their part of the cores.
func foreignBars(base Spec, others rival) barSet {
	d := DefaultSpec()
	d.Warmup, d.Duration = base.Warmup, base.Duration
	shm, tcp := d.with(func(s *Spec) { s.Fabric = "shm" }), d.with(func(s *Spec) { s.Fabric = "tcp" })
	size := figures.Size(d.SizeBytes)
	fanout := caseOf("fan-out, "+size, tcp.limit(Fanout))
	raft := others.throughput("etcd-raft", d.SizeBytes, d.Duration)
	set := barSet{cases: []Case{fanout, caseOf("shm", shm), raft, caseOf("tcp", tcp)}}
	add := func(fabric, limit string, atLeast float64) {
		what := fmt.Sprintf("%s, %s, beside foreign load", fabric, size)
		set.bars = append(set.bars, bar{what: what, unit: "msgs/s", figure: fabric, limit: limit, of: rateOf, atLeast: atLeast})
	}
	judge := fanout.Name
	if others.present() {
		harness := others.throughput("tcp-fanout", d.SizeBytes, d.Duration)
		set.cases = append(set.cases, harness)
		judge = harness.Name
		add("tcp", fanout.Name, 0)
	}
	add("tcp", judge, 0.6)
	add("tcp", raft.Name, 2)
	add("shm", raft.Name, 3)
	return set
}
