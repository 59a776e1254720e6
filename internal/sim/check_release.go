package sim

// releaseChecker checks that room comes back: when everything is delivered and quiet, no ring holds anything.
type releaseChecker struct{ unconcerned }

func (releaseChecker) name() string { return "release" }

func (releaseChecker) end(w *world) error {
	if w.plan.Fault.Kind != NoFault {
		return nil
	}
	for _, g := range w.groups {
		for s, r := range g.sg.Senders {
			if n := w.nodes[r].member.Subgroup(g.index).Undelivered(); n != 0 {
				return violated("release", "subgroup %q: the ring of sender %d still holds %d of %d claims", g.sg.Name, s, n, len(g.ledgers[s].claims))
			}
		}
	}
	return nil
}
