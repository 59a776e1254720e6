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
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/cmd/squall/internal/show"
	"github.com/squall-go/squall/internal/errs"
)

// options are the command's flags.
type options struct {
	spec   Spec
	runs   int
	json   bool
	quick  bool
	limits bool

	latency, mixed, reopen, bars bool
	peers                        string
}

// NewCommand returns the command "log", which belongs below "bench".
func NewCommand() *cobra.Command {
	o := options{spec: defaultSpec()}
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Measure groups that keep what they deliver on disk, and the disk itself in the same run",
		Long: `Log starts the members of a group as processes on this machine, each with a directory of its own on one disk. All of them send, and what
counts is what the slowest member delivered and every disk has. In turn with it the same number of processes do nothing but write 1 MiB at a
time to that disk and wait for it, through the page cache and around it: those are the limits. At the end of each run the logs of all members are read, and must be the same.`,
		Example: `  squall bench log                                    # 3 members, 10 KiB, the engine for high rates
  squall bench log --size 100 --engine bolt
  squall bench log --latency                          # one message at a time, next to a single small write
  squall bench log --mixed                           # what a log costs a subgroup next to it that has none
  squall bench log --reopen                           # how long a log of 1 GB takes to open
  squall bench log --bars --peers ./peers             # the table of docs/benchmarks.md`,
		Args: cobra.NoArgs,
		RunE: show.Run(o.complete, o.run),
	}
	o.declare(cmd.Flags())
	show.Choices(cmd, "fabric", "shm", "tcp", "auto")
	show.Choices(cmd, "engine", "wal", "bolt")
	return cmd
}

func (o *options) declare(f *pflag.FlagSet) {
	s := &o.spec
	f.SortFlags = false
	f.IntVar(&s.Nodes, "nodes", s.Nodes, "members, each a process: 2 to 16")
	f.IntVar(&s.SizeBytes, "size", s.SizeBytes, "bytes of a message")
	f.StringVar(&s.Engine, "engine", s.Engine, "wal or bolt")
	f.StringVar(&s.Fabric, "fabric", s.Fabric, "shm, tcp or auto")
	f.BoolVar(&s.AfterPersist, "after-persist", false, "deliver only what is on every disk")
	f.BoolVar(&s.Sign, "sign", false, "chain all records by their hashes, and sign the chain")
	f.IntVar(&s.Window, "window", 0, "messages in flight per sender, a power of two (default: by the size)")
	f.IntVar(&s.RingBytes, "ring", 0, "bytes in flight per sender, a power of two (default: by the size)")
	f.IntVar(&s.Memory, "memory", 0, "bytes that are delivered and not on disk yet, per member (default: the group's, 16 MiB)")

	f.BoolVar(&o.latency, "latency", false, "measure one message at a time, until it is on every disk")
	f.BoolVar(&o.mixed, "mixed", false, "measure a subgroup without a log, alone and next to one with a log")
	f.BoolVar(&o.reopen, "reopen", false, "measure how long a log takes to open")
	f.BoolVar(&o.bars, "bars", false, "measure what Squall promises of its logs, and print a table in Markdown")
	f.StringVar(&o.peers, "peers", "", "with --bars: the program that measures other systems")

	f.StringVar(&s.Dir, "dir", s.Dir, "where the members' directories are made, and removed afterwards: on the disk that is to be measured")
	f.IntVar(&s.Records, "records", s.Records, "with --reopen or --bars: records of 1 KiB in the log that is opened")
	f.DurationVar(&s.Warmup, "warmup", s.Warmup, "time before the measurement")
	f.DurationVar(&s.Duration, "duration", s.Duration, "time of the measurement")
	f.IntVar(&o.runs, "runs", 3, "runs of everything")
	f.BoolVar(&o.limits, "limits", true, "measure the limits too")
	f.BoolVar(&o.quick, "quick", false, "short runs, which show that everything works and no more")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// complete reports everything that is wrong with the flags, at once.
func (o *options) complete(f *pflag.FlagSet) error {
	var faults errs.Faults
	faults.Join(
		bench.OneAtATime(f, "latency", "mixed", "reopen", "bars"),
		bench.Refuse(f, o.bars, "--bars brings its own groups",
			"nodes", "size", "engine", "fabric", "after-persist", "sign", "window", "ring", "memory", "limits"),
		bench.Refuse(f, !o.bars, "only with --bars", "peers"))
	faults.If(o.runs < 1 || o.runs > 1000, "--runs is %d: 1 to 1000", o.runs)
	if o.quick {
		o.shorten(f)
	}
	faults.Join(o.spec.check())
	return faults.Err()
}

// shorten makes everything short that was not asked for.
func (o *options) shorten(f *pflag.FlagSet) {
	q := o.spec.quick()
	for name, set := range map[string]func(){
		"warmup":   func() { o.spec.Warmup = q.Warmup },
		"duration": func() { o.spec.Duration = q.Duration },
		"records":  func() { o.spec.Records = q.Records },
		"runs":     func() { o.runs = 1 },
	} {
		if !f.Changed(name) {
			set()
		}
	}
}

// run measures what the flags ask for.
func (o *options) run(ctx context.Context, out, messages io.Writer) error {
	r, err := bench.Measure(ctx, o.runs, o.sets(), foreignOf, messages)
	if err != nil {
		return err
	}
	r.Dir, r.FileSystem = o.spec.Dir, fileSystem(o.spec.Dir)
	return r.Print(out, bench.Output{JSON: o.json, Markdown: o.bars, Title: o.title(r)})
}

// sets are the cases that are measured, and what they are held against.
func (o *options) sets() []set {
	switch {
	case o.bars:
		return barSets(o.spec, bench.Peers{Path: o.peers})
	case o.latency:
		return []set{latencySet(o.spec, o.spec.Engine)}
	case o.mixed:
		return []set{mixedSet(o.spec)}
	case o.reopen:
		return []set{reopenSet(o.spec, o.spec.Engine)}
	}
	return []set{streamSet(o.spec, o.limits)}
}

func (o *options) title(r Report) string {
	return fmt.Sprintf("%v\n%s; logs in %s (%s); medians of %d runs of %v in turn, in parentheses their range.", r.Machine, o.what(), r.Dir, r.FileSystem, r.Runs, o.spec.Duration)
}

// what tells what was measured.
func (o *options) what() string {
	switch {
	case o.bars:
		return fmt.Sprintf("%d members, all send", o.spec.Nodes)
	case o.latency:
		return fmt.Sprintf("%d members, one message at a time", o.spec.Nodes)
	case o.reopen:
		return "1 process"
	}
	return o.spec.String()
}

// The harness's types for the runs of this workload.
type (
	Series = bench.Series[Run]
	Report = bench.Report[Run]
	bar    = bench.Bar[Run]
	set    = bench.Set[Run]
)

// Figures of a run.
var (
	rateOf    = func(r Run) float64 { return r.Rate }
	bytesOf   = func(r Run) float64 { return r.BytesRate / 1e6 }
	p50Of     = func(r Run) float64 { return r.Latency.P50Us }
	p99Of     = func(r Run) float64 { return r.Latency.P99Us }
	aloneOf   = func(r Run) float64 { return r.Alone }
	mixedOf   = func(r Run) float64 { return r.Beside }
	openOf    = func(r Run) float64 { return r.OpenMs / 1e3 }
	fillOf    = func(r Run) float64 { return r.FillRate / 1e6 }
	cpuOf     = func(r Run) float64 { return r.CPUPerMsg }
	foreignOf = func(r Run) float64 { return r.Foreign }
)

// caseOf measures a spec. The disk is not the same from one minute to the next, so that bars
// compare the rounds.
func caseOf(name string, measure func(ctx context.Context, s Spec) (Run, error), spec Spec) bench.Case[Run] {
	return bench.Case[Run]{Name: name, Measure: func(ctx context.Context) (Run, error) { return measure(ctx, spec) }}
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
func addRaw(s *set, spec Spec) {
	s.Add(caseOf(rawName, raw(spec.Nodes, pieces{Bytes: largePiece}), spec),
		caseOf(aroundName, raw(spec.Nodes, pieces{Bytes: largePiece, Around: true}), spec))
}

// streamSet is what the flags describe, next to what the disk can do.
func streamSet(spec Spec, limits bool) (s set) {
	if limits {
		addRaw(&s, spec)
	}
	name := engineName(spec.Engine, spec.SizeBytes)
	s.Add(caseOf(name, stream, spec))
	if limits {
		s.Compare(name, "MB/s", bytesOf, bench.Asked{}, rawName)
		s.Compare(name, "MB/s", bytesOf, bench.Asked{}, aroundName)
	} else {
		s.Alone(name, "MB/s", name, bytesOf)
	}
	s.Alone("delivered, and on every disk", "msgs/s", name, rateOf)
	s.Alone("processor time of all members", "µs/msg", name, cpuOf)
	return s
}

// latencySet is one message at a time, next to one small write that nothing disturbs. An engine
// that is a tree stands also next to the writes that no tree can do without, at as many processes
// at once: how much of its latency is inherent.
func latencySet(spec Spec, engines ...string) (s set) {
	spec.SizeBytes = min(spec.SizeBytes, 100)
	s.Add(caseOf(syncName, raw(1, pieces{Bytes: smallPiece}), spec))
	for _, engine := range engines {
		name := "latency p50, " + engine
		if engine == treeEngine {
			s.Add(caseOf(commitName(spec.Nodes), raw(spec.Nodes, pieces{Bytes: treePiece, Head: true}), spec))
		}
		s.Add(caseOf(name, loop, spec.with(func(s *Spec) { s.Engine = engine })))
		s.Judge(bar{ByRound: true, What: name, Unit: "µs", Figure: name, Of: p50Of, Limits: []string{syncName}, Asked: bench.Asked{AtMost: 3}})
		if engine == treeEngine {
			s.Compare(name, "µs", p50Of, bench.Asked{}, commitName(spec.Nodes))
		}
		s.Judge(bar{ByRound: true, What: "latency p99, " + engine, Unit: "µs", Figure: name, Of: p99Of, Limits: []string{syncName}})
	}
	return s
}

// mixedSet is a subgroup without a log, next to one that has more to write than it can.
func mixedSet(spec Spec) (s set) {
	name := fmt.Sprintf("without a log next to one with a log, %s", engineName(spec.Engine, spec.SizeBytes))
	s.Add(caseOf(name, mixed, spec))
	s.Judge(bar{ByRound: true, What: name, Unit: "msgs/s", Figure: name, Of: mixedOf, Limits: []string{name}, LimitOf: aloneOf, Asked: bench.Asked{AtLeast: 0.5}})
	s.Alone("the one with a log at the same time", "MB/s", name, bytesOf)
	return s
}

// reopenSet is how long a log takes to open.
func reopenSet(spec Spec, engines ...string) (s set) {
	for _, engine := range engines {
		name := fmt.Sprintf("open a log of %s records of 1 KiB, %s", show.Number(float64(spec.Records)), engine)
		s.Add(caseOf(name, reopen, spec.with(func(s *Spec) { s.Engine = engine })))
		s.Judge(bar{ByRound: true, What: name, Unit: "s", Figure: name, Of: openOf, Asked: bench.Asked{Under: 2}})
		s.Alone("filling it", "MB/s", name, fillOf)
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
	return append(sets, latencySet(spec, "wal", "bolt"), mixedSet(spec), reopenSet(spec, "wal", "bolt"))
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
	addRaw(&s, spec)
	for _, v := range variants {
		s.Add(caseOf(v.name, stream, spec.with(v.change)))
	}
	var all []string
	for _, peer := range append([]string{harnessRaft}, products...) {
		c := durable(others, spec.Dir, peer, a.sizeBytes, spec.Duration)
		s.Add(c)
		all = append(all, c.Name)
	}
	s.Compare(wal, "MB/s", bytesOf, bench.Asked{AtLeast: a.raw}, rawName)
	s.Compare(wal, "MB/s", bytesOf, bench.Asked{}, aroundName)
	s.Compare(wal, "msgs/s", rateOf, bench.Asked{AtLeast: a.product}, all[1:]...)
	s.Compare(wal, "msgs/s", rateOf, bench.Asked{AtLeast: a.raft}, all[0])
	s.Compare(bolt, "msgs/s", rateOf, bench.Asked{AtLeast: a.boltdb}, bench.PeerName(boltRaft, a.sizeBytes))
	s.Compare(bolt, "MB/s", bytesOf, bench.Asked{}, rawName)
	for _, v := range variants[2:] {
		s.Compare(v.name, "msgs/s", rateOf, bench.Asked{}, wal)
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
