package sim

// releaseChecker checks that room comes back: when everything is delivered and quiet, no ring of a
// sender holds anything.
type releaseChecker struct{ unconcerned }

func (releaseChecker) name() string { return "release" }

func (releaseChecker) end(w *world) error {
	if !w.goesOn() || w.quietFrom == never {
		return nil
	}
	for _, g := range w.history.last.groups {
		for _, l := range g.senders {
			if n := l.proc.member.Outbox(g.sg.Name).Undelivered(); n != 0 {
				return violated("release", "subgroup %q: the ring of node %d still holds %d of %d claims", g.sg.Name, l.proc.self.ID, n, len(l.claims))
			}
		}
	}
	return checkBodies(w)
}
