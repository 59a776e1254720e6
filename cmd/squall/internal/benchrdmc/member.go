package benchrdmc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/squall-go/squall/cmd/squall/internal/proc"
	"github.com/squall-go/squall/internal/testlab/netlab"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
)

// memberName is the hidden command of a member process, below "bench".
const memberName = "rdmc-member"

// hostVariable has the path of the host on which a member has to run, if there is a lab.
const hostVariable = "SQUALL_BENCH_HOST"

// NewMemberCommand returns the hidden command that "squall bench rdmc" starts its member processes with. It belongs to "bench".
func NewMemberCommand() *cobra.Command {
	cmd := proc.Command(memberName, serve)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if path := os.Getenv(hostVariable); path != "" {
			return moveTo(path)
		}
		return run(cmd, args)
	}
	return cmd
}

// moveTo begins this program anew on a host of a lab. Only a thread can move there, and this process has several by now; the one that begins anew is the
// only one that is left.
func moveTo(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := netlab.Enter(path); err != nil {
		return fmt.Errorf("move to the host %s: %w", path, err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, hostVariable+"=") })
	return os.NewSyscallError("exec", syscall.Exec(self, os.Args, env))
}

// member is a member process.
type member struct {
	job
	node    *rdmc.Node
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

func serve(ctx context.Context, p *proc.Parent) (err error) {
	m := &member{buffers: buffers{}}
	if err := p.Config(&m.job); err != nil {
		return err
	}
	if err := m.listen(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, m.close())
		if errors.Is(err, proc.ErrParentGone) {
			err = nil
		}
	}()
	if err := p.Send(greeting{m.node.Peer(), m.plain.Addr().String()}); err != nil {
		return err
	}
	for {
		var r request
		if err := p.Receive(ctx, &r); err != nil {
			return err
		}
		if err := p.Send(m.serve(ctx, &r)); err != nil {
			return err
		}
	}
}

func (m *member) listen() (err error) {
	addr := net.JoinHostPort(m.Addr, "0")
	if m.node, err = rdmc.Listen(addr, order.NodeID(m.Node), nil); err != nil {
		return err
	}
	m.plain, err = net.Listen("tcp", addr)
	return err
}

func (m *member) close() error { return errors.Join(m.node.Close(), m.plain.Close()) }

// serve does what is asked. What fails is in the report, so that the parent learns what all members say of it.
func (m *member) serve(ctx context.Context, r *request) (a report) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var err error
	switch r.Op {
	case opPrepare:
		err = m.prepare(ctx, r.Task)
	case opGo:
		err = m.part.run(ctx, r.At)
	case opReport:
		err = m.report(ctx, &a)
	default:
		err = fmt.Errorf("no such request: %q", r.Op)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

func (m *member) prepare(ctx context.Context, t *task) error {
	m.task = t
	switch t.Way {
	case byBlocks:
		m.part = newBlocks(m)
	case byTurns:
		m.part = &turns{member: m}
	case byCopy:
		m.part = &copies{member: m}
	default:
		return fmt.Errorf("no such way: %q", t.Way)
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
func (m *member) isRoot() bool { return slices.Contains(m.task.Roots, m.Node-1) }
