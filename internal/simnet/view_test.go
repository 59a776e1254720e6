package simnet

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/fabrictest"
	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/order"
)

var twoLines = fabric.RowShape{ControlBytes: 2 * line, RowBytes: 2*line + 4096}

func kinds(t *testing.T, try func(t *testing.T, kind func(a, b order.NodeID) Kind)) {
	for _, kind := range []Kind{Framed, Shared, Seeping} {
		t.Run(kind.String(), func(t *testing.T) { try(t, func(order.NodeID, order.NodeID) Kind { return kind }) })
	}
}

func always(d Delay) func(order.NodeID, order.NodeID) Delay {
	return func(order.NodeID, order.NodeID) Delay { return d }
}

// The suite on links that come up while its goroutines push already.
func TestLateLinksKeepTheFabricsPromises(t *testing.T) {
	fabrictest.Run(t, func(t testing.TB, n int, shape fabric.RowShape) []*fabric.Table {
		var mu sync.Mutex
		var net *Net
		seed := testutil.Seed(t)
		net = New(seed, Options{
			SocketBytes: 256 << 10, PieceBytes: 64 << 10, NoticeAfter: 10 * time.Microsecond,
			Delay: always(Delay{Base: time.Microsecond, Jitter: 10 * time.Microsecond}),
			Wrap:  func(_, _ order.NodeID, l fabric.Link) fabric.Link { return locked{l, &mu, &net} },
		})
		var tables []*fabric.Table
		for r := range order.Rank(n) {
			tables = append(tables, net.OpenView(1, "key", r, endpoints(n, shape)))
		}
		net.Advance(time.Millisecond)
		return tables
	})
}

// F6
func TestALinkComesUpWhenBothEndsOpenedTheView(t *testing.T) {
	kinds(t, func(t *testing.T, kind func(a, b order.NodeID) Kind) {
		net := New(1, Options{Kind: kind, Delay: always(Delay{Base: 10})})
		members := endpoints(2, twoLines)
		first := net.OpenView(1, "key", 0, members)
		first.Row(0)[2*line] = 9
		first.Push(toSecond, 2*line, 8)
		put(first, 7)
		first.Flush()
		net.Advance(100)
		if first.Poll() != 0 || first.Linked(1) {
			t.Fatal("linked without a peer")
		}
		net.OpenView(1, "another key", 1, members)
		net.OpenView(2, "key", 1, members)
		net.Advance(200)
		if first.Poll() != 0 || first.Linked(1) {
			t.Fatal("linked with another view")
		}
		second := net.OpenView(1, "key", 1, members)
		net.Advance(209)
		first.Poll()
		second.Poll()
		if first.Linked(1) || second.Linked(0) {
			t.Fatal("linked before the time of the way")
		}
		if at, ok := net.Due(1); !ok || at != 210 {
			t.Fatalf("due at %v, %v", at, ok)
		}
		for now := time.Duration(210); now < 300; now++ {
			net.Advance(now)
			for _, table := range []*fabric.Table{first, second} {
				table.Poll()
				table.Flush()
			}
			if get(second, 0) != 0 && second.Row(0)[2*line] != 9 {
				t.Fatal("F2: the word is here, the byte before it is not")
			}
		}
		if !first.Linked(1) || !second.Linked(0) || get(second, 0) != 7 {
			t.Fatalf("linked %v and %v; the word is %d", first.Linked(1), second.Linked(0), get(second, 0))
		}
	})
}

func TestACutHoldsUpLinksThatComeUp(t *testing.T) {
	net := New(1, Options{})
	net.Cut(2, 1)
	members := endpoints(2, twoLines)
	first, second := net.OpenView(1, "", 0, members), net.OpenView(1, "", 1, members)
	net.Advance(time.Second)
	first.Poll()
	second.Poll()
	if first.Linked(1) || !second.Linked(0) {
		t.Fatalf("linked %v after the cut and %v before it", first.Linked(1), second.Linked(0))
	}
	if _, ok := net.Due(1); ok {
		t.Fatal("something is due after the cut")
	}
	net.Heal(2, 1)
	if first.Poll(); !first.Linked(1) {
		t.Fatal("not linked after the cut was healed")
	}
}

func TestAPeerThatEndedBeforeTheLinkIsAFailureUnlessItsHostDid(t *testing.T) {
	members := endpoints(2, twoLines)
	for _, before := range []bool{false, true} {
		for _, power := range []bool{false, true} {
			net := New(1, Options{NoticeAfter: 50, Delay: always(Delay{Base: 10})})
			end := net.Crash
			if power {
				end = net.PowerOff
			}
			if before {
				end(2)
			}
			table := net.OpenView(1, "", 0, members)
			if !before {
				net.Advance(100)
				end(2)
			}
			if table.Poll(); len(table.Failures()) > 0 {
				t.Fatal("heard of at once")
			}
			net.Advance(200)
			table.Poll()
			switch f := table.Failures(); {
			case power && len(f) > 0:
				t.Errorf("a host without power told %v", f)
			case !power && (len(f) != 1 || !errors.Is(f[0].Err, fabric.ErrPeerGone)):
				t.Errorf("told %v", f)
			}
		}
	}
}

// Z4
func TestARestartedNodeHasNothingOfItsEarlierProcess(t *testing.T) {
	kinds(t, func(t *testing.T, kind func(a, b order.NodeID) Kind) {
		net := New(1, Options{Kind: kind})
		members := endpoints(2, twoLines)
		first, early := net.OpenView(1, "", 0, members), net.OpenView(1, "", 1, members)
		waiting := net.OpenView(2, "", 1, members)
		step := func(tables ...*fabric.Table) {
			for _, table := range tables {
				table.Poll()
				table.Flush()
			}
		}
		step(first, early, first, early)
		net.Restart(2)
		step(first)
		if f := first.Failures(); len(f) != 1 || get(first, 1) != 0 {
			t.Fatalf("told %v", f)
		}
		second := net.OpenView(2, "", 0, members)
		net.Advance(time.Second)
		if step(second, waiting); second.Linked(1) || waiting.Linked(0) || len(second.Failures()) > 0 {
			t.Fatal("linked with a process that is gone")
		}
		again := net.OpenView(2, "", 1, members)
		put(second, 9)
		step(second, again, second, again, again)
		if !second.Linked(1) || !again.Linked(0) || get(again, 0) != 9 {
			t.Fatalf("not linked with the new process: %v, %v, %d", second.Linked(1), again.Linked(0), get(again, 0))
		}
	})
}

func TestWhoFreezesAComingLinkEndsItForTheOtherOne(t *testing.T) {
	kinds(t, func(t *testing.T, kind func(a, b order.NodeID) Kind) {
		for _, when := range []time.Duration{0, 10} { // on its way; here, but not taken in
			net := New(1, Options{Kind: kind, Delay: always(Delay{Base: 10})})
			members := endpoints(2, twoLines)
			first, second := net.OpenView(1, "", 0, members), net.OpenView(1, "", 1, members)
			net.Advance(when)
			first.Freeze(1)
			for now := when; now < 50; now++ {
				net.Advance(now)
				second.Poll()
				second.Flush()
			}
			if f := second.Failures(); len(f) != 1 {
				t.Fatalf("told %v", f)
			}
			if _, ok := net.Due(1); ok {
				t.Error("something is due at a node that froze its only link")
			}
		}
	})
}

func TestClosingTablesWhileTheirLinksAreComingLeavesNothing(t *testing.T) {
	net := New(1, Options{Delay: always(Delay{Base: 10})})
	members := endpoints(3, twoLines)
	for round := range 20 {
		var tables []*fabric.Table
		for r := range order.Rank(2 + round%2) {
			tables = append(tables, net.OpenView(order.ViewID(round), "", r, members))
			net.Advance(net.Now() + time.Duration(round))
			tables[0].Poll()
		}
		for _, table := range tables {
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	net.Advance(net.Now() + time.Second)
	for id := range order.NodeID(4) {
		d := net.node(id)
		if len(d.links)+len(d.waited) > 0 {
			t.Errorf("node %d: %d links, %d waited for", id, len(d.links), len(d.waited))
		}
	}
	if len(net.pairs)+len(net.agenda) > 0 {
		t.Errorf("%d pairs, %d events", len(net.pairs), len(net.agenda))
	}
}

func TestAClosedLinksMemoryIsZeroWhenItIsUsedAgain(t *testing.T) {
	net := New(1, Options{})
	members := endpoints(2, twoLines)
	for view := range order.ViewID(3) {
		first, second := net.OpenView(view, "", 0, members), net.OpenView(view, "", 1, members)
		second.Poll()
		if second.Poll(); get(second, 0) != 0 {
			t.Fatalf("view %d: the word is %d before it was written", view, get(second, 0))
		}
		put(first, 7)
		first.Poll()
		first.Flush()
		if second.Poll(); get(second, 0) != 7 {
			t.Fatalf("view %d: the word is %d", view, get(second, 0))
		}
		first.Close()
		second.Close()
	}
	if len(net.free[twoLines.RowBytes]) != 2 {
		t.Errorf("%d replicas were given back", len(net.free[twoLines.RowBytes]))
	}
}

// Z1
func TestTheSameSeedGivesTheSameRunOfManyViews(t *testing.T) {
	run := func(seed uint64) uint64 {
		h := fnv.New64a()
		net := New(seed, Options{
			Kind:  func(a, b order.NodeID) Kind { return Kind((a + b) % 3) },
			Delay: always(Delay{Base: 5, Jitter: 50, Tail: 500, TailEvery: 10}), NoticeAfter: 30,
		})
		members := endpoints(4, twoLines)
		tables := make([]*fabric.Table, 4)
		var conns []*Conn
		net.Listen(2, func(c *Conn) { conns = append(conns, c) })
		calls := rand.New(rand.NewPCG(7, 7))
		for step := range 2000 {
			net.Advance(time.Duration(step * 10))
			r := order.Rank(calls.IntN(4))
			switch calls.IntN(100) {
			case 0:
				net.Restart(members[r].ID)
				tables[r] = nil
			case 1:
				conns = append(conns, net.Dial(members[r].ID, 2))
			}
			for _, c := range conns {
				c.Send(step)
				if msg, ok := c.Recv(); ok {
					h.Write([]byte{byte(msg.(int)), byte(step)})
				}
			}
			if tables[r] == nil {
				tables[r] = net.OpenView(order.ViewID(step/200), "", r, members)
			}
			table := tables[r]
			atomic.AddUint64(fabric.Word(table.Row(r), line), 1)
			table.PushLine([]order.Rank{0, 1, 2, 3}, line)
			table.Poll()
			table.Flush()
			for peer := range order.Rank(4) {
				h.Write(table.Row(peer)[:2*line])
			}
		}
		return h.Sum64()
	}
	once, again, other := run(1), run(1), run(2)
	if once != again {
		t.Fatal("two runs of one seed differ")
	}
	if once == other {
		t.Fatal("two seeds give one run")
	}
}

func TestOpeningInAnyOrderGivesEverybodyAllLinks(t *testing.T) {
	const n = 5
	for seed := range uint64(20) {
		net := New(seed, Options{Kind: func(a, b order.NodeID) Kind { return Kind((a + b) % 3) }, Delay: always(Delay{Base: 5, Jitter: 50})})
		members, tables := endpoints(n, twoLines), make([]*fabric.Table, n)
		for _, r := range rand.New(rand.NewPCG(seed, 0)).Perm(n) {
			net.Advance(net.Now() + 20)
			tables[r] = net.OpenView(1, "", order.Rank(r), members)
		}
		net.Advance(net.Now() + 100)
		for r, table := range tables {
			table.Poll()
			linked := slices.DeleteFunc([]order.Rank{0, 1, 2, 3, 4}, func(p order.Rank) bool { return !table.Linked(p) })
			if len(linked) != n-1 {
				t.Errorf("seed %d: rank %d is linked with %v", seed, r, linked)
			}
		}
	}
}
