package messages

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/extension"
	"github.com/squall-go/squall/internal/wait"
)

// groupMember is one member of a group.
type groupMember struct {
	process
	*bench.Group
	tally *tally
	sent  atomic.Uint64

	ended   atomic.Bool // no more messages
	sending sync.WaitGroup
	cancel  context.CancelCauseFunc // of the senders
}

func newGroupMember(j process) *groupMember {
	s := &j.Spec
	g := &groupMember{process: j, Group: bench.NewGroup(j.Node, s.Nodes, s.Fabric), tally: newTally(j.Spec.Spec, j.Node)}
	c := &g.Config
	c.Listen = j.Host + ":0"
	c.Ablate(extension.Tuning{OneSend: !s.Batching.Send, OneReceive: !s.Batching.Receive, OneDeliver: !s.Batching.Deliver, NoNulls: !s.Nulls})
	var senders []squall.NodeID
	for node := range s.senders() {
		senders = append(senders, squall.NodeID(node+1))
	}
	for i, part := range g.tally.parts {
		sg := squall.SubgroupConfig{Name: subgroupName(i), Senders: senders, RingBytes: s.RingBytes, Window: s.Window, DeliverBatch: part.batch}
		if s.Unordered {
			sg.Mode = squall.Unordered
		}
		c.Subgroups = append(c.Subgroups, sg)
	}
	return g
}

func subgroupName(i int) string { return fmt.Sprintf("subgroup-%d", i+1) }

func (g *groupMember) run(ctx context.Context, r bench.Request) (Sample, error) {
	if g.Node == 1 && (g.Spec.Load == FromUpcall || g.Spec.Load == FromThread) {
		return g.closedLoop(ctx, r)
	}
	ctx, g.cancel = context.WithCancelCause(ctx)
	if g.Spec.sends(g.Node) {
		g.sending.Go(func() {
			if err := g.stream(ctx, g.Subgroup(subgroupName(0))); err != nil && !errors.Is(err, errOver) {
				g.Fail(fmt.Errorf("send: %w", err))
			}
		})
	}
	go func() {
		if wait.Sleep(ctx, time.Until(r.From)) == nil {
			g.tally.measuring.Store(true)
		}
	}()
	s, err := observe(ctx, r, g.Spec.Nodes, g.counts)
	g.tally.measuring.Store(false)
	g.stop()
	return s, err
}

// errOver is why a sender stops that waits for buffer space: the run is over, and without nulls
// that room may never come.
var errOver = errors.New("the run is over")

// stop ends the senders. Senders that wait for buffer space in the ring may wait for one second
// more.
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
	if g.Spec.SendBatch > 0 {
		return g.streamBatches(ctx, sg)
	}
	delay := g.paused()
	var buf []byte
	if g.Spec.Copy {
		buf = make([]byte, g.Spec.SizeBytes)
	}
	index := uint64(0)
	defer func() { g.sent.Add(index) }()
	for !g.ended.Load() {
		if err := g.send(ctx, sg, buf, index); err != nil {
			return err
		}
		index++
		switch {
		case delay >= time.Millisecond:
			if err := wait.Sleep(ctx, delay); err != nil {
				return err
			}
		case delay > 0:
			pause(delay)
		}
	}
	return nil
}

// streamBatches fills batches and sends each with one call.
func (g *groupMember) streamBatches(ctx context.Context, sg *squall.Subgroup) error {
	n, size := g.Spec.SendBatch, g.Spec.SizeBytes
	memory, batch := make([]byte, n*size), make([][]byte, n)
	for i := range batch {
		batch[i] = memory[i*size : (i+1)*size : (i+1)*size]
	}
	for index := uint64(0); !g.ended.Load(); {
		for i := range batch {
			fill(batch[i], index+uint64(i))
		}
		sent, err := sg.SendBatch(ctx, batch)
		index += uint64(sent)
		g.sent.Add(uint64(sent))
		if err != nil {
			return err
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

// counts are the messages delivered, by sender, and the nulls sent in each subgroup.
func (g *groupMember) counts() []uint64 {
	all := g.tally.bySender()
	for i := range g.Spec.Subgroups {
		all = append(all, g.Subgroup(subgroupName(i)).Stats().NullsSent)
	}
	return all
}

func (g *groupMember) state() (State, error) {
	if err := g.Failure(); err != nil {
		return State{}, err
	}
	s := g.tally.state()
	s.Sent = g.sent.Load()
	return s, nil
}

func (g *groupMember) end() bench.Latency { return bench.LatencyOf(g.tally.latencies) }

// loop is a closed loop: one message of this member is in flight at any time.
//
// The sender of the next message owns the loop. The goroutine that sends the first message passes
// ownership to the upcall by sending; if a goroutine sends all messages, the upcall passes
// ownership back through the channel returned.
type loop struct {
	subgroup *squall.Subgroup
	buf      []byte
	from, to time.Time
	start    time.Time // of the message in flight
	latency  *hdrhistogram.Histogram
	upcall   bool
	sent     *atomic.Uint64
	returned chan struct{} // the message is delivered here; of the last one if the upcall sends
	err      error
}

// closedLoop measures from sending a message to its delivery here.
func (g *groupMember) closedLoop(ctx context.Context, r bench.Request) (Sample, error) {
	l := &loop{
		subgroup: g.Subgroup(subgroupName(0)), buf: make([]byte, g.Spec.SizeBytes), from: r.From, to: r.To, latency: bench.NewHistogram(),
		upcall: g.Spec.Load == FromUpcall, sent: &g.sent, returned: make(chan struct{}, 1),
	}
	// Nothing has been delivered yet, so the loop has not looked at own, and sees it with the first
	// message.
	g.tally.parts[0].own = l.delivered
	observed := make(chan error, 1)
	var s Sample
	go func() {
		var err error
		s, err = observe(ctx, r, g.Spec.Nodes, g.counts)
		observed <- err
	}()
	err := errors.Join(l.drive(ctx), <-observed)
	s.Latency = bench.LatencyOf(l.latency)
	return s, err
}

// drive sends the first message, and the others if the upcall does not, until the window is over.
func (l *loop) drive(ctx context.Context) error {
	for {
		l.send()
		select {
		case <-l.returned:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if l.err != nil || l.over(time.Now()) {
			return l.err
		}
	}
}

// over reports whether the window is over. There is one measurement at least, however busy the
// machine.
func (l *loop) over(now time.Time) bool { return !now.Before(l.to) && l.latency.TotalCount() > 0 }

// delivered is called on the group's loop when the message is back.
func (l *loop) delivered() {
	if l.err != nil {
		return
	}
	now := time.Now()
	if !l.start.Before(l.from) {
		l.err = l.latency.RecordValue(int64(now.Sub(l.start)))
	}
	if l.upcall && !l.over(now) && l.err == nil {
		l.send()
		return
	}
	l.returned <- struct{}{}
}

// send sends the next message. It never has to wait, because the window is empty.
func (l *loop) send() {
	l.start = time.Now()
	fill(l.buf, l.sent.Load())
	l.sent.Add(1)
	if err := l.subgroup.TrySend(l.buf); err != nil && l.err == nil {
		l.err = fmt.Errorf("closed loop: %w", err)
	}
}
