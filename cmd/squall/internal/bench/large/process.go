package large

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
)

// Workload is what the processes of "squall bench large" do.
var Workload = bench.NewWorkload("large", open)

// Requests, in the order in which they come.
const (
	opStream = "stream" // begin to send small messages
	opLarge  = "large"  // send a large message, until it is delivered here; the first member's
	opEnd    = "end"    // answered with a tally: nothing more comes
)

const subgroup = "a"

// spell is a piece of time, in nanoseconds of the machine's clock.
type spell struct{ From, To int64 }

// tally is what a member counted.
type tally struct {
	Start  int64    // of the first bucket
	Counts []uint32 // small messages delivered, by millisecond
	Gaps   []spell  // in which none was, of more than gapLeast
	Digest string   // of all that was delivered, in order
}

const (
	bucket   = int64(time.Millisecond)
	gapLeast = int64(2 * time.Millisecond)
)

// member is one process.
type member struct {
	*bench.Group
	spec    spec
	tally   tally
	last    int64 // when a small message was delivered last
	order   hash.Hash
	over    atomic.Bool
	senders sync.WaitGroup
	lasts   int           // last messages that were delivered; each member sends one
	ended   chan struct{} // closed when all were
}

// lastWord is how the last message of a member begins.
const lastWord = ^uint64(0)

func open(p bench.Process[spec]) (bench.Member, error) {
	m := &member{spec: p.Spec, order: sha256.New(), ended: make(chan struct{})}
	s := &m.spec
	m.Group = bench.NewGroup(p.Node, s.Nodes, s.Fabric)
	m.Config.Subgroups = []squall.SubgroupConfig{{
		Name: subgroup, RingBytes: s.ringBytes(), Window: window, MaxMessageBytes: s.Large, DeliverBatch: m.deliver,
	}}
	return m, nil
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	switch r.Op {
	case opStream:
		m.senders.Go(func() {
			if err := m.stream(context.WithoutCancel(ctx)); err != nil {
				m.Fail(err)
			}
		})
		return nil, nil
	case opLarge:
		return m.large(ctx)
	case opEnd:
		return &m.tally, m.finish(ctx)
	}
	return nil, r.Unknown()
}

// deliver counts a run, up to the last message of the last member.
func (m *member) deliver(run []squall.Message) {
	if m.lasts == m.spec.Nodes {
		return
	}
	small := uint32(0)
	for i := range run {
		m.digest(&run[i])
		if run[i].Body() == nil {
			small++
		}
		if binary.LittleEndian.Uint64(run[i].Data) == lastWord {
			if m.lasts++; m.lasts == m.spec.Nodes {
				break
			}
		}
	}
	if small > 0 {
		m.count(small, time.Now().UnixNano())
	}
	if m.lasts == m.spec.Nodes {
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

// stream sends small messages.
func (m *member) stream(ctx context.Context) error {
	s := m.Subgroup(subgroup)
	for k := uint64(0); !m.over.Load(); k++ {
		c, err := s.Claim(ctx, m.spec.Small)
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

// large sends a large message and waits until it is delivered.
func (m *member) large(ctx context.Context) (s spell, err error) {
	data := make([]byte, m.spec.Large)
	bench.Fill(data, 0)
	s.From = time.Now().UnixNano()
	f, err := m.Subgroup(subgroup).SendFuture(ctx, data)
	if err != nil {
		return s, fmt.Errorf("a large message: %w", err)
	}
	_, err = f.Wait(ctx)
	s.To = time.Now().UnixNano()
	return s, err
}

// finish ends the small messages and waits for what was sent.
func (m *member) finish(ctx context.Context) error {
	m.over.Store(true)
	m.senders.Wait()
	if err := m.Failure(); err != nil {
		return err
	}
	if err := m.Subgroup(subgroup).Send(ctx, binary.LittleEndian.AppendUint64(nil, lastWord)); err != nil {
		return err
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
