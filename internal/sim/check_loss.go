package sim

// lossChecker checks G3 where nobody fails: at the end of the run every member has taken all that was committed, and
// no application still waits for room.
type lossChecker struct{ unconcerned }

func (lossChecker) name() string { return "loss" }

func (lossChecker) end(w *world) error {
	if w.plan.Fault.Kind != NoFault {
		return nil
	}
	for _, g := range w.groups {
		for _, r := range g.readers {
			for s, l := range g.ledgers {
				for number, c := range l.claims {
					if number >= r.next[s] && c.state == committed {
						return violated("G3", "subgroup %q: message %d of sender %d, committed at %v, was never delivered at rank %d", g.sg.Name, number, s, c.ready, r.node.rank)
					}
				}
			}
		}
	}
	if w.busyApps > 0 {
		return violated("G3", "%d applications wait for room that never comes; the last thing that went on was at %v", w.busyApps, w.progress)
	}
	return nil
}
