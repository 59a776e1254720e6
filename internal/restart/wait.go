package restart

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// cause is why a restart cannot go on, as far as the text of that depends on it.
type cause struct {
	view   *views.View
	counts bool
	here   viewchange.Ranks
	log    LogID // that no process here has whole
	known  bool
}

// wait tells why nothing happens, when that changes.
func (c *Core) wait(now time.Duration, e *Effects) {
	if c.attempt != nil || now < c.resume {
		return
	}
	is, lacking := cause{view: c.state.View, known: true}, []views.Subgroup(nil)
	if is.view != nil && c.counts() {
		is.counts, is.here = true, c.here()
		if c.quorum(is.here) {
			if lacking = c.unmet(); len(lacking) == 0 {
				c.waits, c.cause = "", cause{}
				return
			}
			is.log = idOf(lacking[0])
		}
	}
	if is == c.cause {
		return
	}
	v := is.view
	switch {
	case v == nil:
		c.tellWaiting(nil, "this node knows of no view, and no process that does has answered", e)
	case !is.counts:
		c.tellWaiting(c.missing(0), fmt.Sprintf("this node, with the disk that it has, is no member of view %d: its members have to restart, and it joins them", v.ID), e)
	case len(lacking) == 0:
		c.tellWaiting(c.missing(is.here), fmt.Sprintf("%d of %d members of view %d are here, and that is no quorum", is.here.Count(), len(v.Members), v.ID), e)
	default:
		c.tellWaiting(c.missing(^ranksOf(lacking[0].Members)|is.here), fmt.Sprintf("%v: %v", is.log, errNotWhole), e)
	}
	c.cause = is
}

// missing are the members of the view in force that are not in a set.
func (c *Core) missing(set viewchange.Ranks) (list []order.NodeID) {
	for r, m := range c.state.View.Members {
		if !set.Has(order.Rank(r)) && m.ID != c.cfg.Self.ID {
			list = append(list, m.ID)
		}
	}
	return list
}

func ranksOf(list []order.Rank) (set viewchange.Ranks) {
	for _, r := range list {
		set = set.With(r, true)
	}
	return set
}

func (c *Core) tellWaiting(who []order.NodeID, why string, e *Effects) {
	c.cause = cause{}
	event := Waiting{For: who, Why: why}
	if text := event.String(); text != c.waits {
		c.waits = text
		e.tell(event)
	}
}
