package benchlarge

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

const (
	joinWithin = 30 * time.Second
	failAfter  = 10 * time.Second
	subgroup   = "a"
)

// job is a member process's configuration.
type job struct {
	Spec spec
	Node int    // from 1
	Addr string // of the founder; empty: this is it
}

// word is what a member tells: where the founder listens, that it is in, or what it counted.
type word struct {
	Addr  string
	Ready bool
	Tally *tally
}

// spell is a piece of time, in nanoseconds of the machine's clock.
type spell struct{ From, To int64 }

// tally is what a member counted.
type tally struct {
	Start  int64    // of the first bucket
	Counts []uint32 // small messages delivered, by millisecond
	Gaps   []spell  // in which none was, of more than gapLeast
	Larges []spell  // from Send to delivery; the first member's only
	Digest string   // of all that was delivered, in order
}

const (
	bucket   = int64(time.Millisecond)
	gapLeast = int64(2 * time.Millisecond)
)

// member is one process.
type member struct {
	job
	group *squall.Group
	tally tally
	last  int64 // when a small message was delivered last
	order hash.Hash
	over  atomic.Bool
	lasts int           // last messages that were delivered; each member sends one
	ended chan struct{} // closed when all were
}

// lastWord is how the last message of a member begins.
const lastWord = ^uint64(0)

func serve(ctx context.Context, p *proc.Parent) error {
	m := &member{order: sha256.New(), ended: make(chan struct{})}
	if err := p.Config(&m.job); err != nil {
		return err
	}
	err := m.serve(ctx, p)
	if errors.Is(err, proc.ErrParentGone) {
		return nil
	}
	return err
}

func (m *member) serve(ctx context.Context, p *proc.Parent) error {
	if err := m.open(ctx, p); err != nil {
		return err
	}
	defer m.close()
	if err := p.Send(word{Ready: true}); err != nil {
		return err
	}
	var start time.Time
	if err := p.Receive(ctx, &start); err != nil {
		return err
	}
	if err := m.work(ctx, p, start); err != nil {
		return err
	}
	if err := p.Send(word{Tally: &m.tally}); err != nil {
		return err
	}
	<-ctx.Done() // nobody leaves before all are through
	return nil
}

// close leaves. What matters was told by then.
func (m *member) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.group.Close(ctx)
}

func (m *member) open(ctx context.Context, p *proc.Parent) (err error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	s := m.Spec
	c := squall.Config{
		Cluster: "bench", ID: squall.NodeID(m.Node), Listen: "127.0.0.1:0", InitialMembers: s.Nodes, Fabric: fabrics[s.Fabric], FailAfter: failAfter,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
		Subgroups: []squall.SubgroupConfig{{
			Name: subgroup, RingBytes: s.ringBytes(), Window: s.Window, MaxMessageBytes: s.Large, DeliverBatch: m.deliver,
		}},
	}
	if m.Addr != "" {
		c.Join = []string{m.Addr}
	} else {
		c.Events = func(e squall.Event) {
			if l, ok := e.(squall.Listening); ok {
				_ = p.Send(word{Addr: l.Addr}) // a parent that is gone shows soon enough
			}
		}
	}
	m.group, err = squall.Open(ctx, c)
	return err
}

// deliver counts a run, up to the last message of the last member.
func (m *member) deliver(run []squall.Message) {
	if m.lasts == m.Spec.Nodes {
		return
	}
	small := uint32(0)
	for i := range run {
		m.digest(&run[i])
		if run[i].Body() == nil {
			small++
		}
		if binary.LittleEndian.Uint64(run[i].Data) == lastWord {
			if m.lasts++; m.lasts == m.Spec.Nodes {
				break
			}
		}
	}
	if small > 0 {
		m.count(small, time.Now().UnixNano())
	}
	if m.lasts == m.Spec.Nodes {
		m.tally.Digest = hex.EncodeToString(m.order.Sum(nil))
		close(m.ended) // from here on the tally is not the loop's any more
	}
}

// digest adds a message to what stands for the order.
func (m *member) digest(d *squall.Message) {
	var key [24]byte
	binary.LittleEndian.PutUint64(key[:], uint64(d.Sender))
	binary.LittleEndian.PutUint64(key[8:], uint64(d.Seq))
	copy(key[16:], d.Data)
	m.order.Write(key[:])
}

func (m *member) count(n uint32, now int64) {
	t := &m.tally
	if t.Start == 0 {
		t.Start, m.last = now, now
	}
	at := int((now - t.Start) / bucket)
	for len(t.Counts) <= at {
		t.Counts = append(t.Counts, 0)
	}
	t.Counts[at] += n
	if now-m.last > gapLeast {
		t.Gaps = append(t.Gaps, spell{m.last, now})
	}
	m.last = now
}

// work sends until the parent says that it is enough, or, at the first member, until all rounds are through.
func (m *member) work(ctx context.Context, p *proc.Parent, start time.Time) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var senders sync.WaitGroup
	senders.Go(func() {
		if err := m.stream(ctx); err != nil {
			cancel(err)
		}
	})
	err := m.rounds(ctx, p)
	m.over.Store(true)
	senders.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	if err := m.group.Subgroup(subgroup).Send(ctx, binary.LittleEndian.AppendUint64(nil, lastWord)); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil
	case <-m.group.Done():
		return m.group.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stream sends small messages.
func (m *member) stream(ctx context.Context) error {
	s := m.group.Subgroup(subgroup)
	for k := uint64(0); !m.over.Load(); k++ {
		c, err := s.Claim(ctx, m.Spec.Small)
		if err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(c.Bytes, k)
		if err := c.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// rounds is the first member's part: large messages, with a rest before each and after the last one. The others wait for the parent's word.
func (m *member) rounds(ctx context.Context, p *proc.Parent) error {
	var enough bool
	if m.Node > 1 {
		return p.Receive(ctx, &enough)
	}
	data := make([]byte, m.Spec.Large)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for range m.Spec.Rounds {
		if err := proc.Rest(ctx, m.Spec.Rest); err != nil {
			return err
		}
		from := time.Now().UnixNano()
		f, err := m.group.Subgroup(subgroup).SendFuture(ctx, data)
		if err != nil {
			return fmt.Errorf("a large message: %w", err)
		}
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
		m.tally.Larges = append(m.tally.Larges, spell{from, time.Now().UnixNano()})
		if err := p.Send(word{}); err != nil { // for the progress
			return err
		}
	}
	return proc.Rest(ctx, m.Spec.Rest)
}
