package logs

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/wait"
)

// Workload is what the processes of "squall bench log" do.
var Workload = bench.NewWorkload("logs", open)

// What a process does.
const (
	memberKind = "member" // of a group
	mixedKind  = "mixed"  // of a group that has a second subgroup, without a log
	writeKind  = "write"  // nothing but writing to the disk
)

// job is what a process does.
type job struct {
	Spec
	Kind   string
	Pieces pieces // of a writer
}

const (
	opStream = "stream" // send in some subgroups, which are the arguments, as fast as can be: a Sample
	opLoop   = "loop"   // send one message at a time, from the first member: a Sample
	opWrite  = "write"  // write pieces to the disk: a Sample
	opState  = "state"  // a State
)

// Sample is what a process counted in a window.
type Sample struct {
	Delivered []uint64 // by subgroup
	Persisted uint64   // delivered here and on every disk, of the first one
	Bytes     uint64   // that a writer wrote
	Latency   bench.Latency
	bench.Usage
}

// State is what a member did in its first subgroup so far.
type State struct{ Sent, Delivered, Persisted uint64 }

func open(p bench.Process[job]) (bench.Member, error) {
	switch p.Spec.Kind {
	case memberKind, mixedKind:
		return newMember(p)
	case writeKind:
		w, err := newWriter(filepath.Join(p.Dir, "pieces"), p.Spec.Pieces)
		return writing{writer: w}, err
	}
	return nil, fmt.Errorf("no such kind of process: %q", p.Spec.Kind)
}

// writing is a process that writes to the disk.
type writing struct {
	bench.Unconnected
	*writer
}

func (w writing) Close() error { return w.file.Close() }

func (w writing) Answer(ctx context.Context, r bench.Request) (any, error) {
	return w.run(ctx, r.From, r.To)
}

// The subgroups: one with a log, and next to it one without.
const (
	logged   = "logged"
	unlogged = "unlogged"
)

// member is a member of a group.
type member struct {
	bench.Process[job]
	*bench.Group
	meters []*meter // by subgroup
	log    *squall.Log
	sent   atomic.Uint64 // to the first subgroup
}

func newMember(j bench.Process[job]) (*member, error) {
	m := &member{Process: j, Group: bench.NewGroup(j.Node, j.Spec.Nodes, j.Spec.Fabric)}
	m.Config.Dir = j.Dir
	s := &m.Spec
	l := squall.LogConfig{Engine: engines[s.Engine], DeliverAfterPersist: s.AfterPersist}
	if s.Sign {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return nil, err
		}
		l.Sign = key
	}
	m.declare(squall.SubgroupConfig{Name: logged, Mode: squall.Persistent, Log: l})
	if s.Kind == mixedKind {
		m.declare(squall.SubgroupConfig{Name: unlogged})
	}
	return m, nil
}

func (m *member) declare(sg squall.SubgroupConfig) {
	counts := &meter{}
	m.meters = append(m.meters, counts)
	sg.Window, sg.RingBytes = bench.InFlight(m.Spec.SizeBytes)
	sg.DeliverBatch = counts.deliver
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
	s, err := m.observe(ctx, r)
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

// observe takes what is counted in the window of a request.
func (m *member) observe(ctx context.Context, r bench.Request) (*Sample, error) {
	grown, usage, err := bench.Observe(ctx, r, func() []uint64 {
		all := []uint64{m.persisted()}
		for _, counts := range m.meters {
			all = append(all, counts.delivered())
		}
		return all
	})
	if err != nil {
		return nil, err
	}
	return &Sample{Usage: usage, Persisted: grown[0], Delivered: grown[1:]}, nil
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
	return &Sample{Latency: bench.LatencyOf(latency)}, wait.Sleep(ctx, time.Until(r.To))
}

// meter counts what one subgroup delivers, and finds how much of it lies before a version.
type meter struct {
	mu    sync.Mutex
	marks []mark // in order; marks before the last question are dropped
	count uint64
	sum   uint64 // loop
}

// mark says how many messages there are up to a version.
type mark struct {
	version squall.Version
	count   uint64
}

// deliver takes a run of messages.
func (m *meter) deliver(run []squall.Message) {
	for i := range run {
		m.sum += bench.Touch(run[i].Data)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count += uint64(len(run))
	m.marks = append(m.marks, mark{run[len(run)-1].Version(), m.count})
}

func (m *meter) delivered() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// before is how many messages lie before a version, to the run: of one that it divides, none.
// Versions of successive questions grow.
func (m *meter) before(v squall.Version) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, _ := slices.BinarySearchFunc(m.marks, v, func(k mark, v squall.Version) int {
		if k.version.Before(v) {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	m.marks = append(m.marks[:0], m.marks[n-1:]...) // the last one before stays: nothing may have come when the next question does
	return m.marks[0].count
}
