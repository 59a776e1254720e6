package sim

import "github.com/squall-go/squall/views"

// stallChecker checks G7: while no process fails, joins or leaves, a message is delivered within a
// bounded time from when the loop might publish it, whatever other applications do or leave undone.
// A receiver that had no room counts from when it had.
type stallChecker struct{ unconcerned }

func (stallChecker) name() string { return "stall" }

func (stallChecker) taken(w *world, d *delivery) error {
	claims := d.ledger().claims
	if !w.plan.calm() || d.number < 0 || d.number >= len(claims) || w.heldUp(d) {
		return nil
	}
	took := w.now - max(claims[d.number].ready, d.reader.open)
	w.result.Slowest = max(w.result.Slowest, took)
	if bound := w.plan.Bound(); took > bound {
		return violated("G7", "%v: message %d took %v, the bound is %v", d, d.number, took, bound)
	}
	return nil
}

// heldUp reports whether disks hold up deliveries: they are awaited, or a member's log was full.
func (w *world) heldUp(d *delivery) bool {
	if d.group.sg.Mode != views.Persistent {
		return false
	}
	id := w.shardOf(d.group.sg)
	return w.plan.Keep.After>>id.decl&1 != 0 || w.shard(id).full
}
