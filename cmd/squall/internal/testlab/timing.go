package testlab

import (
	"context"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/squall-go/squall"
)

// timesKept is more than can be in flight, so that no time is overwritten that is still to be read.
const timesKept = 2 * squall.DefaultWindow

// timing is the application of a timed load. A process has at most one such load; without one its
// timing is nil.
type timing struct {
	id    squall.NodeID
	total uint64
	tell  func(News)
	zero  time.Time                // from which times are counted
	sent  [timesKept]time.Duration // by number. W: the sender, before it commits the message. R: loop.

	mu       sync.Mutex
	messages uint64
	digest   Digest
	next     uint64        // own message to be delivered
	start    time.Duration // of the measurement
	last     time.Duration // of a delivery
	latency  *hdrhistogram.Histogram
}

// Timing is what a process measured since it was told to send, or to probe.
type Timing struct {
	Took    time.Duration // from then to the last delivery
	Latency Latency
	Batch   Batches  // before it was told to probe, like the following field
	Links   []string // fabrics to all members, whose ids are 1 and up, by these
}

// Latency is of own messages, from sending to the own delivery.
type Latency struct {
	Messages int64 `json:"messages"`
	P50Ns    int64 `json:"p50_ns"`
	P99Ns    int64 `json:"p99_ns"`
}

// Batches are mean batches by stage, in messages.
type Batches struct {
	Send    float64 `json:"send"`
	Receive float64 `json:"receive"`
	Deliver float64 `json:"deliver"`
}

func newTiming(id squall.NodeID, total uint64, tell func(News)) *timing {
	t := &timing{id: id, total: total, tell: tell, zero: time.Now(), digest: NewDigest()}
	t.begin()
	return t
}

// begin begins a measurement.
func (t *timing) begin() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.start, t.latency = time.Since(t.zero), hdrhistogram.New(100, int64(time.Minute), 2)
	}
}

// sending notes when message number n is sent.
func (t *timing) sending(n uint64) {
	if t != nil {
		t.sent[n%timesKept] = time.Since(t.zero)
	}
}

// deliver takes what is delivered.
func (t *timing) deliver(batch []squall.Message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Since(t.zero)
	before := t.messages
	t.messages += uint64(len(batch))
	for _, m := range batch {
		t.digest.Add(m)
		if m.Sender == t.id {
			_ = t.latency.RecordValue(int64(t.last - t.sent[t.next%timesKept])) // a minute is the most; longer ones are not recorded
			t.next++
		}
	}
	if before/markEvery != t.messages/markEvery || before < t.total && t.total <= t.messages {
		t.tell(News{Kind: NewsMark, Mark: &Mark{At: AtCount, Messages: t.messages}})
	}
}

// describe adds what was delivered and measured so far to an answer.
func (t *timing) describe(a *Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.States = append(a.States, State{Messages: t.messages, Bytes: t.digest.Bytes, Digest: t.digest.Sum()})
	a.Lives = append(a.Lives, nil)
	a.Timing.Took = t.last - t.start
	a.Timing.Latency = Latency{t.latency.TotalCount(), t.latency.ValueAtQuantile(50), t.latency.ValueAtQuantile(99)}
}

// probe measures messages that are sent one at a time. What it tells of batches is of those before.
func (t *timing) probe(r Request, g *squall.Group, l *load) (result Timing, err error) {
	stats := l.subgroup.Stats()
	result.Batch = Batches{stats.SendBatch.Mean(), stats.ReceiveBatch.Mean(), stats.DeliverBatch.Mean()}
	for i := range g.View().Members {
		link, err := g.Debug().Link(squall.NodeID(i + 1))
		if err != nil {
			return result, err
		}
		result.Links = append(result.Links, link)
	}
	t.begin()
	ctx, cancel := context.WithTimeout(context.Background(), r.For)
	defer cancel()
	for range r.Count {
		if _, err := l.one(ctx); err != nil {
			return result, err
		}
	}
	return result, nil
}
