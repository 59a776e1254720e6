package rdmc

import (
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/attach"
	"github.com/squall-go/squall/internal/relay"
)

// meet gives package attach an input, and applies its effects.
func (n *Node) meet(input func(a *attach.Node, out *attach.Effects)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.met(input)
}

// met is meet while the node's lock is held, as in all that follow but hearOf and lost.
func (n *Node) met(input func(a *attach.Node, out *attach.Effects)) {
	input(&n.attach, &n.effects)
	for i := range n.effects {
		n.perform(&n.effects[i])
	}
	clear(n.effects)
	n.effects = n.effects[:0]
}

func (n *Node) perform(e *attach.Effect) {
	g := n.groups[e.Group]
	var l *link // nil: it has ended
	if i := slices.IndexFunc(n.links, func(l *link) bool { return l.number == e.Link }); i >= 0 {
		l = n.links[i]
	}
	switch e.Do {
	case attach.Say:
		if l != nil {
			l.enqueue(&e.Frame)
		}
	case attach.Tie:
		g.tie(e.Place, l.give(g, e.Place, e.Channel))
	case attach.Untie:
		if l != nil {
			l.takeBack(e.Channel)
		}
		g.tie(e.Place, nil)
	case attach.GiveUp:
		if l != nil {
			l.fail(errSilent)
		}
	case attach.Await:
		timer := e.Timer
		n.running.Go(func() { n.pass(timer) })
	case attach.Stranger:
		n.reject(l.control, fmt.Errorf("%w: node %d has opened group %q with other members than this node", errStranger, l.peer, g.cfg.Name))
	default:
		g.hear(e)
	}
}

// pass lets a quarter of FailAfter pass.
func (n *Node) pass(timer attach.Timer) {
	t := time.NewTimer(n.cfg.FailAfter / 4)
	defer t.Stop()
	select {
	case <-t.C:
	case <-n.ctx.Done():
	}
	n.meet(func(a *attach.Node, out *attach.Effects) { a.Elapsed(timer, out) })
}

// hearOf takes a control frame that is no group's.
func (n *Node) hearOf(l *link, c *relay.Control) (err error) {
	n.meet(func(a *attach.Node, out *attach.Effects) { err = a.Hear(l.number, c, uptime(), out) })
	return err
}

// lost takes a link that broke, or ended, out of the node, and tells its groups.
func (n *Node) lost(l *link) {
	n.meet(func(a *attach.Node, out *attach.Effects) {
		n.links = slices.DeleteFunc(n.links, func(o *link) bool { return o == l })
		a.Down(l.number, uptime(), out)
	})
}

// leave takes a group out of the node: from now on another one may have its name. What still comes
// for it is dropped.
func (n *Node) leave(g *Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.groups[g.token] != g {
		return
	}
	n.met(func(a *attach.Node, out *attach.Effects) { a.Close(g.token, g.lastWord(), out) })
	delete(n.groups, g.token)
	for _, r := range n.routes {
		r.bell.Ring()
	}
}

// give gives a channel to a group.
func (l *link) give(g *Group, place int, channel uint32) *membership {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &membership{group: g, place: place, link: l, way: l}
	l.channels.members[channel], l.channels.given, l.known = m, channel, true
	return m
}

func (l *link) takeBack(channel uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.channels.members, channel)
}

// described is the group as package attach knows it.
func (g *Group) described() attach.Group {
	d := attach.Group{Token: g.token, Digest: g.digest, Self: g.self}
	for i := range g.peers {
		d.Members = append(d.Members, g.peers[i].member())
	}
	return d
}

// tie notes the tie to the peer at a place; nil: there is none.
func (g *Group) tie(place int, m *membership) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[place] = m
}

// lastWord is what peers hear before this node leaves; nil if there is nothing to say.
func (g *Group) lastWord() *relay.Control {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.relay.LastWord()
	if !ok {
		return nil
	}
	return &c
}

// hear takes the news of a peer.
func (g *Group) hear(e *attach.Effect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e.Do == attach.Attached {
		g.attached(g.members[e.Place])
	}
	e.Tell(g.relay, &g.effects)
	g.apply()
}

// attached notes that a peer has opened the group, too, before the relay is told. The group's lock
// is held.
func (g *Group) attached(m *membership) {
	switch {
	case g.self == 0 && m.link.sight.seen:
		g.relay.Sees(m.place)
	case m.place == 0 && m.link.sight.owner != "":
		g.seesRoot(m.link.sight.owner)
	}
	if g.missing--; g.missing == 0 {
		close(g.complete)
	}
}
