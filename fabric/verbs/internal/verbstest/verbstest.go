//go:build linux

// Package verbstest tries links of a transport as a group uses them: set up over ports, by
// fabric/auto, between tables of one process. The tests of the fake device and those of real ones
// share it.
package verbstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/auto"
	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
)

// Transports gives each node of a test its transport, or nil. What it opens is for t.Cleanup.
type Transports func(t testing.TB, r order.Rank) fabric.Transport

// member is one node's end.
type member struct {
	port     *port.Port
	fabric   *auto.Node
	parker   *fabric.Parker
	identity *trust.Identity
}

// open opens the tables of a view, whose links are coming.
func open(t testing.TB, mode auto.Mode, of Transports, n int, shape fabric.RowShape) ([]*fabric.Table, []*fabric.Parker) {
	t.Helper()
	members, peers := make([]member, n), make([]fabric.Peer, n)
	for r := range members {
		members[r] = newMember(t, mode, of(t, order.Rank(r)))
		peers[r] = fabric.Peer{ID: order.NodeID(r + 1), Addr: members[r].port.Addr(), Shape: shape, PublicKey: members[r].identity.PublicKey()}
	}
	tables, parkers := make([]*fabric.Table, n), make([]*fabric.Parker, n)
	for _, r := range rand.Perm(n) {
		m := &members[r]
		var err error
		if tables[r], err = m.fabric.Open(fabric.Spec{
			Scope: trust.Scope{Cluster: "test", View: 1, Key: "key"}, Identity: m.identity, Self: order.Rank(r), Peers: peers, Parker: m.parker,
		}); err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
		parkers[r] = m.parker
	}
	return tables, parkers
}

func newMember(t testing.TB, mode auto.Mode, transport fabric.Transport) member {
	t.Helper()
	m := member{identity: trust.NewIdentity()}
	var err error
	if m.port, err = port.Open(t.Context(), port.Config{Addr: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.port.Close() })
	if m.fabric, err = auto.Open(t.Context(), auto.Config{Mode: mode, Port: m.port, Transport: transport}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.fabric.Close() })
	if m.parker, err = fabric.NewParker(); err != nil {
		t.Fatal(err)
	}
	m.parker.OneLoop = true
	t.Cleanup(func() { m.parker.Close() })
	return m
}

func await(t testing.TB, tables []*fabric.Table) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, table := range tables {
		if err := table.Await(ctx); err != nil {
			t.Fatalf("rank %d: %v", table.Self(), err)
		}
	}
}

// Run tries the promises of package fabric over links of the transport alone, and the sleep of
// loops.
func Run(t *testing.T, of Transports) {
	fabrictest.Run(t, func(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
		tables, _ := open(t, auto.Transport, of, n, shape)
		return tables
	})
	t.Run("loops that always sleep lose no wake-up", func(t *testing.T) {
		tables, parkers := open(t, auto.Transport, of, 2, fabrictest.PongShape)
		await(t, tables)
		fabrictest.PingPongs(t, tables, parkers)
	})
	t.Run("links that come and go leave nothing", func(t *testing.T) { comeAndGo(t, of) })
}

var small = fabric.RowShape{ControlBytes: 2 * fabric.LineBytes, RowBytes: 4 * fabric.LineBytes}

// comeAndGo opens and closes the tables of views, one after the other.
func comeAndGo(t *testing.T, of Transports) {
	views := 20
	if testing.Short() {
		views = 3
	}
	view := func(t *testing.T) {
		tables, _ := open(t, auto.Transport, of, 3, small)
		await(t, tables)
		for _, table := range tables {
			if err := table.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("first", view)
	before := fabrictest.Resources()
	for range views {
		t.Run("again", view)
	}
	fabrictest.Settle(t, before)
}

// Mixed has a node without the transport among those with it: it is connected by TCP, and fails
// where only the transport is allowed.
func Mixed(t *testing.T, of Transports) {
	some := func(t testing.TB, r order.Rank) fabric.Transport {
		if r == 1 {
			return nil
		}
		return of(t, r)
	}
	tables, _ := open(t, auto.Auto, some, 3, small)
	await(t, tables)
	for _, table := range tables {
		for r := range order.Rank(3) {
			want := "verbs"
			if r == 1 || table.Self() == 1 {
				want = "tcp"
			}
			if got := table.LinkName(r); r != table.Self() && got != want {
				t.Errorf("rank %d reaches rank %d by %s, not %s", table.Self(), r, got, want)
			}
		}
		defer table.Close()
	}
	strict, _ := open(t, auto.Transport, some, 2, small)
	for _, table := range strict {
		defer table.Close()
	}
	var failures []fabric.Failure
	for deadline := time.Now().Add(30 * time.Second); len(failures) == 0 && time.Now().Before(deadline); runtime.Gosched() {
		strict[0].Poll()
		failures = strict[0].Failures()
	}
	if !slices.ContainsFunc(failures, func(f fabric.Failure) bool { return errors.Is(f.Err, auto.ErrNoTransport) }) {
		t.Errorf("failures: %v", failures)
	}
}
