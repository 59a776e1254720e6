package restart

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A process may change something here (Y8) if it is of the same history and knows the group's
// secret, with a message to this very process. A Hello to an address does not name the process
// there, so it is answered with one that does, and so asks for one that names this process: what
// was said to an earlier process of the node, or to another one, cannot be said again to this one.
//
// A process whose last view is of an earlier format has no secret. It believes what it is told, as
// its earlier version did, until a view with an identity follows: the leader of the restart makes
// one (Successor.Secret).

// sumOfMessage is the use of the group's secret in a message.
const sumOfMessage = "squall restart"

// Sealed returns the message with its sum under a group's secret. Without a secret it has none.
func (m Message) Sealed(secret views.Secret) Message {
	if m.Sum = nil; !secret.IsZero() {
		m.Sum = secret.Sum(sumOfMessage, m.text())
	}
	return m
}

// Genuine reports whether the sender of a message knows a group's secret.
func (m Message) Genuine(secret views.Secret) bool {
	return len(m.Sum) > 0 && secret.Verify(sumOfMessage, m.text(), m.Sum)
}

// kin reports whether a message is of the history of a view.
func (m *Message) kin(v *views.View) bool {
	return v.Kin(&views.View{ID: m.ViewID, Group: m.Group, Lineage: m.Lineage}) && (m.Next.View == nil || v.Kin(m.Next.View))
}

// names reports whether a message is from a member of the view with which the group got its
// identity, for which this process voted. Such a member does not send that view to a process of an
// earlier format, which cannot show that it knows the secret.
func (m Message) names(next Successor) bool {
	return next.Secret != "" && m.Group == next.View.Group && m.Lineage == next.View.Lineage && m.Genuine(views.NewSecret(next.Secret))
}

// say sends a message to the process that is known to be at an address, or to whichever is there.
func (c *Core) say(addr string, m Message, e *Effects) {
	for _, p := range c.peers {
		if p.member.Addr == addr {
			m.To = p.member.Incarnation
		}
	}
	c.send(addr, m, e)
}

// answer sends a message to the process from which another one came.
func (c *Core) answer(to views.Member, m Message, e *Effects) {
	m.To = to.Incarnation
	c.send(to.Addr, m, e)
}

func (c *Core) send(addr string, m Message, e *Effects) {
	c.said++
	m.Count = c.said
	e.say(addr, m.Sealed(c.state.Secret))
}

// authentic reports whether a message may change anything here (Y8).
func (c *Core) authentic(m Message, e *Effects) bool {
	mine := c.state.View
	switch {
	case mine == nil || mine.Group == "":
		return true
	case m.Group == "" && m.Verb == Hello && c.state.Before != "" && m.Key == c.state.Before:
		c.adopt(m, e)
		return false
	case m.Group == "" || !m.kin(mine):
		c.elsewhere(m, e)
		return false
	case !m.Genuine(c.state.Secret):
		c.ignore(m.From, fmt.Sprintf("it says that it is of group %s, and does not know the group's secret", mine.Group), e)
		return false
	case m.From.ID == c.cfg.Self.ID:
		return true // it is told of, and nothing else
	case m.To != c.cfg.Self.Incarnation:
		if m.Verb == Hello {
			c.answer(m.From, c.hello(), e)
		}
		return false
	}
	return true
}

// adopt tells a process of the view with which the group got its identity, or of a later one. It
// was in the view before that one, as it knows that view's key.
func (c *Core) adopt(m Message, e *Effects) {
	answer := c.hello()
	answer.Next = c.state.Successor
	answer.Next.Secret = c.state.Secret.Reveal()
	c.answer(m.From, answer, e)
}

// elsewhere notes that another group has the name of this one.
func (c *Core) elsewhere(m Message, e *Effects) {
	err := views.OtherHistory(clip(m.From.Addr), c.state.View.Group, clip(m.Group))
	if c.foreign == nil {
		c.foreign = err
	}
	c.ignore(m.From, err.Error(), e)
}

// heard is what was heard of a node: of the process that spoke last, and of others.
type heard struct {
	id     order.NodeID
	last   speaker
	others []speaker // processes of the node that spoke before it
}

// speaker is a process of a node.
type speaker struct {
	incarnation uint64
	count       uint64 // of its last Hello
}

// Bounds of what is remembered of the processes that know the secret.
const (
	maxHeard  = 4 * views.MaxMembers
	maxOthers = 16
)

// fresh reports whether a message is not one of an earlier process of a node, and not an old Hello:
// what that one said of its sender was replaced by a later one. Other verbs name the ballot that
// they are about.
//
// Incarnations have no order, and a message of an earlier process may come late: behind the first
// one of the later process. So a process that another one of its node followed is there again when
// a Hello comes that is newer than its last one. The process that is there goes on saying Hello,
// and of one that ended some may be on their way, but no more are added.
func (c *Core) fresh(m Message) bool {
	if c.state.View == nil || c.state.View.Group == "" {
		return true
	}
	i, ok := slices.BinarySearchFunc(c.heard, m.From.ID, func(h heard, id order.NodeID) int { return cmp.Compare(h.id, id) })
	if !ok {
		if len(c.heard) >= maxHeard {
			return false
		}
		c.heard = slices.Insert(c.heard, i, heard{id: m.From.ID, last: speaker{incarnation: m.From.Incarnation}})
	}
	h := &c.heard[i]
	if h.last.incarnation != m.From.Incarnation {
		now := speaker{incarnation: m.From.Incarnation}
		if k := slices.IndexFunc(h.others, func(s speaker) bool { return s.incarnation == now.incarnation }); k >= 0 {
			if m.Verb != Hello || m.Count <= h.others[k].count {
				return false
			}
			now = h.others[k]
			h.others = slices.Delete(h.others, k, k+1)
		}
		h.others = append(h.others, h.last)
		h.others = h.others[max(0, len(h.others)-maxOthers):]
		h.last = now
	}
	if m.Verb != Hello {
		return true
	}
	later := m.Count > h.last.count
	h.last.count = max(h.last.count, m.Count)
	return later
}
