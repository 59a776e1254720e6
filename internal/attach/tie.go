package attach

import (
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/relay"
)

// tie is between a group and the node at a place.
type tie struct {
	group *group
	place int

	link     *link  // nil: there is none
	mine     uint32 // the peer's frames carry it
	theirs   uint32 // ours do; 0: not known
	differs  bool   // the peer has another configuration of the group
	offered  int64  // the dialer's question behind an offer to a peer that it doubts; 0: there is none
	question int64  // the dialer's question behind its confirmation; 0: it has confirmed nothing
	attached bool
	held     bool // the end of the link is held back
	left     bool // the peer was attached, or may have been, and is not any more
	doubted  bool // a link ended before this node knew whether the peer had its confirmation
}

// confirming reports whether the peer may count this node as attached, and this node does not know
// yet whether it does.
func (t *tie) confirming() bool { return t.question > 0 && !t.attached && !t.left }

// begin gives the tie a channel on a link.
func (t *tie) begin(l *link, out *Effects) {
	l.count++
	t.link, t.mine = l, l.count
	l.ties = append(l.ties, t)
	out.of(t, Tie, t.mine)
}

func (t *tie) sayAttach(out *Effects) {
	out.say(t.link, relay.Control{Kind: relay.Attach, Channel: t.mine, Index: uint64(t.theirs), Token: t.group.token, Word: t.group.digest})
}

// offer attaches the group to the peer of a link that this node dialed. A peer that may have had
// the confirmation over an earlier link has counted this node as gone then, and does not answer:
// so this node asks behind the offer.
func (t *tie) offer(l *link, out *Effects) {
	t.begin(l, out)
	t.sayAttach(out)
	if t.doubted && !(mutant.Enabled && mutant.On(mutant.DoubtForgotten)) {
		t.offered = l.ask(out)
	}
}

// answer answers an offer.
func (t *tie) answer(l *link, c *relay.Control, out *Effects) {
	t.begin(l, out)
	t.hear(c)
	t.sayAttach(out)
	if mutant.Enabled && mutant.On(mutant.OfferAttaches) {
		t.attach(out)
	}
}

// confirm answers the acceptor's answer, and asks whether that has arrived.
func (t *tie) confirm(c *relay.Control, out *Effects) {
	t.hear(c)
	t.sayAttach(out)
	t.question = t.link.ask(out)
	if mutant.Enabled && mutant.On(mutant.AnswerAttaches) {
		t.attach(out)
	}
}

func (t *tie) hear(c *relay.Control) { t.theirs, t.differs = c.Channel, c.Word != t.group.digest }

// attach counts the peer as attached (AT1).
func (t *tie) attach(out *Effects) {
	t.attached = true
	out.of(t, Attached, t.theirs)
	(*out)[len(*out)-1].Differs = t.differs
}

// lost takes the end of the tie's link. A peer that had not attached may come by another one. But
// a peer that may have attached would find this node gone if this node gives the link up: so this
// node says that it is the peer that was silent (AT2).
func (t *tie) lost(silent bool, out *Effects) {
	known := t.attached || silent && t.confirming()
	if mutant.Enabled && mutant.On(mutant.EndAccuses) {
		known = known || t.theirs != 0 && !t.link.dialed && !t.left
	}
	if mutant.Enabled && mutant.On(mutant.SilenceUnsaid) {
		known = t.attached
	}
	switch {
	case known && silent:
		out.of(t, Silent, 0)
	case known:
		out.of(t, Gone, 0)
	}
	t.end(t.left || known, out)
}

// end takes the channel back.
func (t *tie) end(left bool, out *Effects) {
	out.of(t, Untie, t.mine)
	t.link.drop(t)
	*t = tie{group: t.group, place: t.place, doubted: t.doubted || t.confirming(), left: left}
}
