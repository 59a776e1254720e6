package simnet

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// OpenView is one member's table of one view. Its links come up when both ends have opened the
// view, after delays of the way between them. A peer whose process ended before is a failure, of
// which one hears after NoticeAfter; one whose host lost power is not heard of at all.
func (n *Net) OpenView(view order.ViewID, key string, self order.Rank, members []Endpoint) *fabric.Table {
	me := members[self]
	c := &connecting{net: n, ends: make([]*end, len(members))}
	spec := &fabric.Spec{Self: self}
	for _, m := range members {
		spec.Peers = append(spec.Peers, fabric.Peer{ID: m.ID, Shape: m.Shape})
	}
	own := side{node: n.node(me.ID), shape: me.Shape, row: n.stock.take(me.Shape.RowBytes), rank: self}
	if n.opts.Transport != nil {
		links, err := n.opts.Transport.Open(spec, own.row)
		if err != nil {
			panic(err)
		}
		own.links, spec.Links = links, links
	}
	table, err := fabric.OpenTable(spec, own.row, c, nil)
	if err != nil {
		panic(err) // there is no address space for zeros, so none for a simulation either
	}
	for r, m := range members {
		if order.Rank(r) != self {
			c.ends[r] = &end{net: n, side: own, peer: n.node(m.ID), rank: order.Rank(r), table: table, pairing: pairing{view, key, me.ID, m.ID}}
			n.meet(c.ends[r])
		}
	}
	return table
}

// pairing names one end of a pair of a view.
type pairing struct {
	view     order.ViewID
	key      string
	from, to order.NodeID
}

// end is one end of a pair whose link is coming.
type end struct {
	net *Net
	side
	pairing
	peer  *node
	rank  order.Rank // of the peer
	table *fabric.Table
	link  *link // made when both ends are there
	over  bool  // handed over, or given up
}

// meet joins an end with the other one, if that is there, or lets it wait.
func (n *Net) meet(e *end) {
	other := n.pairs[pairing{e.view, e.key, e.to, e.from}]
	switch {
	case e.peer.crashed:
		n.refuse(e)
	case other == nil || other.node != e.peer || other.peer != e.node:
		n.pairs[e.pairing] = e
		e.peer.waited = append(e.peer.waited, e)
	default:
		delete(n.pairs, other.pairing)
		e.node.forget(other)
		e.link, other.link = n.join(e.side, other.side)
		n.comeUp(e)
		n.comeUp(other)
	}
}

// forget says that an end waits for a process no longer.
func (d *node) forget(e *end) {
	d.waited = slices.DeleteFunc(d.waited, func(o *end) bool { return o == e })
}

// comeUp brings an end the news that its link is up, on the way on which it hears of the peer.
func (n *Net) comeUp(e *end) {
	ev := event{at: e.link.in.arrival(), to: e.from, path: e.link.in.path, occur: e.arrive}
	if e.link.kind != Framed {
		ev.path = nil
	}
	if ev.at > n.now || ev.path != nil && ev.path.cut {
		n.schedule(ev)
		return
	}
	ev.occur()
	n.due(e.from, n.now)
}

// arrive hands the link over.
func (e *end) arrive() {
	if e.over || e.node.crashed {
		return
	}
	e.over, e.link.arrived = true, true
	e.table.Arrive(e.rank, e.net.wrapped(e.link), nil)
}

// refuse tells an end that the peer's process ended before the link came up, unless the peer's host
// lost power, so that nothing reports it.
func (n *Net) refuse(e *end) {
	delete(n.pairs, e.pairing)
	framed := n.kind(e.from, e.to) == Framed
	if framed && e.peer.silent {
		return
	}
	random := n.random()
	ev := event{at: n.now + n.notice(random), to: e.from, occur: e.fail}
	if framed {
		ev.path = n.path(e.to, e.from)
		ev.at += n.arrival(ev.path, random) - n.now
	}
	n.schedule(ev)
}

func (e *end) fail() {
	if e.over || e.node.crashed {
		return
	}
	e.over = true
	e.table.Arrive(e.rank, nil, fmt.Errorf("%w: the process of node %d ended before it was linked", fabric.ErrPeerGone, e.to))
}

// connecting implements fabric.Connecting for one table: the network does the work.
type connecting struct {
	net  *Net
	ends []*end // by rank; nil at self
}

// Cancel implements fabric.Connecting. The peer hears of the end of a link that is on its way up
// already; else of nothing.
func (c *connecting) Cancel(r order.Rank) {
	e := c.ends[r]
	if e == nil || e.over {
		return
	}
	e.over = true
	if e.link != nil {
		e.link.vanish()
		e.link.end()
		return
	}
	if c.net.pairs[e.pairing] == e {
		delete(c.net.pairs, e.pairing)
	}
	e.peer.forget(e)
}

// Close implements fabric.Connecting.
func (c *connecting) Close() {
	for r := range c.ends {
		c.Cancel(order.Rank(r))
	}
}
