//go:build linux

package verbs

import (
	"testing"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/fabric/verbs/device"
	"github.com/squall-go/squall/fabric/verbs/internal/fake"
	"github.com/squall-go/squall/order"
)

// world is a view whose members all run in this test. The test calls their steps.
type world struct {
	net   *fake.Network
	shape fabric.RowShape
	nodes []*node
}

// node is a member's end.
type node struct {
	self   order.Rank
	parker *fabric.Parker
	links  *links
	own    []byte
	table  *fabric.Table
	to     []*Link // by rank
}

// rope is a lifeline of which both ends are in this test.
type rope struct{ cut, other *bool }

func (r rope) ended() bool { return *r.other }
func (r rope) look() bool  { return *r.other }
func (r rope) hangUp()     { *r.cut = true }
func (r rope) close() error {
	r.hangUp()
	return nil
}

func newWorld(t testing.TB, n int, shape fabric.RowShape, o fake.Options) *world {
	w := &world{net: fake.New(o), shape: shape}
	spec := fabric.Spec{}
	for range n {
		spec.Peers = append(spec.Peers, fabric.Peer{Shape: shape})
	}
	for r := range n {
		parker, err := fabric.NewParker()
		must(t, err)
		own, _, err := fabric.NewMemory(shape.RowBytes)
		must(t, err)
		s := spec
		s.Self, s.Parker = order.Rank(r), parker
		ls, err := New(w.net.Device()).Open(&s, own)
		must(t, err)
		w.nodes = append(w.nodes, &node{self: order.Rank(r), parker: parker, links: ls.(*links), own: own, to: make([]*Link, n)})
	}
	for a := range w.nodes {
		for b := range a {
			w.connect(t, w.nodes[a], w.nodes[b])
		}
	}
	for _, n := range w.nodes {
		ends := make([]fabric.Link, len(w.nodes))
		for r, l := range n.to {
			if l != nil {
				ends[r] = l
			}
		}
		n.table = fabric.NewTable(n.self, n.own, ends, n.parker, nil)
	}
	return w
}

// connect makes the links of a pair.
func (w *world) connect(t testing.TB, a, b *node) {
	la, err := a.links.link(b.self)
	must(t, err)
	lb, err := b.links.link(a.self)
	must(t, err)
	cuts := [2]bool{}
	la.lifeline, lb.lifeline = rope{&cuts[0], &cuts[1]}, rope{&cuts[1], &cuts[0]}
	sa, sb := la.setup(), lb.setup()
	la.remote, lb.remote = device.Region{Address: sb.Address, Key: sb.Key}, device.Region{Address: sa.Address, Key: sa.Key}
	must(t, la.pair.Connect(sb.Pair))
	must(t, lb.pair.Connect(sa.Pair))
	a.to[b.self], b.to[a.self] = la, lb
}

// close closes everything, and checks that nothing is left of it.
func (w *world) close(t testing.TB) {
	for _, n := range w.nodes {
		for _, l := range n.to { // the test is one goroutine: no peer would answer
			if l != nil {
				l.over = true
			}
		}
		must(t, n.table.Close())
		must(t, n.links.Close())
		must(t, n.parker.Close())
	}
	if open := w.net.Open(); open > 0 {
		t.Errorf("%d pairs and queues are left", open)
	}
	w.net.Close()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
