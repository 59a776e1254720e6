package restart

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// wait tells why nothing happens, when that changes.
func (c *Core) wait(now time.Duration, e *Effects) {
	v := c.state.View
	switch {
	case c.attempt != nil || now < c.resume:
	case v == nil:
		c.tellWaiting(nil, "this node knows of no view, and nobody who does has answered", e)
	case !c.counts():
		c.tellWaiting(c.missing(0), fmt.Sprintf("this node, with the disk that it has, is no member of view %d: its members have to restart, and it joins them", v.ID), e)
	case !c.quorum(c.here()):
		here := c.here()
		c.tellWaiting(c.missing(here), fmt.Sprintf("%d of %d members of view %d are here, and that is no quorum", here.Count(), len(v.Members), v.ID), e)
	case len(c.unmet()) > 0:
		sg := c.unmet()[0]
		c.tellWaiting(c.missing(^ranksOf(sg.Members)|c.here()), fmt.Sprintf("%v: %v", idOf(sg), errNotWhole), e)
	default:
		c.waits = ""
	}
}

// missing are the members of the view in force that are not in a set.
func (c *Core) missing(set views.Ranks) (list []order.NodeID) {
	for r, m := range c.state.View.Members {
		if !set.Has(order.Rank(r)) && m.ID != c.cfg.Self.ID {
			list = append(list, m.ID)
		}
	}
	return list
}

func ranksOf(list []order.Rank) (set views.Ranks) {
	for _, r := range list {
		set = set.With(r, true)
	}
	return set
}

func (c *Core) tellWaiting(who []order.NodeID, why string, e *Effects) {
	event := Waiting{For: who, Why: why}
	if text := event.String(); text != c.waits {
		c.waits = text
		e.tell(event)
	}
}
