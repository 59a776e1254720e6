//go:build linux

package fabrictest_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/proc"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"golang.org/x/sys/unix"
)

// memberCommand is the command of a process that is a member of another one's view.
const memberCommand = "member"

func TestMain(m *testing.M) {
	proc.Become(proc.Program{Name: memberCommand, Run: member})
	os.Exit(m.Run())
}

// roles are what a member in another process does until its input ends. What goes wrong is its
// error.
var roles = map[string]func(table *fabric.Table, p *fabric.Parker, stop *atomic.Bool) error{
	"chatter": chatter,
	"litmus":  litmus,
	"pong":    pong,
}

// invitation is what a member in another process needs to know: all members, in order of rank,
// itself last.
type invitation struct {
	Mode  auto.Mode
	Peers []fabric.Peer
}

// member is the function of a process that is the last rank of a view. It is told its role, sends
// its identity, gets the invitation, opens the table, and plays the role.
func member(ctx context.Context, parent *proc.Parent) error {
	var role string
	if err := parent.Config(&role); err != nil {
		return err
	}
	p, err := port.Open(ctx, port.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	var invited invitation
	fab, err := auto.Open(ctx, auto.Config{Port: p})
	if err != nil {
		return err
	}
	identity := trust.NewIdentity()
	if err := parent.Send(fabric.Peer{Addr: p.Addr(), Host: fab.Host(), SHM: fab.SHM(), PublicKey: identity.PublicKey()}); err != nil {
		return err
	}
	if err := parent.Receive(ctx, &invited); err != nil {
		return err
	}
	parker, err := fabric.NewParker()
	if err != nil {
		return err
	}
	parker.OneLoop = true
	table, err := openAs(fab, identity, order.Rank(len(invited.Peers)-1), invited.Peers, parker)
	if err != nil {
		return err
	}
	var stop atomic.Bool
	context.AfterFunc(ctx, func() {
		stop.Store(true)
		parker.Wake()
	})
	if err := roles[role](table, parker, &stop); err != nil {
		return err
	}
	return errors.Join(table.Close(), fab.Close(), p.Close())
}

func openAs(n *auto.Node, identity *trust.Identity, self order.Rank, peers []fabric.Peer, parker *fabric.Parker) (*fabric.Table, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	table, err := n.Open(fabric.Spec{Scope: scope, Identity: identity, Self: self, Peers: peers, Parker: parker})
	if err != nil {
		return nil, err
	}
	return table, table.Await(ctx)
}

// child is a process that plays a role.
type child struct {
	*proc.Child
	temporary string // directory
}

// end tells the process to finish and returns what it found wrong.
func (c *child) end() error {
	c.CloseInput()
	return c.Wait()
}

// withChild opens a view of which the last member is another process; the others are here.
func withChild(t *testing.T, mode auto.Mode, role string, here int, shape fabric.RowShape) ([]*fabric.Table, []node, *child) {
	t.Helper()
	c := &child{temporary: t.TempDir()}
	var err error
	if c.Child, err = proc.Start(context.Background(), memberCommand, role, proc.Options{Role: role, Env: []string{"TMPDIR=" + c.temporary}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Kill()
		_ = c.end()
	})
	var last fabric.Peer
	if err := c.Receive(testutil.Within(t), &last); err != nil {
		t.Fatal(err)
	}
	nodes, peers := make([]node, here), make([]fabric.Peer, here+1)
	for r := range nodes {
		nodes[r] = world{mode: mode}.node(t)
		peers[r] = fabric.Peer{Addr: nodes[r].port.Addr(), Host: nodes[r].fabric.Host(), SHM: nodes[r].fabric.SHM(), PublicKey: nodes[r].identity.PublicKey()}
	}
	peers[here] = last
	for r := range peers {
		peers[r].ID, peers[r].Shape = order.NodeID(r+1), shape
	}
	if err := c.Send(invitation{mode, peers}); err != nil {
		t.Fatal(err)
	}
	tables, errs := make([]*fabric.Table, here), make(chan error, here)
	for r := range nodes {
		go func() {
			var err error
			tables[r], err = openAs(nodes[r].fabric, nodes[r].identity, order.Rank(r), peers, nodes[r].parker)
			errs <- err
		}()
	}
	for range nodes {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	return tables, nodes, c
}

var processModes = []auto.Mode{auto.SHM, auto.TCP}

// chatter writes its row as fast as it can.
func chatter(table *fabric.Table, _ *fabric.Parker, stop *atomic.Bool) error {
	for n := uint64(1); !stop.Load(); n++ {
		table.Poll()
		atomic.StoreUint64(fabric.Word(table.Row(table.Self()), fabric.LineBytes), n)
		table.PushLine([]order.Rank{0, 1}, fabric.LineBytes)
		table.Flush()
	}
	return nil
}

// F5 and F4 with a process that is killed in the middle of its writes: each of the others is told
// once, keeps a replica that stays readable, and nothing is left when they close.
func TestAKilledProcessIsReportedOnce(t *testing.T) {
	shape := fabric.RowShape{ControlBytes: 128, RowBytes: 128 + 64<<10}
	for _, mode := range processModes {
		t.Run(mode.String(), func(t *testing.T) {
			if mode == auto.SHM {
				requireSharedMemory(t)
			}
			before := fabrictest.Resources()
			t.Run("view", func(t *testing.T) {
				tables, _, c := withChild(t, mode, "chatter", 2, shape)
				word := func(table *fabric.Table) uint64 {
					return atomic.LoadUint64(fabric.Word(table.Row(2), fabric.LineBytes))
				}
				poll := func(what string, holds func() bool) {
					for deadline := time.Now().Add(20 * time.Second); !holds(); runtime.Gosched() {
						for _, table := range tables {
							table.Poll()
							table.Flush()
						}
						if time.Now().After(deadline) {
							t.Fatalf("not in time: %s", what)
						}
					}
				}
				poll("writes of the other process", func() bool { return word(tables[0]) > 100 && word(tables[1]) > 100 })
				c.Kill()
				told := make([][]fabric.Failure, 2)
				poll("the failure", func() bool {
					for r, table := range tables {
						told[r] = append(told[r], table.Failures()...)
					}
					return len(told[0]) > 0 && len(told[1]) > 0
				})
				row := slices.Clone(tables[0].Row(2))
				for range 200 {
					for r, table := range tables {
						table.Poll()
						table.Flush()
						told[r] = append(told[r], table.Failures()...)
					}
				}
				for r := range tables {
					if f := told[r]; len(f) != 1 || f[0].Rank != 2 || !errors.Is(f[0].Err, fabric.ErrPeerGone) {
						t.Errorf("F5: rank %d saw %v", r, f)
					}
				}
				if !slices.Equal(row, tables[0].Row(2)) {
					t.Error("F4: the replica of a dead process changed")
				}
				for _, table := range tables {
					if err := table.Close(); err != nil {
						t.Error(err)
					}
				}
				if left, err := os.ReadDir(c.temporary); err != nil || len(left) > 0 {
					t.Errorf("left in the temporary directory: %v, %v", left, err)
				}
			})
			fabrictest.Settle(t, before)
		})
	}
}

// F3 in shared memory: whatever a process tries on a row that is not its own, and whatever its
// owner tries on a row that others read, the kernel refuses.
func TestSharedRowsCannotBeChangedByOthers(t *testing.T) {
	requireSharedMemory(t)
	const n = 3
	tables := world{mode: auto.SHM}.open(t, n, fabric.RowShape{ControlBytes: 64, RowBytes: 8192})
	for _, table := range tables {
		defer table.Close()
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	writable, readOnly := 0, 0
	for line := range strings.Lines(string(maps)) {
		if fields := strings.Fields(line); strings.Contains(line, "memfd:squall-row") {
			switch fields[1] {
			case "rw-s":
				writable++
			case "r--s":
				readOnly++
			default:
				t.Errorf("F3: a row is mapped %s", fields[1])
			}
		}
	}
	if writable != n || readOnly != n*(n-1) {
		t.Errorf("F3: %d rows are mapped writable and %d read-only, want %d and %d", writable, readOnly, n, n*(n-1))
	}
	for _, table := range tables {
		for r := range order.Rank(n) {
			if r != table.Self() {
				if err := unix.Mprotect(table.Row(r), unix.PROT_READ|unix.PROT_WRITE); err != unix.EACCES {
					t.Errorf("F3: making the replica of rank %d writable: %v", r, err)
				}
			}
		}
	}
	segments := 0
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range fds {
		path := "/proc/self/fd/" + entry.Name()
		if target, _ := os.Readlink(path); !strings.Contains(target, "memfd:squall-row") {
			continue
		}
		segments++
		tryToChange(t, path)
	}
	if segments == 0 {
		t.Error("no segment found to try")
	}
}

// tryToChange opens a row's segment anew, as any process of the user could, and tries everything
// that would hurt a reader.
func tryToChange(t *testing.T, path string) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	refused := func(what string, err error) {
		t.Helper()
		if err != unix.EPERM {
			t.Errorf("F3: %s: %v", what, err)
		}
	}
	_, err = unix.Mmap(fd, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	refused("a writable mapping", err)
	_, err = unix.Pwrite(fd, []byte{1}, 0)
	refused("a write", err)
	refused("shrinking", unix.Ftruncate(fd, 0))
	refused("growing", unix.Ftruncate(fd, 1<<20))
	refused("a hole", unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4096))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	refused("more seals", err)
}
