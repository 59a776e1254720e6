package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/squall-go/squall/persist"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

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

// fleet is the processes of a run, and their directories.
type fleet struct {
	*bench.Fleet
	spec Spec
	dir  string
}

// withFleet starts as many processes of a kind, has them do something, and ends them. They may use
// all cores, as an application would: a process that writes is in the kernel most of the time, and
// keeps a place from the others there.
func withFleet(ctx context.Context, s Spec, j job, count int, do func(f *fleet) error) (err error) {
	f := &fleet{spec: s}
	if f.dir, err = os.MkdirTemp(s.Dir, "squall-bench-log-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(f.dir)) }()
	for node := range count {
		if err := os.Mkdir(f.member(node+1), 0o700); err != nil {
			return err
		}
	}
	f.Fleet, err = bench.Start(ctx, bench.FleetConfig{Workload: Workload.Name, Count: count, Config: func(node int) any {
		j.Spec, j.Node, j.Dir = s, node, f.member(node)
		return j
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return do(f)
}

// member is the directory of a node.
func (f *fleet) member(node int) string { return filepath.Join(f.dir, strconv.Itoa(node)) }

// window asks for samples of a window.
func (f *fleet) window(op string, args any) (samples []*Sample, busy float64, err error) {
	return bench.Sampled[*Sample](f.Fleet, bench.Request{Op: op, Args: bench.Args(args)}, f.spec.Warmup, f.spec.Duration)
}

// stream measures a group in which all send.
func stream(ctx context.Context, s Spec) (r Run, err error) {
	err = withFleet(ctx, s, job{Kind: memberKind}, s.Nodes, func(f *fleet) error {
		samples, busy, err := f.window(opStream, []string{logged})
		if err != nil {
			return err
		}
		r = s.summarize(samples, busy)
		return f.finish()
	})
	return r, err
}

// finish waits until everything is on every disk, ends the group, and compares its logs.
func (f *fleet) finish() error {
	sent := uint64(0)
	err := f.Until(func() (missing, fatal error) {
		states, err := bench.Ask[State](f.Fleet, bench.Request{Op: opState}, bench.AnswerWithin)
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
	return f.compare(sent)
}

// sum is how much was sent, and whether all of it is delivered and on every disk.
func sum(states []State) (sent uint64, settled bool) {
	for _, s := range states {
		sent += s.Sent
	}
	return sent, !slices.ContainsFunc(states, func(s State) bool { return s.Delivered != sent || s.Persisted != sent })
}

// compare reads the logs of all members.
func (f *fleet) compare(sent uint64) error {
	var dirs []string
	for node := 1; node <= f.spec.Nodes; node++ {
		dirs = append(dirs, f.member(node))
	}
	all, err := persist.CompareLogs(dirs...)
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
	err = withFleet(ctx, s, job{Kind: memberKind}, s.Nodes, func(f *fleet) error {
		samples, _, err := f.window(opLoop, nil)
		if err != nil {
			return err
		}
		r.Latency = samples[0].Latency
		return f.finish()
	})
	return r, err
}

// beside measures a subgroup without a log, alone and beside one with a log, in the same processes.
func beside(ctx context.Context, s Spec) (r Run, err error) {
	err = withFleet(ctx, s, job{Kind: besideKind}, s.Nodes, func(f *fleet) error {
		alone, _, err := f.window(opStream, []string{unlogged})
		if err != nil {
			return err
		}
		both, busy, err := f.window(opStream, []string{unlogged, logged})
		if err != nil {
			return err
		}
		r = s.summarize(both, busy)
		rate := func(x *Sample) float64 { return perSecond(x.Delivered[1], x.Elapsed) }
		r.Alone, r.Beside = slowest(alone, rate), slowest(both, rate)
		return f.finish()
	})
	return r, err
}

// Pieces that writers write: one as a log does that has much to write, one as it does for a single
// small message, and one as a tree does for that: the page that has the message, the one above it,
// and the root.
const (
	largePiece = 1 << 20
	smallPiece = 4 << 10
	treePiece  = 3 * smallPiece
)

// raw measures processes that only write to the disk, each to a file of its own.
func raw(count int, p pieces) func(ctx context.Context, s Spec) (Run, error) {
	return func(ctx context.Context, s Spec) (r Run, err error) {
		if p.Around {
			if err := checkAround(s.Dir); err != nil {
				return r, err
			}
		}
		err = withFleet(ctx, s, job{Kind: writeKind, Pieces: p}, count, func(f *fleet) error {
			samples, busy, err := f.window(opWrite, nil)
			if err != nil {
				return err
			}
			r.Cores = cores(samples)
			r.BytesRate = slowest(samples, func(x *Sample) float64 { return perSecond(x.Bytes, x.Elapsed) })
			r.Latency, r.Foreign = slowestLatency(samples), max(0, busy-r.Cores)
			return nil
		})
		return r, err
	}
}

// cores is how many cores all processes used.
func cores(samples []*Sample) (n float64) {
	for _, x := range samples {
		n += bench.Ratio(x.CPU.Seconds(), x.Elapsed.Seconds())
	}
	return n
}

// summarize makes a run of what the members of a group saw. busy is how many cores the machine
// used.
func (s Spec) summarize(samples []*Sample, busy float64) (r Run) {
	r.Rate = slowest(samples, func(x *Sample) float64 { return perSecond(x.Persisted, x.Elapsed) })
	r.Delivered = slowest(samples, func(x *Sample) float64 { return perSecond(x.Delivered[0], x.Elapsed) })
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

func perSecond(n uint64, d time.Duration) float64 { return bench.Ratio(float64(n), d.Seconds()) }
