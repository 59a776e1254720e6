package simnet

import (
	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/order"
)

// Transport makes the links of Framed pairs in place of the network (Options.Transport). The
// network still has their connections, their delays, cuts and crashes.
type Transport interface {
	fabric.Transport
	// Connect makes the two links of a pair.
	Connect(a, b *Line) (Carried, Carried)
	// Close gives up the links of processes that crashed.
	Close()
}

// Carried is a link of a Transport.
type Carried interface {
	fabric.Link
	HangUp()
	// Waits reports whether Poll would find anything.
	Waits() bool
	// Vanish ends the link with its process.
	Vanish()
}

// Line is one end of the connection over which a pair was set up.
type Line struct {
	Links fabric.Links // of the table at this end
	Peer  order.Rank
	link  *link
}

// Cut reports whether nothing of what this end sends arrives before the way heals.
func (l *Line) Cut() bool { return l.link.out.path.cut }

// Ended reports whether this end has heard of the end of the other one.
func (l *Line) Ended() bool {
	in := l.link.in
	return in.ended && l.link.net.now >= in.endAt && !in.path.cut
}

// HangUp ends the connection.
func (l *Line) HangUp() { l.link.end() }

// Sent says that something was sent. The network calls arrive when it is there, at the latest.
func (l *Line) Sent(arrive func()) {
	n, self, peer := l.link.net, l.link.self.id, l.link.peer.id
	n.schedule(event{at: l.link.out.arrival(), to: peer, path: l.link.out.path, occur: func() {
		arrive()
		n.due(self, n.now)
		n.due(peer, n.now)
	}})
}

// Breaks asks whether the pair may break now, while both processes live.
func (l *Line) Breaks() bool {
	n, self, peer := l.link.net, l.link.self.id, l.link.peer.id
	if n.opts.MayBreak == nil || !n.opts.MayBreak(self, peer) {
		return false
	}
	n.due(self, n.now)
	return true
}

// carry makes the links of a pair, if the network has a transport for it.
func (n *Net) carry(a, b side, from, to *link) {
	if n.opts.Transport == nil || from.kind != Framed {
		return
	}
	from.carried, to.carried = n.opts.Transport.Connect(&Line{a.links, b.rank, from}, &Line{b.links, a.rank, to})
	from.replica, to.replica = from.carried.Replica(), to.carried.Replica()
}

// HangUp is what a table calls before it closes its links.
func (l *link) HangUp() {
	if l.carried != nil {
		l.carried.HangUp()
	}
}

// vanish ends a carried link with its process.
func (l *link) vanish() {
	if l.carried != nil {
		l.carried.Vanish()
	}
}
