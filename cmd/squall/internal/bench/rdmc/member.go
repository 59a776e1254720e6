package rdmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// Workload is what the processes of "squall bench rdmc" do.
var Workload = bench.Workload{Name: "rdmc", Open: open}

// member is a member process.
type member struct {
	node    int    // from 1
	host    string // its address
	rdmc    *rdmc.Node
	all     []address
	plain   net.Listener
	buffers buffers

	task  *task
	part  part
	cpu   time.Duration
	usual int64 // bytes of memory in use when it was ready
}

// part is what a member does in a run. Its methods are called in this order.
type part interface {
	prepare(ctx context.Context) error
	run(ctx context.Context, at instant) error
	finish(ctx context.Context, r *report) error // closes and checks
}

func open(node int, config func(v any) error) (bench.Member, error) {
	m := &member{node: node, buffers: buffers{}}
	return m, config(&m.host)
}

// Listen returns where this member is, in the form of an address.
func (m *member) Listen(context.Context) (addr string, err error) {
	at := net.JoinHostPort(m.host, "0")
	if m.rdmc, err = rdmc.Listen(at, order.NodeID(m.node), nil); err != nil {
		return "", err
	}
	if m.plain, err = net.Listen("tcp", at); err != nil {
		return "", err
	}
	b, err := json.Marshal(address{m.rdmc.Peer(), m.plain.Addr().String()})
	return string(b), err
}

// Connect notes where all members are.
func (m *member) Connect(_ context.Context, addrs []string) error {
	m.all = make([]address, len(addrs))
	for i, text := range addrs {
		if err := json.Unmarshal([]byte(text), &m.all[i]); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) Close() (err error) {
	if m.rdmc != nil {
		err = m.rdmc.Close()
	}
	if m.plain != nil {
		err = errors.Join(err, m.plain.Close())
	}
	return err
}

func (m *member) Answer(ctx context.Context, r bench.Request) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	switch r.Op {
	case opPrepare:
		m.task = &task{}
		if err := r.Into(m.task); err != nil {
			return nil, err
		}
		return nil, m.prepare(ctx)
	case opGo:
		var at instant
		if err := r.Into(&at); err != nil {
			return nil, err
		}
		return nil, m.part.run(ctx, at)
	case opReport:
		var a report
		err := m.report(ctx, &a)
		return &a, err
	}
	return nil, r.Unknown()
}

func (m *member) prepare(ctx context.Context) error {
	switch m.task.Way {
	case byBlocks:
		m.part = newBlocks(m)
	case byTurns:
		m.part = &turns{member: m}
	case byCopy:
		m.part = &copies{member: m}
	default:
		return fmt.Errorf("no such way: %q", m.task.Way)
	}
	if err := m.part.prepare(ctx); err != nil {
		return err
	}
	m.usual, m.cpu = forgetPeak(), proc.CPUTime()
	return nil
}

func (m *member) report(ctx context.Context, r *report) error {
	r.CPU, r.PeakBytes = proc.CPUTime()-m.cpu, -1
	if peak := memoryStatus("VmHWM"); m.usual > 0 && peak > 0 {
		r.PeakBytes = peak - m.usual
	}
	return m.part.finish(ctx, r)
}

// isRoot reports whether this member sends in the run.
func (m *member) isRoot() bool { return slices.Contains(m.task.Roots, m.node-1) }
