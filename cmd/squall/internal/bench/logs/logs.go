// Package logs is the command "squall bench log": what it costs a group to keep all that it
// delivers, on every member's disk.
//
// The members are processes on this machine, each with a directory of its own on one disk. All of
// them send. A message counts when it is delivered at the slowest member and on all disks. Next to
// each figure stands its limit, measured in turn with it: processes that do nothing but write to
// that disk and wait for it, through the page cache and around it, one that waits for a single
// page, some that do what one commit of a tree of pages must do, and other systems that do the same
// work.
//
// Life of a run: directories are made → members open the group → warm-up → all count what is
// delivered, and what is on every disk, at the same two instants → the senders stop → everything is
// on every disk → the members end → their logs are read and compared, record by record → the
// directories are removed.
//
// At the end of each run all logs must hold the same records, with the same versions, times,
// senders and data, and as many as were sent; or the run fails.
package logs

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
)

// options are the suite's own flags.
type options struct {
	spec  Spec
	bars  bool
	peers string
}

// NewCommand returns the command "log", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := &options{spec: defaultSpec()}
	cmd := o.suite().Command()
	show.Choices(cmd, "fabric", "shm", "tcp", "auto")
	show.Choices(cmd, "engine", "wal", "bolt")
	return cmd
}

func (o *options) suite() *bench.Suite[Run] {
	section := func(name string, of func(s Spec) set) bench.Section[Run] {
		return bench.Section[Run]{Name: name, Set: func(s *set) { *s = of(o.spec) }}
	}
	return &bench.Suite[Run]{
		Use:   "log",
		Short: "Measure groups that keep what they deliver on disk, and the disk itself in the same run",
		Long: `Log starts the members of a group as processes on this machine, each with a directory of its own on one disk. All of them send, and what
counts is what the slowest member delivered and every disk has. In turn with it the same number of processes do nothing but write 1 MiB at a
time to that disk and wait for it, through the page cache and around it: those are the limits. It also measures one message at a time, a subgroup
without a log next to one with a log, and how long a log takes to open. At the end of each run the logs of all members are read, and must be the same.`,
		Example: `  squall bench log                                    # 3 members, 10 KiB, the engine for high rates
  squall bench log --only stream --size 100 --engine bolt
  squall bench log --only latency                     # one message at a time, next to a single small write
  squall bench log --bars --peers ./peers             # the table of docs/benchmarks.md`,
		Runs: 3, Warmup: &o.spec.Warmup, Duration: &o.spec.Duration, Bars: &o.bars, Flags: o.flags, Check: o.check,
		Sections: []bench.Section[Run]{
			section("stream", streamSet), section("latency", func(s Spec) set { return latencySet(s, s.Engine) }),
			section("mixed", mixedSet), section("reopen", func(s Spec) set { return reopenSet(s, s.Engine) }),
		},
		Sets: o.barSets, Title: o.title, Foreign: func(r Run) float64 { return r.Foreign },
		After: func(r *Report) error {
			r.Dir, r.FileSystem = o.spec.Dir, fileSystem(o.spec.Dir)
			return nil
		},
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	s := &o.spec
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 16")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Engine, "engine", s.Engine, "wal or bolt")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp or auto")
	f.BoolVar(&s.AfterPersist, "after-persist", false, "deliver only what is on every disk")
	f.BoolVar(&s.Sign, "sign", false, "chain all records by their hashes, and sign the chain")
	f.StringVar(&s.Dir, "dir", s.Dir, "where the members' directories are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&s.Records, "records", s.Records, "records of 1 KiB in the log that is opened")
	f.StringVar(&o.peers, "peers", "", "with --bars: the program that measures other systems")
}

func (o *options) check(f *pflag.FlagSet, faults *errs.Faults) {
	faults.Join(
		bench.Refuse(f, o.bars, "--bars brings its own groups", "nodes", "size", "engine", "fabric", "after-persist", "sign", "only"),
		bench.Refuse(f, !o.bars, "only with --bars", "peers"),
		o.spec.check())
}

func (o *options) title() string {
	what := o.spec.String()
	if o.bars {
		what = fmt.Sprintf("%d members, all send", o.spec.Nodes)
	}
	return fmt.Sprintf("%s; logs in %s (%s)", what, o.spec.Dir, fileSystem(o.spec.Dir))
}

// The harness's types for the runs of this workload.
type (
	Series    = bench.Series[Run]
	Report    = bench.Report[Run]
	benchCase = bench.Case[Run]
	bar       = bench.Bar[Run]
	set       = bench.Set[Run]
)

// Figures of a run.
var (
	rateOf  = func(r Run) float64 { return r.Rate }
	bytesOf = func(r Run) float64 { return r.BytesRate / 1e6 }
	p50Of   = func(r Run) float64 { return r.Latency.P50Us }
	p99Of   = func(r Run) float64 { return r.Latency.P99Us }
	aloneOf = func(r Run) float64 { return r.Alone }
	mixedOf = func(r Run) float64 { return r.Beside }
	openOf  = func(r Run) float64 { return r.OpenMs / 1e3 }
	fillOf  = func(r Run) float64 { return r.FillRate / 1e6 }
	cpuOf   = func(r Run) float64 { return r.CPUPerMsg }
)

// caseOf measures a spec. The disk is not the same from one minute to the next, so that bars
// compare the rounds.
func caseOf(name string, measure func(ctx context.Context, s Spec) (Run, error), spec Spec) benchCase {
	return benchCase{Name: name, Measure: func(ctx context.Context) (Run, error) { return measure(ctx, spec) }}
}

// engineName is the case of an engine.
func engineName(engine string, sizeBytes int) string { return engine + ", " + bench.Size(sizeBytes) }

// rawCases are what the disk can do: through the page cache, as most programs write, and around it,
// as an engine may.
func rawCases(spec Spec) (through, around benchCase) {
	return caseOf("raw writes of 1 MiB", raw(spec.Nodes, pieces{Bytes: largePiece}), spec),
		caseOf("raw writes of 1 MiB around the page cache", raw(spec.Nodes, pieces{Bytes: largePiece, Around: true}), spec)
}

// streamSet is what the flags describe, next to what the disk can do.
func streamSet(spec Spec) (s set) {
	through, around := rawCases(spec)
	own := caseOf(engineName(spec.Engine, spec.SizeBytes), stream, spec)
	s.Compare(own, "MB/s", bytesOf, bench.Asked{}, through)
	s.Compare(own, "MB/s", bytesOf, bench.Asked{}, around)
	s.Alone("delivered, and on every disk", "msgs/s", own, rateOf, bench.Asked{})
	s.Alone("processor time of all members", "µs/msg", own, cpuOf, bench.Asked{})
	return s
}

// latencySet is one message at a time, next to one small write that nothing disturbs.
func latencySet(spec Spec, engines ...string) (s set) {
	spec.SizeBytes = min(spec.SizeBytes, 100)
	write := caseOf("one write of 4 KiB", raw(1, pieces{Bytes: smallPiece}), spec)
	for _, engine := range engines {
		own := caseOf("latency p50, "+engine, loop, spec.with(func(s *Spec) { s.Engine = engine }))
		s.Compare(own, "µs", p50Of, bench.Asked{AtMost: 3}, write)
		s.Judge(bar{What: "latency p99, " + engine, Unit: "µs", Figure: own, Of: p99Of, Limits: []benchCase{write}})
	}
	return s
}

// mixedSet is a subgroup without a log, next to one that has more to write than it can.
func mixedSet(spec Spec) (s set) {
	own := caseOf("without a log next to one with a log, "+engineName(spec.Engine, spec.SizeBytes), mixed, spec)
	s.Judge(bar{Unit: "msgs/s", Figure: own, Of: mixedOf, Limits: []benchCase{own}, LimitOf: aloneOf, LimitName: "alone", Asked: bench.Asked{AtLeast: 0.5}})
	s.Alone("the one with a log at the same time", "MB/s", own, bytesOf, bench.Asked{})
	return s
}

// reopenSet is how long a log takes to open.
func reopenSet(spec Spec, engines ...string) (s set) {
	for _, engine := range engines {
		name := fmt.Sprintf("open a log of %s records of 1 KiB, %s", show.Number(float64(spec.Records)), engine)
		own := caseOf(name, reopen, spec.with(func(s *Spec) { s.Engine = engine }))
		s.Compare(own, "s", openOf, bench.Asked{Under: 2})
		s.Alone("filling it", "MB/s", own, fillOf, bench.Asked{})
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

// barSets are all bars, if they are asked for. The flags give the durations and the directory.
func (o *options) barSets() (sets []set) {
	if !o.bars {
		return nil
	}
	for _, a := range []asked{{10 << 10, 0.7, 2, 1.2, 1.5}, {100, 0, 3, 2.5, 3}} {
		sets = append(sets, a.streamBars(o.spec.with(func(s *Spec) { s.SizeBytes = a.sizeBytes }), bench.Peers{Path: o.peers}))
	}
	return append(sets, latencySet(o.spec, "wal", "bolt"), mixedSet(o.spec), reopenSet(o.spec, "wal", "bolt"))
}

// streamBars are about three members that all send, against the disk and other systems.
func (a asked) streamBars(spec Spec, others bench.Peers) (s set) {
	own := func(engine, variant string, change func(*Spec)) benchCase {
		return caseOf(engineName(engine, a.sizeBytes)+variant, stream, spec.with(func(s *Spec) { s.Engine = engine; change(s) }))
	}
	peer := func(name string) benchCase { return durable(others, spec.Dir, name, a.sizeBytes, spec.Duration) }
	through, around := rawCases(spec)
	wal, bolt := own("wal", "", func(*Spec) {}), own("bolt", "", func(*Spec) {})
	var best []benchCase
	for _, name := range products {
		best = append(best, peer(name))
	}
	s.Compare(wal, "MB/s", bytesOf, bench.Asked{AtLeast: a.raw}, through)
	s.Compare(wal, "MB/s", bytesOf, bench.Asked{}, around)
	s.Compare(wal, "msgs/s", rateOf, bench.Asked{AtLeast: a.product}, best...)
	s.Compare(wal, "msgs/s", rateOf, bench.Asked{AtLeast: a.raft}, peer(harnessRaft))
	s.Compare(bolt, "msgs/s", rateOf, bench.Asked{AtLeast: a.boltdb}, peer(boltRaft))
	s.Compare(bolt, "MB/s", bytesOf, bench.Asked{}, through)
	s.Compare(own("wal", ", delivered after persist", func(s *Spec) { s.AfterPersist = true }), "msgs/s", rateOf, bench.Asked{}, wal)
	s.Compare(own("wal", ", signed", func(s *Spec) { s.Sign = true }), "msgs/s", rateOf, bench.Asked{}, wal)
	return s
}

// durable is the case of a peer that streams messages and has each on disk before it counts. In one
// of them only the leader takes proposals.
func durable(p bench.Peers, dir, peer string, sizeBytes int, d time.Duration) benchCase {
	proposers := "3"
	if peer == boltRaft {
		proposers = "1"
	}
	return benchCase{Name: bench.PeerName(peer, sizeBytes), Measure: func(ctx context.Context) (Run, error) {
		r, err := p.Measure(ctx, "-peer", peer, "-size", strconv.Itoa(sizeBytes), "-proposers", proposers, "-mode", "durable",
			"-secs", bench.Seconds(d), "-lat", "0", "-dir", dir)
		return Run{
			Rate: r.Rate, BytesRate: r.Rate * float64(sizeBytes), CPUPerMsg: r.CPUus, Cores: r.CPUus * r.Rate / 1e6, Foreign: r.Foreign,
		}, err
	}}
}
