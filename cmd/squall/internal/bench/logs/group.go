package logs

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/backoff"
	"github.com/squall-go/squall/internal/proc"
)

// The subgroups: one with a log, and beside it one without.
const (
	logged   = "logged"
	unlogged = "unlogged"
)

// member is a member of a group.
type member struct {
	job
	*bench.Group
	meters []*meter // by subgroup
	log    *squall.Log
	sent   atomic.Uint64 // to the first subgroup
}

func newMember(j job) (*member, error) {
	m := &member{job: j, Group: bench.NewGroup(j.Node, j.Spec.Nodes, j.Spec.Fabric)}
	m.Config.Dir = j.Dir
	s := &m.Spec
	l := squall.LogConfig{Engine: engines[s.Engine], MemoryBytes: s.Memory, DeliverAfterPersist: s.AfterPersist}
	if s.Sign {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		l.Sign = key
	}
	m.declare(squall.SubgroupConfig{Name: logged, Mode: squall.Persistent, Log: l})
	if m.Kind == besideKind {
		m.declare(squall.SubgroupConfig{Name: unlogged})
	}
	return m, nil
}

func (m *member) declare(sg squall.SubgroupConfig) {
	counts := &meter{}
	m.meters = append(m.meters, counts)
	sg.RingBytes, sg.Window, sg.DeliverBatch = m.Spec.ringBytes(), m.Spec.window(), counts.deliver
	m.Config.Subgroups = append(m.Config.Subgroups, sg)
}

// Connect waits until all members are in the group.
func (m *member) Connect(ctx context.Context, addrs []string) (err error) {
	if err := m.Group.Connect(ctx, addrs); err != nil {
		return err
	}
	m.log, err = m.Subgroup(logged).Log()
	return err
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	ctx, cancel := m.WhileWell(ctx)
	defer cancel(nil)
	switch r.Op {
	case opStream:
		var parts []string
		if err := r.Into(&parts); err != nil {
			return nil, err
		}
		return m.stream(ctx, r, parts)
	case opLoop:
		return m.loop(ctx, r)
	case opState:
		return State{m.sent.Load(), m.meters[0].delivered(), m.persisted()}, m.Failure()
	}
	return nil, r.Unknown()
}

// persisted is how many messages are delivered here and on every disk.
func (m *member) persisted() uint64 { return m.meters[0].before(m.log.Persisted(squall.OnEveryDisk)) }

// stream sends in some subgroups until the window is over.
func (m *member) stream(ctx context.Context, r bench.Request, parts []string) (*Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	var senders sync.WaitGroup
	for _, name := range parts {
		senders.Go(func() {
			if err := m.send(ctx, name, &over); err != nil {
				cancel(fmt.Errorf("send: %w", err))
			}
		})
	}
	s, err := m.observe(ctx, r.From, r.To)
	over.Store(true)
	senders.Wait()
	return s, errors.Join(err, context.Cause(ctx))
}

// send fills messages in the ring, as fast as there is room.
func (m *member) send(ctx context.Context, name string, over *atomic.Bool) error {
	sg := m.Subgroup(name)
	for index := uint64(0); !over.Load(); index++ {
		c, err := sg.Claim(ctx, m.Spec.SizeBytes)
		if err != nil {
			return err
		}
		bench.Fill(c.Bytes, index)
		if err := c.Commit(); err != nil {
			return err
		}
		if name == logged {
			m.sent.Add(1)
		}
	}
	return nil
}

// observe takes what is counted between two instants, to which it sleeps.
func (m *member) observe(ctx context.Context, from, to time.Time) (*Sample, error) {
	if err := backoff.Sleep(ctx, time.Until(from)); err != nil {
		return nil, err
	}
	stop, err := m.profile()
	if err != nil {
		return nil, err
	}
	before, start := m.counts(), time.Now()
	if err := backoff.Sleep(ctx, time.Until(to)); err != nil {
		return nil, err
	}
	s := m.counts()
	s.Elapsed = time.Since(start)
	s.CPU -= before.CPU
	s.Persisted -= before.Persisted
	for i := range s.Delivered {
		s.Delivered[i] -= before.Delivered[i]
	}
	return s, stop()
}

func (m *member) counts() *Sample {
	s := &Sample{Persisted: m.persisted(), CPU: proc.CPUTime()}
	for _, counts := range m.meters {
		s.Delivered = append(s.Delivered, counts.delivered())
	}
	return s
}

// profile writes a CPU profile until stop, if one was asked for.
func (m *member) profile() (stop func() error, err error) {
	if m.Spec.Profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(fmt.Sprintf("%s.%d.pprof", m.Spec.Profile, m.Node))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// loop sends one message at a time and waits until it is on every disk. The other members only take
// part.
func (m *member) loop(ctx context.Context, r bench.Request) (*Sample, error) {
	latency := bench.NewHistogram()
	data := make([]byte, m.Spec.SizeBytes)
	for m.Node == 1 && time.Now().Before(r.To) {
		bench.Fill(data, m.sent.Load())
		start := time.Now()
		f, err := m.Subgroup(logged).SendFuture(ctx, data)
		if err != nil {
			return nil, err
		}
		m.sent.Add(1)
		if _, err := f.Persisted(ctx, squall.OnEveryDisk); err != nil {
			return nil, err
		}
		if start.After(r.From) {
			_ = latency.RecordValue(time.Since(start).Nanoseconds()) // a minute is the most that it takes; longer ones are its most
		}
	}
	return &Sample{Latency: bench.LatencyOf(latency)}, backoff.Sleep(ctx, time.Until(r.To))
}
