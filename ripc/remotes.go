package ripc

import "slices"

// remotes are the addresses that a service knows: it learns when the services there move. The
// endpoint's mu guards them.
type remotes struct {
	byID      map[ID][]*Remote // To returns the first one
	listed    int              // their number
	connected int              // after so many listed ones it is looked again which of them are not connected
}

// maxRemotes is how many addresses a service knows that are not connected. Then it forgets them.
// One that the application still has is known again when it is connected.
const maxRemotes = 4096

// list has the service know an address.
func (t *remotes) list(r *Remote) {
	if most := max(maxRemotes, t.connected); t.listed >= most {
		if t.unlist(func(r *Remote) bool { return r.idle() && r.gone == nil }); t.listed >= most {
			t.unlist((*Remote).idle)
		}
		t.connected = 2 * t.listed
	}
	r.listed = true
	t.byID[r.id] = append(t.byID[r.id], r)
	t.listed++
}

// unlist forgets addresses.
func (t *remotes) unlist(which func(*Remote) bool) {
	for id, all := range t.byID {
		left := slices.DeleteFunc(all, func(r *Remote) bool {
			out := which(r)
			if out {
				r.listed = false
				t.listed--
			}
			return out
		})
		if t.byID[id] = left; len(left) == 0 {
			delete(t.byID, id)
		}
	}
}
