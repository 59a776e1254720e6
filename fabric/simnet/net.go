package simnet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Net is a network in virtual time. Nodes keep their faults from one view's rows to the next one's.
type Net struct {
	Stats Stats

	opts  Options
	seed  uint64
	now   time.Duration
	nodes map[order.NodeID]*node
	ways  map[[2]order.NodeID]*path
	links uint64 // opened so far; makes each link's seed
}

// node is a process.
type node struct {
	id      order.NodeID
	crashed bool
	fuse    int // calls of the fabric until it crashes; 0: it does not
	power   bool
	links   []*link
}

// path is the way between two nodes, whatever row travels on it.
type path struct {
	delay Delay
	cut   bool
}

// Crashed is what a call of the fabric panics with when it is a node's last one (CrashAfter).
type Crashed struct{ Node order.NodeID }

func (c Crashed) Error() string { return fmt.Sprintf("node %d crashed", c.Node) }

// New makes a network without nodes.
func New(seed uint64, opts Options) *Net {
	if opts.StoreOrder == [fabric.WordsPerLine]int{} {
		for w := range opts.StoreOrder {
			opts.StoreOrder[w] = w
		}
	}
	return &Net{opts: opts, seed: seed, nodes: map[order.NodeID]*node{}, ways: map[[2]order.NodeID]*path{}}
}

// Endpoint is a member of a view and the shape of its row.
type Endpoint struct {
	ID    order.NodeID
	Shape fabric.RowShape
}

// Open lays out the rows of a view and returns the members' tables by rank. Closing one frees nothing but its links: the
// rows are the collector's.
func (n *Net) Open(members []Endpoint) []*fabric.Table {
	rows := make([][]byte, len(members))
	links := make([][]fabric.Link, len(members))
	for r, m := range members {
		rows[r] = memory(m.Shape.RowBytes)
		links[r] = make([]fabric.Link, len(members))
	}
	for a := range members {
		for b := range a {
			links[a][b], links[b][a] = n.connect(members[a], members[b], rows[a], rows[b])
		}
	}
	var tables []*fabric.Table
	for r := range members {
		tables = append(tables, fabric.NewTable(order.Rank(r), rows[r], links[r], nil, nil))
	}
	return tables
}

// memory is line-aligned and on the heap.
func memory(n int) []byte {
	mem := make([]byte, n+fabric.LineBytes)
	skip := -int(uintptr(unsafe.Pointer(&mem[0]))) & (fabric.LineBytes - 1)
	return mem[skip : skip+n : skip+n]
}

func (n *Net) connect(a, b Endpoint, rowA, rowB []byte) (fabric.Link, fabric.Link) {
	kind := Framed
	if n.opts.Kind != nil {
		kind = n.opts.Kind(a.ID, b.ID)
	}
	ab, ba := n.way(a, b, rowA), n.way(b, a, rowB)
	return n.link(a.ID, b.ID, kind, ab, ba), n.link(b.ID, a.ID, kind, ba, ab)
}

func (n *Net) way(from, to Endpoint, row []byte) *way {
	n.links++
	w := &way{net: n, from: n.node(from.ID), to: n.node(to.ID), path: n.path(from.ID, to.ID), row: row, random: rand.New(rand.NewPCG(n.seed, n.links))}
	w.pending = fabric.NewPending(from.Shape.ControlBytes)
	w.shown = make([]uint64, from.Shape.ControlBytes/8)
	return w
}

func (n *Net) link(self, peer order.NodeID, kind Kind, out, in *way) fabric.Link {
	l := &link{net: n, self: n.node(self), peer: n.node(peer), kind: kind, out: out, in: in, replica: in.row}
	if kind != Shared {
		l.replica = memory(len(in.row))
	}
	l.self.links = append(l.self.links, l)
	if n.opts.Wrap != nil {
		return n.opts.Wrap(self, peer, l)
	}
	return l
}

func (n *Net) node(id order.NodeID) *node {
	if n.nodes[id] == nil {
		n.nodes[id] = &node{id: id}
	}
	return n.nodes[id]
}

func (n *Net) path(from, to order.NodeID) *path {
	at := [2]order.NodeID{from, to}
	if n.ways[at] == nil {
		n.ways[at] = &path{}
		if n.opts.Delay != nil {
			n.ways[at].delay = n.opts.Delay(from, to)
		}
	}
	return n.ways[at]
}

// Advance sets the time, which never goes back.
func (n *Net) Advance(now time.Duration) { n.now = max(n.now, now) }

// Now is the time.
func (n *Net) Now() time.Duration { return n.now }

// Cut holds up everything on the way from one node to another until Heal: what is sent meanwhile arrives then, as a
// connection does that survived. Shared memory knows no way, and is not cut.
func (n *Net) Cut(from, to order.NodeID) { n.path(from, to).cut = true }

// Heal ends a Cut.
func (n *Net) Heal(from, to order.NodeID) {
	n.path(from, to).cut = false
	n.due(to, n.now)
}

// Due is when the next thing is there for a node that does not look until then; false if nothing is under way to it, and no
// socket has room again for what it could not send.
func (n *Net) Due(id order.NodeID) (at time.Duration, ok bool) {
	at = math.MaxInt64
	for _, l := range n.node(id).links {
		if l.closed {
			continue
		}
		if l.out.busy() && l.out.room() > 0 {
			return n.now, true
		}
		if l.kind == Framed && l.in.path.cut {
			continue
		}
		if l.in.head < len(l.in.flight) {
			at = min(at, l.in.flight[l.in.head].at)
		} else if l.in.ended {
			at = min(at, l.in.endAt)
		}
	}
	return at, at != math.MaxInt64
}

func (n *Net) due(id order.NodeID, at time.Duration) {
	if n.opts.OnDue != nil {
		n.opts.OnDue(id, at)
	}
}

// Crash ends a node's process. What it handed to its sockets arrives, and its peers hear of the end behind that.
func (n *Net) Crash(id order.NodeID) {
	d := n.node(id)
	if d.crashed {
		return
	}
	d.crashed = true
	for _, l := range d.links {
		l.end()
	}
}

// PowerOff ends a node's host: what is in flight is lost from some piece on, and nobody is told. Peers that share
// memory with the node are on the same host, so that it is no more than a Crash to them.
func (n *Net) PowerOff(id order.NodeID) {
	d := n.node(id)
	if d.crashed {
		return
	}
	d.crashed = true
	for _, l := range d.links {
		if l.kind != Framed {
			l.end()
			continue
		}
		l.out.lose()
	}
}

// CrashAfter ends a node within one of its steps: when it has called its links so many times more, the call panics
// with Crashed. power says whether the host goes with it.
func (n *Net) CrashAfter(id order.NodeID, calls int, power bool) {
	d := n.node(id)
	d.fuse, d.power = max(calls, 1), power
}

// Seep lets a node see more of what its Seeping peers stored. Call it where the real thing might be interrupted.
func (n *Net) Seep(id order.NodeID) {
	for _, l := range n.node(id).links {
		if l.kind == Seeping && !l.closed {
			l.in.seep(l.replica)
		}
	}
}

// InFlight is the number of pieces on all ways that nobody took in yet, those to nodes that crashed left out.
func (n *Net) InFlight() (pieces int) {
	for _, d := range n.nodes {
		for _, l := range d.links {
			if !d.crashed && !l.closed {
				pieces += len(l.in.flight) - l.in.head
			}
		}
	}
	return pieces
}

// burn is one call of the fabric by a node.
func (n *Net) burn(d *node) {
	if d.fuse == 0 {
		return
	}
	if d.fuse--; d.fuse > 0 {
		return
	}
	if d.power {
		n.PowerOff(d.id)
	} else {
		n.Crash(d.id)
	}
	panic(Crashed{d.id})
}
