package messages

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// loop is a closed loop: one message of this member is on its way at any time.
//
// The sender of the next message owns the loop. The goroutine that sends the first message passes
// ownership to the upcall by sending; if a goroutine sends all messages, the upcall passes ownership
// back through the channel returned.
type loop struct {
	subgroup *squall.Subgroup
	buf      []byte
	from, to time.Time
	start    time.Time // of the message on its way
	latency  *hdrhistogram.Histogram
	upcall   bool
	sent     *atomic.Uint64
	returned chan struct{} // the message is delivered here; of the last one if the upcall sends
	err      error
}

// closedLoop measures from sending a message to its delivery here.
func (g *groupMember) closedLoop(ctx context.Context, from, to time.Time) (Sample, error) {
	l := &loop{
		subgroup: g.Subgroup(subgroupName(0)), buf: make([]byte, g.Spec.SizeBytes), from: from, to: to, latency: bench.NewHistogram(),
		upcall: g.Spec.Load == FromUpcall, sent: &g.sent, returned: make(chan struct{}, 1),
	}
	// Nothing has been delivered yet, so the loop has not looked at own, and sees it with the first
	// message.
	g.tally.parts[0].own = l.delivered
	observed := make(chan error, 1)
	var s Sample
	go func() {
		var err error
		s, err = observe(ctx, g, from, to)
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
