package rdmc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/squall-go/squall/cmd/squall/internal/bench"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/rdmc"
	"github.com/squall-go/squall/rdmc/schedule"
)

// way is how a message gets from its root to the others.
type way string

const (
	byBlocks way = "rdmc" // by a schedule
	byTurns  way = "tcp"  // plain TCP, to one receiver after another
	byCopy   way = "copy" // not at all: every receiver copies that many bytes in its own memory
)

// sharing is what nodes make of it that they are on one host.
type sharing string

const (
	notShared sharing = ""       // nothing: blocks by TCP, as between hosts
	copied    sharing = "copied" // receivers copy the message from the root's memory
	viewed    sharing = "viewed" // receivers look at it in the root's memory
)

// task is one run, as all member processes are told it.
type task struct {
	Number     uint64 // of the run: names its groups and seeds its content
	Way        way
	Algorithm  schedule.Algorithm
	BlockBytes int
	Bytes      int
	Sharing    sharing
	Roots      []int // each sends a message of so many bytes to all others
}

// blockBytes returns the size of blocks where none is given, the same for all processes.
func blockBytes(a schedule.Algorithm, nodes, bytes int) int {
	if a == schedule.Auto {
		_, size := schedule.Choose(nodes, int64(bytes), nil)
		return size
	}
	return schedule.BlockBytes(a, nodes, int64(bytes))
}

// seed is what the content of a root's message is made of.
func (t *task) seed(root int) uint64 { return t.Number<<8 | uint64(root) }

// patience is how long a member waits for a step of a run to end.
const patience = 90 * time.Second

// address is where a member is.
type address struct {
	Peer  rdmc.Peer
	Plain string // for plain TCP
}

// Requests.
const (
	opPrepare = "prepare" // a task; answered when this member is ready to start
	opGo      = "go"      // at an instant; answered when this member's part is done
	opReport  = "report"  // answered with a report; the run is over
)

// report is what a member saw of a run.
type report struct {
	Start     time.Time         // when it began to send, if it is a root
	Done      map[int]time.Time // by root: when the message was here whole
	CPU       time.Duration     // user and system, from being ready to when all members were done
	PeakBytes int64             // beyond what was in use when it was ready; -1: unknown
}

// Workload is what the processes of "squall bench rdmc" do.
var Workload = bench.NewWorkload("rdmc", open)

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
	run(ctx context.Context, at time.Time) error
	finish(ctx context.Context, r *report) error // closes and checks
}

func open(p bench.Process[any]) (bench.Member, error) {
	return &member{node: p.Node, host: p.Host, buffers: buffers{}}, nil
}

// Listen returns where this member is, in the form of an address.
func (m *member) Listen(ctx context.Context) (addr string, err error) {
	at := net.JoinHostPort(m.host, "0")
	if m.rdmc, err = rdmc.Open(ctx, rdmc.Config{Self: rdmc.Peer{ID: order.NodeID(m.node), Addr: at}}); err != nil {
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
		var at time.Time
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
	if peak := bench.MemoryStatus("VmHWM"); m.usual > 0 && peak > 0 {
		r.PeakBytes = peak - m.usual
	}
	return m.part.finish(ctx, r)
}

// isRoot reports whether this member sends in the run.
func (m *member) isRoot() bool { return slices.Contains(m.task.Roots, m.node-1) }

// idleTime is how long the cores of this machine had nothing to do so far; ok is false where the
// system does not say.
func idleTime() (idle time.Duration, ok bool) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	// User, nice, system, idle, wait for disks, interrupts, soft interrupts, and what the
	// hypervisor took, in hundredths of a second.
	var t [8]int64
	_, err = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
	return time.Duration(t[3]+t[4]+t[7]) * 10 * time.Millisecond, err == nil
}

// watchMachine returns a function that returns how long the machine's cores have worked since: for
// the nodes, for all other programs, and in the kernel's interrupts, which are charged to the
// interrupted process or to none. It returns 0 if the system does not report it.
func watchMachine() func() time.Duration {
	start := time.Now()
	before, ok := idleTime()
	return func() time.Duration {
		idle, still := idleTime()
		if !ok || !still {
			return 0
		}
		return max(0, time.Since(start)*time.Duration(runtime.NumCPU())-(idle-before))
	}
}
