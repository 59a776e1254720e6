package attach

import (
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/relay"
	"github.com/squall-go/squall/order"
)

// Token is the name of a group on the wire, which only its members know.
type Token = [relay.TokenBytes]byte

// Group describes a group. Members are in the order of their places.
type Group struct {
	Token   Token
	Digest  uint32 // of what is the same at all members
	Self    int    // place
	Members []Member
}

// group is one that is open here.
type group struct {
	token   Token
	digest  uint32
	self    int
	members []Member
	ties    []tie // by place
}

// place is the tie to the peer of a link, or nil if that is no other member.
func (g *group) tie(l *link) *tie {
	place := slices.IndexFunc(g.members, func(m Member) bool { return m.Is(&l.peer) })
	if place < 0 || place == g.self {
		return nil
	}
	return &g.ties[place]
}

// Node is one node with its links and its groups. It is driven by one goroutine at a time.
type Node struct {
	FailAfter time.Duration // how long a peer may be silent while something is under way

	links  []*link  // in the order in which they came to stand
	groups []*group // in the order in which they were opened
}

func (n *Node) link(id Link) *link {
	i := slices.IndexFunc(n.links, func(l *link) bool { return l.id == id })
	if i < 0 {
		return nil
	}
	return n.links[i]
}

func (n *Node) group(t Token) *group {
	i := slices.IndexFunc(n.groups, func(g *group) bool { return g.token == t })
	if i < 0 {
		return nil
	}
	return n.groups[i]
}

// Open opens a group whose token no open group has, and offers it to the peers of links.
func (n *Node) Open(c Group, out *Effects) {
	g := &group{token: c.Token, digest: c.Digest, self: c.Self, members: c.Members, ties: make([]tie, len(c.Members))}
	for place := range g.ties {
		g.ties[place].group, g.ties[place].place = g, place
	}
	n.groups = append(n.groups, g)
	for _, l := range n.links {
		l.invite(g, out)
	}
}

// Close leaves a group: from now on another one may have its token. A peer that answered the
// offer of this node, or whose offer this node answered, may count this node as attached: it
// hears the last word, nil if there is none.
func (n *Node) Close(t Token, last *relay.Control, out *Effects) {
	g := n.group(t)
	if g == nil {
		return
	}
	n.groups = slices.DeleteFunc(n.groups, func(o *group) bool { return o == g })
	if mutant.Enabled && mutant.On(mutant.FarewellUnsaid) {
		last = nil
	}
	for i := range g.ties {
		t := &g.ties[i]
		if t.link == nil {
			continue
		}
		if last != nil && t.theirs != 0 && !t.attached && !t.left {
			c := *last
			c.Channel = t.theirs
			out.say(t.link, c)
		}
		out.say(t.link, relay.Control{Kind: relay.Leave, Channel: t.mine})
		t.end(false, out)
	}
}

// Up takes the news that a link stands. What is open here is offered to its peer, if this node
// dialed it: until then the acceptor does not know its peer.
func (n *Node) Up(id Link, peer Proof, dialed bool, now time.Duration, out *Effects) {
	l := &link{id: id, peer: peer, dialed: dialed, watch: watch{failAfter: n.FailAfter, last: now}}
	n.links = append(n.links, l)
	for _, g := range n.groups {
		l.invite(g, out)
	}
}

// invite offers a group to the peer of a link, or answers its offer.
func (l *link) invite(g *group, out *Effects) {
	t := g.tie(l)
	if t == nil || t.link != nil || t.left {
		return
	}
	if l.dialed {
		t.offer(l, out)
	} else if c, ok := l.waited(g.token); ok {
		t.answer(l, &c, out)
	}
}

// Watch looks after the peer of a link, and is called four times in FailAfter: it said something
// last when it was heard. Busy reports whether anything waits for it that this node cannot see.
func (n *Node) Watch(id Link, now, heard time.Duration, busy bool, out *Effects) {
	l := n.link(id)
	if l == nil {
		return
	}
	switch l.watch.tick(now, heard, busy || n.Waits(id)) {
	case askIt:
		l.ask(out)
	case giveItUp:
		l.silent = true
		*out = append(*out, Effect{Do: GiveUp, Link: id})
	}
}

// stoodStill reports whether this node stood still until a moment ago. A link to a peer that it
// watched then shows that.
func (n *Node) stoodStill(peer *Proof, now time.Duration) bool {
	return slices.ContainsFunc(n.links, func(l *link) bool { return l.peer.ID == peer.ID && l.watch.stoodStill(now) })
}

// Down takes the end of a link.
func (n *Node) Down(id Link, now time.Duration, out *Effects) {
	l := n.link(id)
	if l == nil {
		return
	}
	n.links = slices.DeleteFunc(n.links, func(o *link) bool { return o == l })
	for _, t := range slices.Clone(l.ties) {
		if !t.hold(!l.silent && l.watch.stoodStill(now), out) {
			t.lost(l.silent, out)
		}
	}
	for _, o := range n.links { // the peer may have made another one before
		for _, g := range n.groups {
			o.invite(g, out)
		}
	}
}

// hold reports whether the end of the link to an attached peer is held back for a while, because
// this node stood still: the peer may have given it up, and the others hear that before this node
// says that the peer is gone. An offer of the peer over another link does not shorten that.
func (t *tie) hold(slept bool, out *Effects) bool {
	if mutant.Enabled && mutant.On(mutant.NothingHeldBack) {
		return false
	}
	if t.attached && !t.held && slept {
		t.held = true
		out.await(t, true)
	}
	return t.held
}

// Elapsed takes the end of what Await asked for.
func (n *Node) Elapsed(m Timer, out *Effects) {
	for _, g := range n.groups {
		for i := range g.ties {
			t := &g.ties[i]
			switch {
			case t.link == nil || t.link.id != m.link || t.mine != m.channel:
			case m.held && t.held:
				t.lost(false, out)
			case !m.held && t.theirs == 0 && !t.left: // the peer, which this node doubts, has not answered its offer
				t.left = true
				out.of(t, Gone, 0)
			}
		}
	}
}

// Hear takes a control frame of the kinds that are the link's own affair. An error ends the link.
func (n *Node) Hear(id Link, c *relay.Control, now time.Duration, out *Effects) error {
	l := n.link(id)
	switch {
	case (c.Kind == relay.Attach || c.Kind == relay.Leave) && c.Channel == 0:
		return fmt.Errorf("%w: %v of channel 0", relay.ErrMalformed, c.Kind)
	case l == nil:
	case c.Kind == relay.Ping:
		out.say(l, relay.Control{Kind: relay.Pong})
	case c.Kind == relay.Pong:
		l.pong(out)
	case c.Kind == relay.Attach:
		return n.attach(l, c, now, out)
	case c.Kind == relay.Leave:
		l.leave(c.Channel, out)
	}
	return nil
}

// attach takes one of the three attach frames. An offer that finds no group here waits for it to be
// opened. Only the confirmation tells the acceptor that its peer did not leave meanwhile: an offer
// that is withdrawn while it is answered must not look like a member that left. If the link ends
// before the dialer has the answer to its question, the acceptor may have given it up without the
// confirmation, and waits for another link, which only the dialer makes. A dialer that stood still
// finds the acceptor's answer and such an end together.
func (n *Node) attach(l *link, c *relay.Control, now time.Duration, out *Effects) error {
	offer := !l.dialed && c.Index == 0
	g := n.group(c.Token)
	if g == nil {
		return l.waitIf(offer, c) // else this node has left the group before the answer came, or the confirmation
	}
	t := g.tie(l)
	if t == nil { // the peer may mean a later group of the same name and key, of which it is a member
		if offer {
			*out = append(*out, Effect{Do: Stranger, Link: l.id, Group: g.token})
		}
		return l.waitIf(offer, c)
	}
	if offer && t.link != nil && t.link != l { // the earlier one has ended at the dialer's side (AT3)
		switch {
		case l.id < t.link.id && !(mutant.Enabled && mutant.On(mutant.EarlierOffer)):
			return nil // the dialer has made another link since
		case t.hold(n.stoodStill(&l.peer, now), out):
			return l.wait(c)
		case mutant.Enabled && mutant.On(mutant.EarlierStays):
			return nil
		}
		out.say(t.link, relay.Control{Kind: relay.Leave, Channel: t.mine})
		t.lost(false, out)
	}
	switch {
	case offer && t.link == nil && !t.left:
		t.answer(l, c, out)
	case t.link != l || t.attached || t.left || c.Index != uint64(t.mine):
		return l.waitIf(offer, c) // the peer left the group, and has opened it again; else the answer to an offer that was withdrawn
	case l.dialed && t.question == 0:
		t.confirm(c, out)
	case !l.dialed && t.theirs == c.Channel:
		t.attach(out)
	}
	return nil
}

// waitIf keeps an offer; an answer or a confirmation would wait for ever.
func (l *link) waitIf(offer bool, c *relay.Control) error {
	if !offer {
		return nil
	}
	return l.wait(c)
}

// pong takes an answer. One without a question answers no later one.
func (l *link) pong(out *Effects) {
	if l.answered == l.asked {
		return
	}
	l.answered++
	for _, t := range l.ties {
		switch {
		case t.confirming() && t.question <= l.answered:
			t.attach(out)
		case t.offered > 0 && t.theirs == 0 && t.offered <= l.answered:
			t.offered = 0
			out.await(t, false)
		}
	}
}

// leave takes the news that the peer uses one of its channels no more.
func (l *link) leave(theirs uint32, out *Effects) {
	l.waiting = slices.DeleteFunc(l.waiting, func(o relay.Control) bool { return o.Channel == theirs })
	i := slices.IndexFunc(l.ties, func(t *tie) bool { return t.theirs == theirs })
	if i < 0 {
		return
	}
	switch t := l.ties[i]; {
	case t.attached:
		t.attached, t.left = false, true
		out.of(t, Left, 0)
	case !t.left:
		t.question = 0
		t.end(false, out) // its offer was withdrawn; the next one may be another
	}
}

// Speaks takes the news that a frame of a group came by a channel. A peer that has not answered the
// question behind the confirmation has the confirmation, or has left the group with this word.
func (n *Node) Speaks(id Link, channel uint32, out *Effects) {
	if l := n.link(id); l != nil {
		if t := l.tie(channel); t != nil && t.confirming() {
			t.attach(out)
		}
	}
}

// Waits reports whether anything waits for the peer of a link: a question, or a group that it is to
// attach to. A link that only this side believes in would hold the group up for ever.
func (n *Node) Waits(id Link) bool {
	l := n.link(id)
	return l != nil && (l.answered < l.asked || slices.ContainsFunc(l.ties, func(t *tie) bool { return !t.attached && !t.left }))
}

// Misses reports whether a group waits for a link to a node.
func (n *Node) Misses(id order.NodeID) bool {
	return slices.ContainsFunc(n.groups, func(g *group) bool {
		place := slices.IndexFunc(g.members, func(m Member) bool { return m.ID == id })
		return place >= 0 && place != g.self && g.ties[place].link == nil && !g.ties[place].left
	})
}
