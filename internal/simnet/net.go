package simnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	nodes []*node // by id, the latest process of each; nil: there was none
	ways  map[[2]order.NodeID]*path
	links uint64 // ways and lanes opened so far; makes the seed of each

	agenda []event // by time
	pairs  map[pairing]*end
	free   map[int][][]byte // replicas of closed links, by size
	stock  *stock           // of all rows and replicas
	spare  []buffers        // of ways that are not looked at any more
	region *region          // of the replicas of Seeping pairs; nil: they lie anywhere
}

// node is a process. A restarted one is another node with the same ID.
type node struct {
	id      order.NodeID
	crashed bool
	silent  bool // its host lost power: nodes on other hosts are not told of its end
	fuse    int  // calls of the fabric until it crashes; 0: it does not
	power   bool
	links   []*link // not closed
	waited  []*end  // of others, that wait for it to open their view
	polled  int     // calls of Poll that took something in
	conns   []*Conn // not closed
	accept  func(*Conn)
}

// path is the way between two nodes, whatever row travels on it.
type path struct {
	delay Delay
	cut   bool
	held  []event // they wait for the way to heal
}

// Crashed is what a call of the fabric panics with when it is a node's last one (CrashAfter).
type Crashed struct{ Node order.NodeID }

func (c Crashed) Error() string { return fmt.Sprintf("node %d crashed", c.Node) }

// New makes a network without nodes. Their ids should be small.
func New(seed uint64, opts Options) *Net {
	if opts.StoreOrder == [fabric.WordsPerLine]int{} {
		for w := range opts.StoreOrder {
			opts.StoreOrder[w] = w
		}
	}
	n := &Net{opts: opts, seed: seed, ways: map[[2]order.NodeID]*path{},
		pairs: map[pairing]*end{}, free: map[int][][]byte{}, stock: stocks.Get().(*stock)}
	if opts.Loads {
		n.region = borrowRegion()
	}
	return n
}

// Close gives back the memory of all rows. The network's tables must not be used afterwards.
func (n *Net) Close() {
	if n.opts.Transport != nil {
		n.opts.Transport.Close()
	}
	if n.stock != nil {
		n.stock.giveBack()
		n.stock = nil
	}
	if n.region != nil {
		returnRegion(n.region)
		n.region = nil
	}
}

// Endpoint is a member of a view and the shape of its row.
type Endpoint struct {
	ID    order.NodeID
	Shape fabric.RowShape
}

// Open lays out the rows of a view and returns the members' tables by rank, with all links up.
// Closing a table frees nothing but its links and replicas: the own rows are the collector's.
func (n *Net) Open(members []Endpoint) []*fabric.Table {
	rows := make([][]byte, len(members))
	links := make([][]fabric.Link, len(members))
	for r, m := range members {
		rows[r] = n.stock.take(m.Shape.RowBytes)
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
	from, to := n.join(side{node: n.node(a.ID), shape: a.Shape, row: rowA}, side{node: n.node(b.ID), shape: b.Shape, row: rowB})
	return n.wrapped(from), n.wrapped(to)
}

// side is a process and its row.
type side struct {
	node  *node
	shape fabric.RowShape
	row   []byte
	rank  order.Rank
	links fabric.Links // of the transport; nil: there is none
}

// join makes the links of a pair.
func (n *Net) join(a, b side) (*link, *link) {
	kind := n.kind(a.node.id, b.node.id)
	ab, ba := n.way(a, b), n.way(b, a)
	from, to := n.link(a.node, b.node, kind, ab, ba), n.link(b.node, a.node, kind, ba, ab)
	n.carry(a, b, from, to)
	return from, to
}

func (n *Net) kind(a, b order.NodeID) Kind {
	if n.opts.Kind == nil {
		return Framed
	}
	return n.opts.Kind(a, b)
}

// random makes the next generator: one for every way and lane.
func (n *Net) random() *rand.Rand {
	n.links++
	return rand.New(rand.NewPCG(n.seed, n.links))
}

func (n *Net) way(from, to side) *way {
	w := &way{net: n, from: from.node, to: to.node, path: n.path(from.node.id, to.node.id), row: from.row, random: n.random()}
	w.pending = fabric.NewPending(from.shape.ControlBytes)
	w.shown = make([]uint64, from.shape.ControlBytes/8)
	return w
}

func (n *Net) link(self, peer *node, kind Kind, out, in *way) *link {
	l := &link{net: n, self: self, peer: peer, kind: kind, out: out, in: in, replica: in.row}
	if kind == Seeping || kind == Framed && n.opts.Transport == nil {
		l.replica = n.borrow(len(in.row))
	}
	if kind == Seeping {
		shows(l.replica, l)
	}
	self.links = append(self.links, l)
	return l
}

// wrapped is what a table gets.
func (n *Net) wrapped(l *link) fabric.Link {
	if n.opts.Wrap != nil {
		return n.opts.Wrap(l.self.id, l.peer.id, l)
	}
	return l
}

// borrow returns zeroed memory for a replica. A run opens hundreds of views, and most of their rows
// are hardly used: what closed links gave back is used again.
func (n *Net) borrow(size int) []byte {
	free := n.free[size]
	if len(free) == 0 {
		return n.fresh(size)
	}
	mem := free[len(free)-1]
	n.free[size] = free[:len(free)-1]
	clear(mem)
	return mem
}

// fresh returns memory that nothing was in, in the network's region if it has one and there is
// room.
func (n *Net) fresh(size int) []byte {
	if n.region != nil {
		if mem := n.region.take(size); mem != nil {
			return mem
		}
	}
	return n.stock.take(size)
}

func (n *Net) giveBack(mem []byte) { n.free[len(mem)] = append(n.free[len(mem)], mem) }

func (n *Net) node(id order.NodeID) *node {
	if int(id) < len(n.nodes) && n.nodes[id] != nil {
		return n.nodes[id]
	}
	n.nodes = append(n.nodes, make([]*node, max(0, int(id)+1-len(n.nodes)))...)
	n.nodes[id] = &node{id: id}
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

// Advance sets the time, which never goes back, and has happen what is due by then: links come up,
// channels are accepted.
func (n *Net) Advance(now time.Duration) {
	n.happen(now)
	n.now = max(n.now, now)
}

// Now is the time.
func (n *Net) Now() time.Duration { return n.now }

// Cut holds up everything on the way from one node to another until Heal: what is sent meanwhile
// arrives then, as a connection does that survived, and links and channels that would have come up
// meanwhile come up then. Shared memory knows no way, and is not cut.
func (n *Net) Cut(from, to order.NodeID) { n.path(from, to).cut = true }

// Heal ends a Cut.
func (n *Net) Heal(from, to order.NodeID) {
	p := n.path(from, to)
	p.cut = false
	for _, e := range p.held {
		n.schedule(e)
	}
	p.held = nil
	n.happen(n.now)
	n.due(to, n.now)
}

// Due is when the next thing is there for a node that does not look until then; false if nothing is
// under way to it, and no socket has room again for what it could not send.
func (n *Net) Due(id order.NodeID) (at time.Duration, ok bool) {
	at = n.nextEvent(id)
	for _, c := range n.node(id).conns {
		at = min(at, c.due())
	}
	for _, l := range n.node(id).links {
		if !l.up {
			if l.arrived {
				return n.now, true
			}
			continue
		}
		if l.out.busy() && l.out.room() > 0 {
			return n.now, true
		}
		if l.seeped || l.carried != nil && l.carried.Waits() {
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
	return at, at != never
}

func (n *Net) due(id order.NodeID, at time.Duration) {
	if n.opts.OnDue != nil {
		n.opts.OnDue(id, at)
	}
}

// Crash ends a node's process. What it handed to its sockets arrives, and its peers hear of the end
// behind that.
func (n *Net) Crash(id order.NodeID) { n.crash(n.node(id)) }

func (n *Net) crash(d *node) {
	if d.crashed {
		return
	}
	d.crashed = true
	for _, l := range slices.Clone(d.links) {
		l.vanish()
		l.end()
	}
	n.endChannelsAndWaits(d)
}

// PowerOff ends a node's host: what is in flight is lost from some piece on, and no node is told.
// Peers that share memory with the node are on the same host, so that it is no more than a Crash to
// them.
func (n *Net) PowerOff(id order.NodeID) { n.powerOff(n.node(id)) }

func (n *Net) powerOff(d *node) {
	if d.crashed {
		return
	}
	d.crashed, d.silent = true, true
	for _, l := range slices.Clone(d.links) {
		if l.kind != Framed {
			l.end()
			continue
		}
		l.vanish()
		l.out.lose()
	}
	n.endChannelsAndWaits(d)
}

// endChannelsAndWaits ends the channels of a process that is gone, and tells the nodes that wait
// for it to open a view.
func (n *Net) endChannelsAndWaits(d *node) {
	for _, c := range slices.Clone(d.conns) {
		c.die()
	}
	for _, e := range d.waited {
		n.refuse(e)
	}
	d.waited = nil
}

// Restart gives a node that crashed a new process, which knows nothing: all links and channels of
// the one before stay dead.
func (n *Net) Restart(id order.NodeID) {
	n.Crash(id)
	n.nodes[id] = &node{id: id}
}

// CrashAfter ends a node within one of its steps: when it has called its links so many times more,
// the call panics with Crashed. power says whether the host goes with it.
func (n *Net) CrashAfter(id order.NodeID, calls int, power bool) {
	d := n.node(id)
	d.fuse, d.power = max(calls, 1), power
}

// Seep lets a node see more of what its Seeping peers stored. Call it where the real thing might be
// interrupted.
func (n *Net) Seep(id order.NodeID) {
	for _, l := range n.node(id).links {
		if l.kind == Seeping && l.up {
			l.seep()
		}
	}
}

// Polled is how often polls of a process took something in so far.
func (n *Net) Polled(id order.NodeID) int { return n.node(id).polled }

// Fused reports whether a node ends after some more calls of the fabric.
func (n *Net) Fused(id order.NodeID) bool { return n.node(id).fuse > 0 }

// burn is one call of the fabric by a node.
func (n *Net) burn(d *node) {
	if d.fuse == 0 {
		return
	}
	if d.fuse--; d.fuse > 0 {
		return
	}
	if d.power {
		n.powerOff(d)
	} else {
		n.crash(d)
	}
	panic(Crashed{d.id})
}
