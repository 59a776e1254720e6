package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/rdma"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/wait"
)

// Fabrics are the fabrics that a flag can name.
var Fabrics = map[string]squall.Fabric{"auto": squall.FabricAuto, "shm": squall.FabricSHM, "tcp": squall.FabricTCP, "verbs": squall.FabricTransport}

// Cluster is the name of all groups that are measured.
const Cluster = "bench"

// joinWithin is how long members wait for each other, failAfter how long a member may be silent on
// a machine with far fewer cores than members.
const (
	joinWithin = 30 * time.Second
	failAfter  = 10 * time.Second
)

// Group is one member of a group that is measured: node 1 bootstraps it, and the others join it.
type Group struct {
	*squall.Group // once it is connected
	Config        squall.Config
	// Opener opens the group: squall.Open, unless a workload sets another function.
	Opener func(context.Context, squall.Config) (*squall.Group, error)
	// Survives says that the run goes on when a member fails.
	Survives  bool
	subgroups map[string]*squall.Subgroup

	opened  chan struct{} // closed when the first member has opened the group, or could not
	openErr error         // W: before opened is closed

	Failing
}

// NewGroup returns a member that is not open yet. The caller adds subgroups to its configuration.
func NewGroup(node, nodes int, fabric string) *Group {
	g := &Group{opened: make(chan struct{}), Opener: squall.Open, Failing: NewFailing(), subgroups: map[string]*squall.Subgroup{}}
	g.Config = squall.Config{
		Cluster: Cluster, ID: squall.NodeID(node), Listen: "127.0.0.1:0", InitialMembers: nodes, Fabric: Fabrics[fabric], FailAfter: failAfter,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
		Events: g.happened,
	}
	return g
}

// InFlight is how much may be in flight from a sender of messages of a size: many small ones, or
// large ones in a ring that stays in the cache. 0 is the default.
func InFlight(sizeBytes int) (window, ringBytes int) {
	if sizeBytes < 1<<10 {
		return 16 << 10, 2 << 20
	}
	return 0, 0
}

// Listen begins to open the group at its first member, whose address the others have to know. They
// have none before they join.
func (g *Group) Listen(ctx context.Context) (string, error) {
	if g.Config.ID > 1 {
		return "", nil
	}
	addr := make(chan string, 1)
	g.Config.Events = func(e squall.Event) {
		g.happened(e)
		if l, ok := e.(squall.Listening); ok {
			addr <- l.Addr
		}
	}
	go func() {
		g.openErr = g.open(ctx)
		close(g.opened)
	}()
	select {
	case a := <-addr:
		return a, nil
	case <-g.opened:
	}
	if g.openErr != nil {
		return "", g.openErr
	}
	return <-addr, nil // a group of one opens at once
}

func (g *Group) open(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	if err = rdma.Use(&g.Config); err != nil {
		return err
	}
	if g.Group, err = g.Opener(ctx, g.Config); err != nil {
		return err
	}
	for _, sg := range g.Config.Subgroups {
		if g.subgroups[sg.Name], err = g.Group.Subgroup(sg.Name); err != nil {
			return err
		}
	}
	return nil
}

// Subgroup returns a subgroup of the configuration.
func (g *Group) Subgroup(name string) *squall.Subgroup { return g.subgroups[name] }

// Connect waits until all members are in the group.
func (g *Group) Connect(ctx context.Context, addrs []string) error {
	if g.Config.ID > 1 {
		g.Config.Join = addrs[:1]
		if err := g.open(ctx); err != nil {
			return err
		}
	} else if <-g.opened; g.openErr != nil {
		return g.openErr
	}
	go func() {
		<-g.Done()
		g.Fail(g.Err())
	}()
	return nil
}

// happened ends the run when a member fails: the others go on, but what they do then is not what
// was to be measured.
func (g *Group) happened(e squall.Event) {
	if down, ok := e.(squall.MemberDown); ok && !g.Survives {
		g.Fail(errors.New(down.String()))
	}
}

// Close leaves the group.
func (g *Group) Close() error {
	if g.Group == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endWithin/2)
	defer cancel()
	return g.Group.Close(ctx)
}

// Failing keeps the first failure of a member's background work, for which no goroutine waits.
type Failing struct {
	failed  chan struct{}
	failure error // W: the first to fail, before failed is closed
	once    *sync.Once
}

// NewFailing returns one without a failure.
func NewFailing() Failing { return Failing{failed: make(chan struct{}), once: &sync.Once{}} }

// Fail ends the run.
func (f *Failing) Fail(err error) {
	f.once.Do(func() {
		f.failure = err
		close(f.failed)
	})
}

// Failure is why the run has ended, or nil.
func (f *Failing) Failure() error {
	select {
	case <-f.failed:
		return f.failure
	default:
		return nil
	}
}

// WhileWell returns a context that ends also when the run fails.
func (f *Failing) WhileWell(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-f.failed:
			cancel(f.failure)
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Usage is what a process used in a window.
type Usage struct {
	Elapsed time.Duration // between the two looks
	CPU     time.Duration // user and system
	Mallocs uint64        // objects allocated
}

// Rate is how many of a count there were in a second.
func (u Usage) Rate(count float64) float64 { return Ratio(count, u.Elapsed.Seconds()) }

// Observe returns how much each count grows in the window of a request, to whose end it sleeps.
func Observe(ctx context.Context, r Request, count func() []uint64) (grown []uint64, u Usage, err error) {
	if err := wait.Sleep(ctx, time.Until(r.From)); err != nil {
		return nil, u, err
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	mallocs, cpu, start := memory.Mallocs, proc.CPUTime(), time.Now()
	before := count()
	if err := wait.Sleep(ctx, time.Until(r.To)); err != nil {
		return nil, u, err
	}
	grown = count()
	u.Elapsed, u.CPU = time.Since(start), proc.CPUTime()-cpu
	runtime.ReadMemStats(&memory)
	u.Mallocs = memory.Mallocs - mallocs
	for i := range grown {
		grown[i] -= before[i]
	}
	return grown, u, nil
}

// IndexBytes is the size of a message's first field: its index among its sender's messages.
const IndexBytes = 8

// pattern is what messages are filled with. It stays in the first cache, so that filling costs what
// writing costs.
var pattern = func() (p [4 << 10]byte) {
	for i := range p {
		p[i] = byte(i*7 + 1)
	}
	return p
}()

// Fill writes every byte of a message.
func Fill(b []byte, index uint64) {
	for done := 0; done < len(b); {
		done += copy(b[done:], pattern[:])
	}
	if len(b) >= IndexBytes {
		binary.LittleEndian.PutUint64(b, index)
	}
}

// Touch reads one byte of each cache line. The sum is for the caller to keep, or the compiler would
// leave it out.
func Touch(b []byte) (sum uint64) {
	for i := 0; i < len(b); i += 64 {
		sum += uint64(b[i])
	}
	return sum
}

// Latency is a distribution of latencies in microseconds.
type Latency struct {
	Count         int64
	P50Us, P99Us  float64
	MinUs, MeanUs float64
}

// NewHistogram takes latencies in nanoseconds up to a minute. Longer ones are not recorded.
func NewHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// LatencyOf summarizes a histogram.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	us := func(ns int64) float64 { return float64(ns) / 1e3 }
	return Latency{
		Count: h.TotalCount(), P50Us: us(h.ValueAtQuantile(50)), P99Us: us(h.ValueAtQuantile(99)), MinUs: us(h.Min()), MeanUs: h.Mean() / 1e3,
	}
}
