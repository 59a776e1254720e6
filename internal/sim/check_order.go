package sim

import (
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// orderChecker checks G1, and the prefix property: there is one sequence of which every member delivers a prefix. What the
// member that is ahead delivers next becomes part of it.
type orderChecker struct{ unconcerned }

func (orderChecker) name() string { return "order" }

func (orderChecker) taken(w *world, d *delivery) error {
	g := d.group
	if g.sg.Mode == views.Unordered {
		return nil
	}
	here := place{d.Seq, d.sender, d.number}
	if _, turn := order.Turns(len(g.sg.Senders)).Split(d.Seq); turn != d.sender {
		return violated("G1", "rank %d: subgroup %q: message %d of sender %d has seq %d, which is the turn of sender %d", d.node().rank, g.sg.Name, d.number, d.sender, d.Seq, turn)
	}
	if k := d.reader.at; k < len(g.order) {
		if g.order[k] != here {
			return violated("G1", "rank %d: subgroup %q: delivery %d is %+v here, %+v elsewhere", d.node().rank, g.sg.Name, k, here, g.order[k])
		}
		return nil
	}
	if k := len(g.order); k > 0 && g.order[k-1].seq >= d.Seq {
		return violated("G1", "rank %d: subgroup %q: seq %d after seq %d", d.node().rank, g.sg.Name, d.Seq, g.order[k-1].seq)
	}
	g.order = append(g.order, here)
	return nil
}
