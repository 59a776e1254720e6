package sim

import (
	"github.com/squall-go/squall/order"
)

// orderChecker checks G1, and the prefix property: in every subgroup of every view there is one
// sequence of which every member delivers a prefix. What the member that is ahead delivers next
// becomes part of it. Messages of a member that lies are no part of the sequence: it may show one
// of them to some members only.
type orderChecker struct{ unconcerned }

func (orderChecker) name() string { return "order" }

func (orderChecker) taken(w *world, d *delivery) error {
	g := d.group
	if !d.ordered() {
		return nil
	}
	here := place{d.Seq, d.sender, d.number}
	if _, turn := order.Turns(len(g.sg.Senders)).Split(d.Seq); turn != d.sender {
		return violated("G1", "%v: it is the turn of sender %d, not %d", d, turn, d.sender)
	}
	if d.ledger().spoiled() {
		return nil
	}
	if k := d.reader.at; k < len(g.order) {
		there := &g.order[k]
		if there.seq != here.seq || there.sender != here.sender || there.number != here.number && there.number != unknown && here.number != unknown {
			return violated("G1", "%v: delivery %d is %+v here, %+v elsewhere", d, k, here, *there)
		}
		there.number = max(there.number, here.number)
		return nil
	}
	if k := len(g.order); k > 0 && g.order[k-1].seq >= d.Seq {
		return violated("G1", "%v comes after seq %d", d, g.order[k-1].seq)
	}
	g.order = append(g.order, here)
	g.latest[d.sender] = d.number
	return nil
}
