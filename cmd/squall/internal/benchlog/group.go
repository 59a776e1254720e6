package benchlog

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
)

// joinWithin is how long members wait for each other, failAfter how long a member may be silent on a machine with fewer cores than members.
const (
	joinWithin = 30 * time.Second
	failAfter  = 10 * time.Second
	endWithin  = 10 * time.Second
)

// The subgroups: the one that has a log, and the one beside it that has none.
const (
	logged   = "logged"
	unlogged = "unlogged"
)

// cluster is the name of all groups that are measured.
const cluster = "bench"

// member is a member of a group.
type member struct {
	job
	group  *squall.Group
	meters []*meter // by subgroup
	log    *squall.Log
	sent   atomic.Uint64 // to the first subgroup
}

func openMember(ctx context.Context, j job, p *proc.Parent) (workload, error) {
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	m := &member{job: j}
	c, err := m.config()
	if err != nil {
		return nil, err
	}
	if j.Addr != "" {
		c.Join = []string{j.Addr}
	} else {
		c.Events = func(e squall.Event) {
			if l, ok := e.(squall.Listening); ok {
				_ = p.Send(word{Addr: l.Addr}) // a parent that is gone shows soon enough
			}
		}
	}
	if m.group, err = squall.Open(ctx, c); err != nil {
		return nil, err
	}
	m.log, err = m.group.Subgroup(logged).Log()
	return m, err
}

func (m *member) config() (squall.Config, error) {
	s := &m.Spec
	c := squall.Config{
		Cluster: cluster, ID: squall.NodeID(m.Node), Dir: m.Dir, Listen: "127.0.0.1:0", InitialMembers: s.Nodes, Fabric: fabrics[s.Fabric], FailAfter: failAfter,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // what matters comes back as an error
	}
	l := squall.LogConfig{Engine: engines[s.Engine], MemoryBytes: s.Memory, DeliverAfterPersist: s.AfterPersist}
	if s.Sign {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return c, err
		}
		l.Sign = key
	}
	m.declare(&c, squall.SubgroupConfig{Name: logged, Mode: squall.Persistent, Log: l})
	if m.Kind == besideKind {
		m.declare(&c, squall.SubgroupConfig{Name: unlogged})
	}
	return c, nil
}

func (m *member) declare(c *squall.Config, sg squall.SubgroupConfig) {
	counts := &meter{}
	m.meters = append(m.meters, counts)
	sg.RingBytes, sg.Window, sg.DeliverBatch = m.Spec.ringBytes(), m.Spec.window(), counts.deliver
	c.Subgroups = append(c.Subgroups, sg)
}

func (m *member) answer(ctx context.Context, r request) (a word, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-m.group.Done():
			cancel(m.group.Err())
		case <-ctx.Done():
		}
	}()
	switch r.Op {
	case opStream:
		a.Sample, err = m.stream(ctx, r)
	case opLoop:
		a.Sample, err = m.loop(ctx, r)
	case opState:
		a.State = &State{m.sent.Load(), m.meters[0].delivered(), m.persisted()}
	default:
		err = fmt.Errorf("no such request: %q", r.Op)
	}
	return a, err
}

// persisted is how many messages are delivered here and on every disk.
func (m *member) persisted() uint64 { return m.meters[0].before(m.log.Persisted(squall.OnEveryDisk)) }

func (m *member) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	return m.group.Close(ctx)
}

// stream sends in some subgroups until the window is over.
func (m *member) stream(ctx context.Context, r request) (*Sample, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var over atomic.Bool
	var senders sync.WaitGroup
	for _, name := range r.Parts {
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
	sg := m.group.Subgroup(name)
	for index := uint64(0); !over.Load(); index++ {
		c, err := sg.Claim(ctx, m.Spec.SizeBytes)
		if err != nil {
			return err
		}
		fill(c.Bytes, index)
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
	if err := proc.Rest(ctx, time.Until(from)); err != nil {
		return nil, err
	}
	stop, err := m.profile()
	if err != nil {
		return nil, err
	}
	before, start := m.counts(), time.Now()
	if err := proc.Rest(ctx, time.Until(to)); err != nil {
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

// profile writes where the processor spends its time, if that is wanted, until stop.
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

// loop sends one message at a time and waits until it is on every disk. The other members only take part.
func (m *member) loop(ctx context.Context, r request) (*Sample, error) {
	latency := newHistogram()
	data := make([]byte, m.Spec.SizeBytes)
	for m.Node == 1 && time.Now().Before(r.To) {
		fill(data, m.sent.Load())
		start := time.Now()
		f, err := m.group.Subgroup(logged).SendFuture(ctx, data)
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
	return &Sample{Latency: latencyOf(latency)}, proc.Rest(ctx, time.Until(r.To))
}
