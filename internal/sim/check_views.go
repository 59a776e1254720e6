package sim

import "reflect"

// viewsChecker checks G4: all members install the same sequence of views, each the one after the
// one before.
type viewsChecker struct{ unconcerned }

func (viewsChecker) name() string { return "views" }

func (viewsChecker) installed(w *world, p *process, r *viewRecord) error {
	v := p.seat().record.view
	if n := len(p.seats); n > 1 && p.seats[n-2].record.view.ID+1 != v.ID {
		return violated("G4", "node %d begins view %d after view %d", p.self.ID, v.ID, p.seats[n-2].record.view.ID)
	}
	if rank, ok := r.rankIn(p); !ok || p.seat().self != rank {
		return violated("G4", "node %d, process %d, begins view %d, of which it is no member", p.self.ID, p.self.Incarnation, v.ID)
	}
	if r.begun == nil {
		r.begun = p.beginning
	}
	if reflect.DeepEqual(p.beginning, r.begun) {
		return nil // as almost always; an empty list and none at all are the same in JSON
	}
	if text, first := viewText(p.beginning), viewText(r.begun); text != first {
		return violated("G4", "node %d begins a view %s, others one %s", p.self.ID, text, first)
	}
	return nil
}
