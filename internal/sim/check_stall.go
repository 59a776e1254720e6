package sim

// stallChecker checks G7: while nobody fails, a message is delivered within a bounded time from when the loop might
// publish it, whatever other applications do or leave undone. A receiver that had no room counts from when it had.
type stallChecker struct{ unconcerned }

func (stallChecker) name() string { return "stall" }

func (stallChecker) taken(w *world, d *delivery) error {
	claims := d.group.ledgers[d.sender].claims
	if w.plan.Fault.Kind != NoFault || d.number >= len(claims) {
		return nil
	}
	took := w.now - max(claims[d.number].ready, d.reader.open)
	w.result.Slowest = max(w.result.Slowest, took)
	if bound := w.plan.Bound(); took > bound {
		return violated("G7", "rank %d: subgroup %q: message %d of sender %d took %v, the bound is %v", d.node().rank, d.group.sg.Name, d.number, d.sender, took, bound)
	}
	return nil
}
