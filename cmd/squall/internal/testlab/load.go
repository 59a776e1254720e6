package testlab

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
)

// load is what sends to a subgroup: one goroutine, so that messages are numbered as they are
// claimed.
type load struct {
	process  *process
	subgroup *squall.Subgroup
	content  content
	bulk     []byte        // of large messages
	accepted atomic.Uint64 // messages that were sent
	begun    atomic.Uint64 // 1 when it is not known whether one more was
	acks     *acknowledger // nil: the load is not durable
	snaps    *snapshotter  // nil: it takes no snapshots
	most     uint64        // messages that are sent, if not 0

	mu     sync.Mutex
	cancel context.CancelFunc // nil: it does not send
	ended  chan struct{}
}

func newLoad(p *process, s *squall.Subgroup, i int) *load {
	spec := p.spec.Loads[i]
	l := &load{process: p, subgroup: s, content: spec.content(), bulk: make([]byte, spec.maxMessage()), most: spec.Most}
	if spec.Durable {
		l.acks = newAcknowledger(i, &spec, p.tell)
	}
	if spec.Snapshots {
		l.snaps = newSnapshotter(p.replicas[i], s)
	}
	return l
}

// start sends until stop.
func (l *load) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		return
	}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.ended = make(chan struct{})
	go l.run(ctx, l.ended)
}

// stop ends it, and waits for that.
func (l *load) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancel != nil {
		l.cancel()
		<-l.ended
		l.cancel = nil
	}
}

// close ends the load for good.
func (l *load) close() {
	l.stop()
	if l.acks != nil {
		l.acks.close()
	}
	if l.snaps != nil {
		l.snaps.close()
	}
}

// logLook is after how many messages the log's size is looked at.
const logLook = 1024

func (l *load) run(ctx context.Context, ended chan struct{}) {
	defer close(ended)
	for ctx.Err() == nil && l.begun.Load() == 0 && (l.most == 0 || l.accepted.Load() < l.most) {
		if l.accepted.Load()%logLook == 0 && l.process.log.full() {
			return
		}
		if err := l.send(ctx); err != nil {
			if ctx.Err() == nil && l.process.group.Err() == nil {
				l.process.tell(News{Kind: NewsFault, Text: fmt.Sprintf("message %d could not be sent: %v", l.accepted.Load(), err)})
			}
			return
		}
	}
}

// maxMessage is the size of the load's messages if no ring takes them.
func (l Load) maxMessage() int {
	if l.RingBytes > 0 && l.Bytes > l.RingBytes/2 {
		return l.Bytes
	}
	return 0
}

// send sends the next message.
func (l *load) send(ctx context.Context) error {
	n := l.accepted.Load()
	var f *squall.Future
	var err error
	if len(l.bulk) > 0 { // one that fails was not sent
		l.content.fill(l.bulk, l.process.spec.Life, n)
		f, err = l.subgroup.SendFuture(ctx, l.bulk)
	} else {
		f, err = l.sendInPlace(ctx, n)
	}
	if err != nil {
		return err
	}
	l.accepted.Add(1)
	if l.acks == nil {
		return nil
	}
	return l.acks.add(ctx, unacked{number: n, future: f})
}

// sendInPlace sends a message that a ring takes. The future is nil if the load is not durable.
func (l *load) sendInPlace(ctx context.Context, n uint64) (f *squall.Future, err error) {
	l.process.timing.sending(n)
	c, err := l.subgroup.Claim(ctx, l.content.size(n))
	if err != nil {
		return nil, err
	}
	l.content.fill(c.Bytes, l.process.spec.Life, n)
	if l.acks == nil {
		err = c.Commit()
	} else {
		f, err = c.CommitFuture()
	}
	if err != nil {
		l.begun.Store(1)
	}
	return f, err
}

// settle stops sending, and waits until a last message is delivered here: then so are all before
// it.
func (l *load) settle(within time.Duration) error {
	l.stop()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	last, err := l.one(ctx)
	if err == nil && l.acks != nil {
		err = l.acks.settle(ctx, last)
	}
	if err != nil {
		return fmt.Errorf("a last message: %w", err)
	}
	return nil
}

// one sends a message, and waits until it is delivered here.
func (l *load) one(ctx context.Context) (m unacked, err error) {
	m.number = l.accepted.Load()
	data := make([]byte, l.content.size(m.number))
	l.content.fill(data, l.process.spec.Life, m.number)
	l.process.timing.sending(m.number)
	if m.future, err = l.subgroup.SendFuture(ctx, data); err != nil {
		return m, err
	}
	l.accepted.Add(1)
	_, err = m.future.Wait(ctx)
	return m, err
}

// meter measures the time between deliveries.
type meter struct {
	total atomic.Uint64

	mu      sync.Mutex
	last    time.Time // of the last delivery, or the mark
	longest time.Duration
	blocked int // the subgroup whose next upcall stays for so long
	stayFor time.Duration
}

func (m *meter) delivered(n int) {
	m.total.Add(uint64(n))
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.last.IsZero() {
		m.longest = max(m.longest, now.Sub(m.last))
	}
	m.last = now
}

// mark begins a measurement.
func (m *meter) mark() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.longest = time.Now(), 0
}

// gap is the longest time without a delivery since the mark, the one that lasts included.
func (m *meter) gap() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last.IsZero() {
		return 0
	}
	return max(m.longest, time.Since(m.last))
}

// between is the longest time between two deliveries since the mark.
func (m *meter) between() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.longest
}

func (m *meter) stay(subgroup int, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked, m.stayFor = subgroup, d
}

// block is called in each upcall: it stays there if it was told to.
func (m *meter) block(subgroup int) {
	m.mu.Lock()
	d := m.stayFor
	if subgroup != m.blocked {
		d = 0
	} else {
		m.stayFor = 0
	}
	m.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
}
