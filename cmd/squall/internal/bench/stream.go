package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// joinWithin is how long members wait for each other, failAfter how long a member may be silent on a machine with far fewer cores
// than members.
const (
	joinWithin = 30 * time.Second
	failAfter  = 10 * time.Second
)

// groupMember is one member of a group.
type groupMember struct {
	job
	tally *tally
	group *squall.Group
	sent  atomic.Uint64

	opened  chan struct{} // closed when the founder has opened the group, or could not
	openErr error         // W: before opened is closed

	ended   atomic.Bool // no more messages
	sending sync.WaitGroup
	cancel  context.CancelCauseFunc // of the senders
	failed  chan struct{}
	failure error // W: the first to fail, before failed is closed
	failing sync.Once
}

func newGroupMember(j job) *groupMember {
	return &groupMember{job: j, tally: newTally(j.Spec, j.Node), failed: make(chan struct{}), opened: make(chan struct{})}
}

// listen begins to open the group at its founder, whose address the others have to know. They have none before they join.
func (g *groupMember) listen(ctx context.Context) (string, error) {
	if g.Node > 1 {
		return "", nil
	}
	addr := make(chan string, 1)
	c := g.config()
	c.Events = func(e squall.Event) {
		g.happened(e)
		if l, ok := e.(squall.Listening); ok {
			addr <- l.Addr
		}
	}
	go func() {
		g.openErr = g.open(ctx, c)
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

func (g *groupMember) open(ctx context.Context, c squall.Config) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	g.group, err = squall.Open(ctx, c)
	return err
}

func (g *groupMember) connect(ctx context.Context, addrs []string) error {
	if g.Node > 1 {
		c := g.config()
		c.Join = addrs[:1]
		if err := g.open(ctx, c); err != nil {
			return err
		}
	} else if <-g.opened; g.openErr != nil {
		return g.openErr
	}
	go func() {
		<-g.group.Done()
		g.fail(g.group.Err())
	}()
	return nil
}

func (g *groupMember) config() squall.Config {
	s := &g.Spec
	c := squall.Config{
		Cluster: "bench", ID: squall.NodeID(g.Node), Listen: "127.0.0.1:0", InitialMembers: s.Nodes, Fabric: fabrics[s.Fabric], FailAfter: failAfter,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
		Events: g.happened,
		Tuning: squall.Tuning{OneSend: !s.Batching.Send, OneReceive: !s.Batching.Receive, OneDeliver: !s.Batching.Deliver, NoNulls: !s.Nulls},
	}
	var senders []squall.NodeID
	for node := range s.senders() {
		senders = append(senders, squall.NodeID(node+1))
	}
	for i, part := range g.tally.parts {
		sg := squall.SubgroupConfig{Name: subgroupName(i), Senders: senders, RingBytes: s.RingBytes, Window: s.Window, DeliverBatch: part.batch}
		if s.Unordered {
			sg.Mode = squall.Unordered
		}
		if s.Single {
			sg.DeliverBatch, sg.Deliver = nil, part.one
		}
		c.Subgroups = append(c.Subgroups, sg)
	}
	return c
}

// happened ends the run when a member fails: the others go on, but what they do then is not what was to be measured.
func (g *groupMember) happened(e squall.Event) {
	if down, ok := e.(squall.MemberDown); ok {
		g.fail(errors.New(down.String()))
	}
}

func subgroupName(i int) string { return fmt.Sprintf("subgroup-%d", i+1) }

func (g *groupMember) fail(err error) {
	g.failing.Do(func() {
		g.failure = err
		close(g.failed)
	})
}

func (g *groupMember) broken() <-chan struct{} { return g.failed }

func (g *groupMember) run(ctx context.Context, from, to time.Time) (Sample, error) {
	if g.Node == 1 && (g.Spec.Load == FromUpcall || g.Spec.Load == FromThread) {
		return g.closedLoop(ctx, from, to)
	}
	ctx, g.cancel = context.WithCancelCause(ctx)
	if g.Spec.sends(g.Node) {
		for i := range g.Spec.Active {
			g.sending.Go(func() {
				if err := g.stream(ctx, g.group.Subgroup(subgroupName(i))); err != nil && !errors.Is(err, errOver) {
					g.fail(fmt.Errorf("send: %w", err))
				}
			})
		}
	}
	go func() {
		if proc.Rest(ctx, time.Until(from)) == nil {
			g.tally.measuring.Store(true)
		}
	}()
	s, err := observe(ctx, g, from, to)
	g.tally.measuring.Store(false)
	g.stop()
	return s, err
}

// errOver is why a sender stops that waits for room: the run is over, and without nulls that room may never come.
var errOver = errors.New("the run is over")

// stop ends the senders. Those that wait for room get a while to find it.
func (g *groupMember) stop() {
	g.ended.Store(true)
	timer := time.AfterFunc(time.Second, func() { g.cancel(errOver) })
	defer timer.Stop()
	if g.Spec.stalls() || g.paused() >= time.Second {
		g.cancel(errOver)
	}
	g.sending.Wait()
}

func (g *groupMember) paused() time.Duration { return g.Spec.Delays[g.Node] }

// stream sends messages as fast as it can.
func (g *groupMember) stream(ctx context.Context, sg *squall.Subgroup) error {
	delay := g.paused()
	var buf []byte
	if g.Spec.Copy {
		buf = make([]byte, g.Spec.SizeBytes)
	}
	for index := uint64(0); !g.ended.Load(); index++ {
		if err := g.send(ctx, sg, buf, index); err != nil {
			return err
		}
		g.sent.Add(1)
		switch {
		case delay >= time.Millisecond:
			if err := proc.Rest(ctx, delay); err != nil {
				return err
			}
		case delay > 0:
			pause(delay)
		}
	}
	return nil
}

// send fills a message in the ring, or in buf if there is one.
func (g *groupMember) send(ctx context.Context, sg *squall.Subgroup, buf []byte, index uint64) error {
	if buf != nil {
		fill(buf, index)
		return sg.Send(ctx, buf)
	}
	c, err := sg.Claim(ctx, g.Spec.SizeBytes)
	if err != nil {
		return err
	}
	fill(c.Bytes, index)
	return c.Commit()
}

// snapshot implements counters.
func (g *groupMember) snapshot() Sample {
	s := Sample{Delivered: g.tally.bySender(g.Spec.Nodes)}
	for i := range g.Spec.Subgroups {
		stats := g.group.Subgroup(subgroupName(i)).Stats()
		s.Batches.Send.Sum += stats.SendBatch.Sum.Load()
		s.Batches.Send.Count += stats.SendBatch.Batches.Load()
		s.Batches.Receive.Sum += stats.ReceiveBatch.Sum.Load()
		s.Batches.Receive.Count += stats.ReceiveBatch.Batches.Load()
		s.Batches.Deliver.Sum += stats.DeliverBatch.Sum.Load()
		s.Batches.Deliver.Count += stats.DeliverBatch.Batches.Load()
		s.Nulls += stats.NullsSent.Load()
	}
	return s
}

func (g *groupMember) state() (State, error) {
	select {
	case <-g.failed:
		return State{}, g.failure
	default:
	}
	s := g.tally.state()
	s.Sent = g.sent.Load()
	return s, nil
}

func (g *groupMember) end() Latency { return summarize(g.tally.latencies) }
