package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/persist"
	"github.com/squall-go/squall/persist/bolt"
	"github.com/squall-go/squall/persist/wal"
)

// Spec is what is measured.
type Spec struct {
	Nodes        int           `json:"nodes"`
	SizeBytes    int           `json:"size_bytes"`
	Engine       string        `json:"engine"` // "wal" or "bolt"
	Fabric       string        `json:"fabric"` // "shm", "tcp" or "auto"
	AfterPersist bool          `json:"after_persist"`
	Sign         bool          `json:"sign"`
	Warmup       time.Duration `json:"warmup"`
	Duration     time.Duration `json:"duration"`
	Dir          string        `json:"dir"`
	Records      int           `json:"records,omitempty"`
}

var engines = map[string]squall.LogEngine{"wal": wal.Engine, "bolt": bolt.Engine}

// defaultSpec is three members that stream 10 KiB messages into the engine for high rates.
func defaultSpec() Spec {
	return Spec{
		Nodes: 3, SizeBytes: 10 << 10, Engine: "wal", Fabric: "auto", Warmup: time.Second, Duration: 3 * time.Second, Dir: ".", Records: 1_000_000,
	}
}

// with is the spec with changes made to a copy.
func (s Spec) with(change func(*Spec)) Spec {
	change(&s)
	return s
}

// check reports all faults at once.
func (s *Spec) check() error {
	var faults errs.Faults
	faults.If(s.Nodes < 2 || s.Nodes > 16, "--nodes is %d: 2 to 16", s.Nodes)
	if _, ok := engines[s.Engine]; !ok {
		faults.Add("--engine is %q: wal or bolt", s.Engine)
	}
	if _, ok := bench.Fabrics[s.Fabric]; !ok {
		faults.Add("--fabric is %q: shm, tcp or auto", s.Fabric)
	}
	faults.If(s.SizeBytes < bench.IndexBytes || s.SizeBytes > 128<<10,
		"--size is %d: %d bytes to 128 KiB", s.SizeBytes, bench.IndexBytes)
	faults.If(s.Records < 2 || s.Records > 1<<30, "--records is %d: 2 to %d", s.Records, 1<<30)
	faults.Join(checkDisk(s.Dir))
	return faults.Err()
}

// String tells the spec in half a line.
func (s *Spec) String() string {
	text := fmt.Sprintf("%d members, %s, all send, engine %s, fabric %s", s.Nodes, bench.Size(s.SizeBytes), s.Engine, s.Fabric)
	if s.AfterPersist {
		text += ", delivered after persist"
	}
	if s.Sign {
		text += ", signed"
	}
	return text
}

// Run is what one run came to. Rates are the slowest member's.
type Run struct {
	Rate      float64       `json:"rate,omitempty"`           // messages/s that were delivered, and on every disk
	Delivered float64       `json:"delivered_rate,omitempty"` // messages/s that were delivered
	BytesRate float64       `json:"bytes_rate,omitempty"`     // bytes/s that came to the disk: of messages, or of what a writer writes
	CPUPerMsg float64       `json:"cpu_us_per_msg,omitempty"` // user and system of all members, microseconds per message
	Cores     float64       `json:"cores,omitempty"`          // that all members used
	Foreign   float64       `json:"foreign_cores"`            // that others used meanwhile
	Latency   bench.Latency `json:"latency,omitzero"`
	Alone     float64       `json:"alone_rate,omitempty"`  // messages/s without a log, while the one with a log has nothing to do
	Beside    float64       `json:"beside_rate,omitempty"` // and while it has more than it can do
	OpenMs    float64       `json:"open_ms,omitempty"`     // until the first and the last record were read
	FillRate  float64       `json:"fill_rate,omitempty"`   // bytes/s while the log was filled
}

// What must not come out of a run.
var (
	errDiffer = errors.New("the logs of the members differ")
	errCount  = errors.New("the logs hold something else than was sent")
)

// errNotSettled says that messages were lost, or take too long.
var errNotSettled = errors.New("not everything that was sent came to every disk")

// withFleet starts as many processes of a kind, each with a directory, has them do something, and
// ends them. They may use all cores, as an application would: a process that writes is in the
// kernel most of the time, and keeps a place from the others there.
func withFleet(ctx context.Context, j job, count int, do func(f *bench.Fleet) error) error {
	return bench.Run(ctx, bench.FleetConfig{Workload: Workload.Name, Count: count, Spec: j, Logs: j.Dir}, do)
}

// window asks for samples of a window.
func (s Spec) sample(f *bench.Fleet, op string, args any) (samples []*Sample, busy float64, err error) {
	return bench.Sampled[*Sample](f, bench.Request{Op: op, Args: bench.Args(args)}, s.Warmup, s.Duration)
}

// stream measures a group in which all send.
func stream(ctx context.Context, s Spec) (r Run, err error) {
	err = withFleet(ctx, job{Spec: s, Kind: memberKind}, s.Nodes, func(f *bench.Fleet) error {
		samples, busy, err := s.sample(f, opStream, []string{logged})
		if err != nil {
			return err
		}
		r = s.summarize(samples, busy)
		return s.finish(ctx, f)
	})
	return r, err
}

// finish waits until everything is on every disk, ends the group, and compares its logs.
func (s Spec) finish(ctx context.Context, f *bench.Fleet) error {
	sent := uint64(0)
	err := f.Until(func() (missing, fatal error) {
		states, err := bench.Ask[State](f, bench.Request{Op: opState}, bench.AnswerWithin)
		if err != nil {
			return nil, err
		}
		settled := false
		if sent, settled = sum(states); !settled {
			missing = fmt.Errorf("%w: %d were sent", errNotSettled, sent)
		}
		return missing, nil
	})
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	var dirs []string
	for node := 1; node <= s.Nodes; node++ {
		dirs = append(dirs, f.Dir(node))
	}
	return compare(ctx, dirs, sent)
}

// sum is how much was sent, and whether all of it is delivered and on every disk.
func sum(states []State) (sent uint64, settled bool) {
	for _, s := range states {
		sent += s.Sent
	}
	return sent, !slices.ContainsFunc(states, func(s State) bool { return s.Delivered != sent || s.Persisted != sent })
}

// compare reads the logs of all members.
func compare(ctx context.Context, dirs []string, sent uint64) error {
	all, err := persist.CompareLogs(ctx, dirs...)
	if err != nil {
		return err
	}
	if len(all) != 1 {
		return fmt.Errorf("%w: there are %d, and one subgroup", errDiffer, len(all))
	}
	switch c := all[0]; {
	case c.Differ != "" || len(c.Dirs) != len(dirs):
		return fmt.Errorf("%w: %v in %d of %d directories: %s", errDiffer, c.Log, len(c.Dirs), len(dirs), c.Differ)
	case c.Records != sent:
		return fmt.Errorf("%w: %d records are the same everywhere, and %d messages were sent", errCount, c.Records, sent)
	}
	return nil
}

// loop measures one message at a time.
func loop(ctx context.Context, s Spec) (r Run, err error) {
	err = withFleet(ctx, job{Spec: s, Kind: memberKind}, s.Nodes, func(f *bench.Fleet) error {
		samples, _, err := s.sample(f, opLoop, nil)
		if err != nil {
			return err
		}
		r.Latency = samples[0].Latency
		return s.finish(ctx, f)
	})
	return r, err
}

// mixed measures the rate of a subgroup without a log, first alone, then while a subgroup with a
// log is busy.
func mixed(ctx context.Context, s Spec) (r Run, err error) {
	err = withFleet(ctx, job{Spec: s, Kind: mixedKind}, s.Nodes, func(f *bench.Fleet) error {
		alone, _, err := s.sample(f, opStream, []string{unlogged})
		if err != nil {
			return err
		}
		both, busy, err := s.sample(f, opStream, []string{unlogged, logged})
		if err != nil {
			return err
		}
		r = s.summarize(both, busy)
		rate := func(x *Sample) float64 { return x.Rate(float64(x.Delivered[1])) }
		r.Alone, r.Beside = slowest(alone, rate), slowest(both, rate)
		return s.finish(ctx, f)
	})
	return r, err
}

// Pieces that writers write: one as a log does that has much to write, and one as it does for a
// single small message.
const (
	largePiece = 1 << 20
	smallPiece = 4 << 10
)

// raw measures processes that only write to the disk, each to a file of its own.
func raw(count int, p pieces) func(ctx context.Context, s Spec) (Run, error) {
	return func(ctx context.Context, s Spec) (r Run, err error) {
		if p.Around {
			if err := checkAround(s.Dir); err != nil {
				return r, err
			}
		}
		err = withFleet(ctx, job{Spec: s, Kind: writeKind, Pieces: p}, count, func(f *bench.Fleet) error {
			samples, busy, err := s.sample(f, opWrite, nil)
			if err != nil {
				return err
			}
			r.Cores = cores(samples)
			r.BytesRate = slowest(samples, func(x *Sample) float64 { return x.Rate(float64(x.Bytes)) })
			r.Latency, r.Foreign = slowestLatency(samples), max(0, busy-r.Cores)
			return nil
		})
		return r, err
	}
}

// cores is how many cores all processes used.
func cores(samples []*Sample) (n float64) {
	for _, x := range samples {
		n += x.Rate(x.CPU.Seconds())
	}
	return n
}

// summarize makes a run of what the members of a group saw. busy is how many cores the machine
// used.
func (s Spec) summarize(samples []*Sample, busy float64) (r Run) {
	r.Rate = slowest(samples, func(x *Sample) float64 { return x.Rate(float64(x.Persisted)) })
	r.Delivered = slowest(samples, func(x *Sample) float64 { return x.Rate(float64(x.Delivered[0])) })
	r.BytesRate = r.Rate * float64(s.SizeBytes)
	r.Cores = cores(samples)
	r.CPUPerMsg = bench.Ratio(r.Cores*1e6, r.Rate)
	r.Foreign = max(0, busy-r.Cores)
	return r
}

func slowest(samples []*Sample, rate func(*Sample) float64) float64 {
	least := rate(samples[0])
	for _, x := range samples[1:] {
		least = min(least, rate(x))
	}
	return least
}

// slowestLatency returns the latency of the process that waits longest: a message is on every disk
// when it is on the last disk.
func slowestLatency(samples []*Sample) bench.Latency {
	return slices.MaxFunc(samples, func(a, b *Sample) int { return cmp.Compare(a.Latency.P50Us, b.Latency.P50Us) }).Latency
}
