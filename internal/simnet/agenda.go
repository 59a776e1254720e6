package simnet

import (
	"math"
	"slices"
	"time"

	"github.com/squall-go/squall/order"
)

// never is later than everything.
const never = time.Duration(math.MaxInt64)

// event is something that happens by itself at some time, because the network brings it about: a
// link comes up, a channel is accepted.
type event struct {
	at    time.Duration
	to    order.NodeID // the node that finds something there afterwards
	path  *path        // what it travels on; nil if nothing can hold it up
	occur func()
}

// schedule notes an event, behind other events of the same time.
func (n *Net) schedule(e event) {
	i := len(n.agenda)
	for i > 0 && n.agenda[i-1].at > e.at {
		i--
	}
	n.agenda = slices.Insert(n.agenda, i, e)
	n.due(e.to, max(e.at, n.now))
}

// happen works off what is due by some time, each event at its own; what is on a way that is cut
// waits for it to heal.
func (n *Net) happen(by time.Duration) {
	for len(n.agenda) > 0 && n.agenda[0].at <= by {
		e := n.agenda[0]
		n.now = max(n.now, e.at)
		n.agenda = slices.Delete(n.agenda, 0, 1)
		if e.path != nil && e.path.cut {
			e.path.held = append(e.path.held, e)
			continue
		}
		e.occur()
	}
}

// nextEvent is when something happens next that a node should look at, or never.
func (n *Net) nextEvent(id order.NodeID) time.Duration {
	for _, e := range n.agenda {
		if e.to == id && (e.path == nil || !e.path.cut) {
			return max(e.at, n.now)
		}
	}
	return never
}
