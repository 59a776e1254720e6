package fabrictest_test

import (
	"context"
	"crypto/tls"
	mathrand "math/rand/v2"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

func TestMemory(t *testing.T) {
	fabrictest.Run(t, func(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
		var shapes []fabric.RowShape
		for range n {
			shapes = append(shapes, shape)
		}
		return fabrictest.NewMemory(shapes...).Tables
	})
}

func TestSharedMemory(t *testing.T) {
	requireSharedMemory(t)
	fabrictest.Run(t, world{mode: auto.SHM}.early)
}

func TestTCP(t *testing.T) { fabrictest.Run(t, world{mode: auto.TCP}.early) }

func TestTCPWithTLS(t *testing.T) {
	fabrictest.Run(t, world{mode: auto.TCP, tls: testutil.NewAuthority(t).TLS()}.early)
}

// Rank 1 offers no shared memory, as if it were on another host: every table has links of both
// kinds, or of one.
func TestAutoMixed(t *testing.T) {
	requireSharedMemory(t)
	w := world{mode: auto.Auto, remote: 1}
	fabrictest.Run(t, w.early)
	tables := w.open(t, 3, fabric.RowShape{ControlBytes: 64, RowBytes: 128})
	for _, table := range tables {
		for r := range order.Rank(3) {
			want := "shm"
			switch {
			case r == table.Self():
				want = "self"
			case r == 1 || table.Self() == 1:
				want = "tcp"
			}
			if got := table.LinkName(r); got != want {
				t.Errorf("rank %d reaches rank %d by %s, not %s", table.Self(), r, got, want)
			}
		}
		defer table.Close()
	}
}

func requireSharedMemory(t testing.TB) {
	if !sharedMemory() {
		t.Skip("no shared memory between processes on this platform")
	}
}

// scope is that of the view in these tests.
var scope = trust.Scope{Cluster: "test", View: 1, Key: "key"}

// world opens tables through package auto.
type world struct {
	mode   auto.Mode
	tls    *tls.Config
	remote order.Rank // this rank offers no shared memory; 0: all ranks do
}

// node is one member's end.
type node struct {
	port   *port.Port
	fabric *auto.Node
	parker *fabric.Parker

	identity    *trust.Identity
	certificate trust.Digest
}

func (w world) node(t testing.TB) node {
	t.Helper()
	var n node
	var err error
	if n.port, err = port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0", TLS: w.tls}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.port.Close() })
	if n.fabric, err = auto.Open(t.Context(), auto.Config{Mode: w.mode, Port: n.port, TLS: w.tls}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.fabric.Close() })
	if n.parker, err = fabric.NewParker(); err != nil {
		t.Fatal(err)
	}
	n.parker.OneLoop = true
	t.Cleanup(func() { n.parker.Close() })
	n.identity = trust.NewIdentity()
	if n.certificate, err = trust.OwnCertificate(w.tls, "127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	return n
}

func (w world) open(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
	t.Helper()
	tables, _ := w.openNodes(t, n, shape)
	return tables
}

// early is a world whose links are coming.
func (w world) early(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
	t.Helper()
	tables, _ := w.openEarly(t, n, shape)
	return tables
}

func (w world) openNodes(t testing.TB, n int, shape fabric.RowShape) ([]*fabric.Table, []node) {
	t.Helper()
	tables, nodes := w.openEarly(t, n, shape)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, table := range tables {
		if err := table.Await(ctx); err != nil {
			t.Fatalf("rank %d: %v", table.Self(), err)
		}
	}
	return tables, nodes
}

// openEarly opens tables in any order.
func (w world) openEarly(t testing.TB, n int, shape fabric.RowShape) ([]*fabric.Table, []node) {
	t.Helper()
	nodes, peers := make([]node, n), make([]fabric.Peer, n)
	for r := range nodes {
		nodes[r] = w.node(t)
		peers[r] = fabric.Peer{
			ID: order.NodeID(r + 1), Addr: nodes[r].port.Addr(), Host: nodes[r].fabric.Host(), SHM: nodes[r].fabric.SHM(), Shape: shape,
			PublicKey: nodes[r].identity.PublicKey(), Certificate: nodes[r].certificate,
		}
		if w.remote != 0 && order.Rank(r) == w.remote {
			peers[r].SHM = ""
		}
	}
	tables := make([]*fabric.Table, n)
	for _, r := range mathrand.Perm(n) {
		var err error
		if tables[r], err = nodes[r].fabric.Open(fabric.Spec{
			Scope: scope, Identity: nodes[r].identity, Self: order.Rank(r), Peers: peers, Parker: nodes[r].parker,
		}); err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
	}
	return tables, nodes
}

func sharedMemory() bool {
	p, err := port.Open(context.Background(), port.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		return false
	}
	defer p.Close()
	n, err := auto.Open(context.Background(), auto.Config{Mode: auto.SHM, Port: p})
	if err != nil {
		return false
	}
	return n.Close() == nil
}
