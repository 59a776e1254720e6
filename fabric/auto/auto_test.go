package auto

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

const patience = 20 * time.Second

// member is one node of a test, and what its port and its socket reject.
type member struct {
	*Node
	t        *testing.T
	port     *port.Port
	parker   *fabric.Parker
	rejected chan port.Rejection
	identity *trust.Identity
}

func newMember(t *testing.T, mode Mode) *member {
	t.Helper()
	m := &member{t: t, rejected: make(chan port.Rejection, 1024), identity: trust.NewIdentity()}
	var err error
	if m.port, err = port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", OnReject: func(r port.Rejection) { m.rejected <- r }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.port.Close() })
	if m.Node, err = Open(t.Context(), Config{Mode: mode, Port: m.port}); errors.Is(err, ErrNoSharedMemory) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Node.Close() })
	if m.parker, err = fabric.NewParker(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.parker.Close() })
	return m
}

func (m *member) peer(id order.NodeID) fabric.Peer {
	return fabric.Peer{
		ID: id, Addr: m.port.Addr(), Host: m.Host(), SHM: m.SHM(), Shape: fabric.RowShape{ControlBytes: 64, RowBytes: 4096},
		PublicKey: m.identity.PublicKey(),
	}
}

// open opens a view as one of its members.
func (m *member) open(view order.ViewID, self order.Rank, peers ...fabric.Peer) *fabric.Table {
	m.t.Helper()
	table, err := m.Open(fabric.Spec{
		Scope:    trust.Scope{Cluster: "c", View: uint64(view), Key: string(rune('a' + view))},
		Identity: m.identity, Self: self, Peers: peers, Parker: m.parker,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { table.Close() })
	return table
}

func await(t *testing.T, table *fabric.Table) error {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return table.Await(ctx)
}

func modes(t *testing.T, try func(t *testing.T, mode Mode)) {
	for _, mode := range []Mode{SHM, TCP} {
		t.Run(mode.String(), func(t *testing.T) { try(t, mode) })
	}
}

func TestAPeerThatDoesNotListenIsAFailure(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		gone, here := newMember(t, mode), newMember(t, mode)
		peers := []fabric.Peer{gone.peer(1), here.peer(2)}
		gone.Node.Close()
		gone.port.Close()
		table := here.open(1, 1, peers...)
		if err := await(t, table); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if f := table.Failures(); len(f) != 1 || f[0].Rank != 0 || !table.Frozen(0) {
			t.Errorf("failures: %v", f)
		}
	})
}

// end leaves what remains of a process that was killed: no process listens at its address any more.
func (m *member) end() {
	m.Node.Close()
	m.port.Close()
}

// identified are the peers of a view whose processes are known.
func identified(members ...*member) (peers []fabric.Peer) {
	for i, m := range members {
		p := m.peer(order.NodeID(i + 1))
		p.Incarnation = uint64(100 + i)
		m.Present(p)
		peers = append(peers, p)
	}
	return peers
}

// awaitFailure polls a table until one of its peers failed.
func awaitFailure(t *testing.T, table *fabric.Table) fabric.Failure {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		table.Poll()
		if f := table.Failures(); len(f) > 0 {
			return f[0]
		}
	}
	t.Fatal("no member failed")
	return fabric.Failure{}
}

func TestAPeerThatWasReachedAndEndsBeforeItCallsIsAFailure(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		here, gone := newMember(t, mode), newMember(t, mode)
		peers := identified(here, gone)
		if err := here.Reach(t.Context(), peers[1]); err != nil {
			t.Fatal(err)
		}
		gone.end()
		if f := awaitFailure(t, here.open(1, 0, peers...)); f.Rank != 1 || !errors.Is(f.Err, fabric.ErrPeerGone) {
			t.Errorf("failure: %v", f)
		}
	})
}

func TestAPeerThatEndsWhileItIsAwaitedIsAFailure(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		here, gone := newMember(t, mode), newMember(t, mode)
		peers := identified(here, gone)
		table := here.open(1, 0, peers...)
		for end := time.Now().Add(patience); !here.presence.wasReached(peers[1].Process()); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it was never asked for")
			}
		}
		gone.end()
		if f := awaitFailure(t, table); f.Rank != 1 || !errors.Is(f.Err, fabric.ErrPeerGone) {
			t.Errorf("failure: %v", f)
		}
	})
}

// A host that is short of something may refuse a connection, too, though not for long.
func TestAConnectionThatIsRefusedOnceProvesNothing(t *testing.T) {
	here, there := newMember(t, TCP), newMember(t, TCP)
	peers := identified(here, there)
	if err := here.Reach(t.Context(), peers[1]); err != nil {
		t.Fatal(err)
	}
	calls, dial := 0, here.presence.dial
	here.presence.dial = func(ctx context.Context, addr string, kind port.Kind, c *tls.Config) (net.Conn, error) {
		if calls++; calls == 1 {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		return dial(ctx, addr, kind, c)
	}
	conn, err := here.presence.question(peers[1])
	if err != nil || calls != 2 {
		t.Fatalf("after %d calls: %v", calls, err)
	}
	conn.Close()
}

// The dialing side, too, calls a port where another process listens, which awaits no view of that
// key.
func TestANodeThatWasStartedAgainIsAFailureInTheViewOfItsFormerProcess(t *testing.T) {
	for self := range order.Rank(2) {
		here, again := newMember(t, TCP), newMember(t, TCP)
		members := []*member{again, again}
		members[self] = here
		peers := identified(members...)
		again.Present(fabric.Peer{ID: peers[1-self].ID, Incarnation: 7})
		if f := awaitFailure(t, here.open(1, self, peers...)); f.Rank != 1-self || !errors.Is(f.Err, errAnotherProcess) {
			t.Errorf("failure: %v", f)
		}
	}
}

// A firewall refuses connections, too; and a process that does not answer may be stopped.
func TestWhoWasNeverReachedOrOnlyIsSilentIsNoFailure(t *testing.T) {
	here, absent, silent := newMember(t, TCP), newMember(t, TCP), newMember(t, TCP)
	peers := identified(here, absent, silent)
	absent.end()
	asked := make(chan struct{}, 100)
	silent.port.Handle(port.KindPresence, func(conn net.Conn) {
		asked <- struct{}{}
		conn.Close()
	})
	table := here.open(1, 0, peers...)
	for range 3 {
		<-asked
	}
	if table.Poll(); len(table.Failures()) > 0 {
		t.Errorf("failures: %v", table.Failures())
	}
}

func TestAMemberOnAnotherHostIsAFailureIfNothingButSharedMemoryIsAllowed(t *testing.T) {
	here := newMember(t, SHM)
	far := here.peer(2)
	far.Host = "another"
	table := here.open(1, 0, here.peer(1), far)
	if err := await(t, table); !errors.Is(err, ErrNoSharedMemory) {
		t.Errorf("%v", err)
	}
}

// The first member in the next view calls a member that still awaits links of this view. It must
// not have to call again.
func TestTheNextViewIsOpenedWhileLinksOfThisOneAreComing(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		senior, junior, absent := newMember(t, mode), newMember(t, mode), newMember(t, mode)
		first := []fabric.Peer{senior.peer(1), junior.peer(2), absent.peer(3)}
		senior.open(1, 0, first...)
		early := junior.open(2, 1, first[:2]...)
		for range 100 {
			early.Poll() // its call gets there before the view is awaited, most of the time
			runtime.Gosched()
		}
		late := senior.open(2, 0, first[:2]...)
		for _, table := range []*fabric.Table{early, late} {
			if err := await(t, table); err != nil {
				t.Error(err)
			}
		}
		if len(senior.rejected) > 0 {
			t.Errorf("turned away: %v", <-senior.rejected)
		}
	})
}

func TestAPeerWhoseComingLinkWasFrozenIsRefused(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		freezer, late := newMember(t, mode), newMember(t, mode)
		peers := []fabric.Peer{freezer.peer(1), late.peer(2)}
		freezer.open(1, 0, peers...).Freeze(1)
		if err := await(t, late.open(1, 1, peers...)); !errors.Is(err, fabric.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
}

func TestAPeerThatComesLateIsWaitedFor(t *testing.T) {
	modes(t, func(t *testing.T, mode Mode) {
		senior, junior := newMember(t, mode), newMember(t, mode)
		peers := []fabric.Peer{senior.peer(1), junior.peer(2)}
		early := junior.open(1, 1, peers...)
		for range 1000 {
			early.Poll()
		}
		if f := early.Failures(); len(f) > 0 || early.Linked(0) {
			t.Fatalf("not linked, or told %v", f)
		}
		late := senior.open(1, 0, peers...)
		for _, table := range []*fabric.Table{early, late} {
			if err := await(t, table); err != nil {
				t.Error(err)
			}
		}
	})
}

// Nothing remains of a conversation that is established when no member waits for it any more.
func TestAnAnswerThatComesTooLateEndsItsConversation(t *testing.T) {
	asks, answers := newMember(t, TCP), newMember(t, TCP)
	peer := answers.peer(2)
	peer.Incarnation = 7
	answers.Present(peer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		conn, err := asks.presence.ask(ctx, peer)
		if err != nil {
			break
		}
		conn.Close() // it was as fast
	}
	open := func() int {
		answers.presence.mu.Lock()
		defer answers.presence.mu.Unlock()
		return len(answers.presence.lasting)
	}
	for deadline := time.Now().Add(patience); !asks.presence.wasReached(peer.Process()) || open() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("reached: %v; %d conversations are open", asks.presence.wasReached(peer.Process()), open())
		}
	}
}
