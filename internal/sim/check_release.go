package sim

// releaseChecker checks that room comes back: when everything is delivered and quiet, no ring of a sender holds anything.
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

// checkBodies checks that no body of a large message is held when all are delivered. What ended with a process nobody gave back.
func checkBodies(w *world) error {
	if len(w.history.byID) == 1 && w.bodies != 0 {
		return violated("release", "%d bodies of large messages are held", w.bodies)
	}
	for _, p := range w.procs {
		for _, m := range p.movers {
			if m.view.ID == w.history.last.view.ID && !p.over && !p.told && len(m.here) > 0 {
				return violated("release", "node %d has %d bodies that nobody took", p.self.ID, len(m.here))
			}
		}
	}
	return nil
}
