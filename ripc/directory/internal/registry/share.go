package registry

import "fmt"

// share is how much of a directory an owner has, or all owners that speak from one origin.
type share struct{ names, spots int }

// What an owner may have besides its names, and what the owners of one origin may have together: a
// process can make any number of keys.
const (
	spotsForName    = 4 // a service that starts again has another place, and the one before is kept until its lease ends
	ownersForOrigin = 4
)

func originShare(origin string) string { return "origin " + origin }

// count adds to what an owner has, and its origin.
func (r *Registry) count(owner, origin string, names, spots int) {
	if r.shares == nil {
		return
	}
	r.add(owner, names, spots)
	if origin != "" {
		r.add(originShare(origin), names, spots)
	}
}

func (r *Registry) add(to string, names, spots int) {
	s := r.shares[to]
	s.names += names
	s.spots += spots
	if s == (share{}) {
		delete(r.shares, to)
		return
	}
	r.shares[to] = s
}

// countAll counts what is there, in a registry that came from a snapshot.
func (r *Registry) countAll() {
	r.shares = map[string]share{}
	for _, e := range r.Entries {
		r.count(e.Owner, e.Origin, 1, 0)
		for _, s := range e.Spots {
			r.count(s.Owner, s.Origin, 0, 1)
		}
	}
}

// leaves returns why an owner may not have more names and spots, or the owners of its origin
// together (RD8). The members of the group may have any number. most is the bound of the member
// that passed the record on: all members apply the same one.
func (r *Registry) leaves(owner, origin string, names, spots, most int) error {
	if most == 0 || owner == MemberOwner || names+spots == 0 {
		return nil
	}
	if err := r.within(owner, owner, names, spots, most); err != nil {
		return err
	}
	return r.leavesOrigin(origin, names, spots, most)
}

func (r *Registry) leavesOrigin(origin string, names, spots, most int) error {
	if most == 0 || origin == "" {
		return nil
	}
	return r.within(originShare(origin), "the owners at "+origin, names, spots, most*ownersForOrigin)
}

func (r *Registry) within(key, who string, names, spots, most int) error {
	if r.shares == nil {
		r.countAll()
	}
	if has := r.shares[key]; has.names+names > most || has.spots+spots > most*spotsForName {
		return fmt.Errorf("%w: %.100s: %d names at %d places, at most %d names: close services, wait until their names are not held any more, or raise MaxNamesPerOwner at the members of the directory",
			ErrMany, who, has.names, has.spots, most)
	}
	return nil
}

// admit counts what a record that is permitted adds to an entry, if the owner may have that. A name
// whose owner speaks from another origin counts there from now on, if that one may have more.
func (r *Registry) admit(e *Entry, c *Command, owner string) error {
	names, spots := 0, 0
	if e.Owner != owner && c.Record.Action != Withdraw { // the name is free
		names = 1
	}
	if _, known := e.index(owner, c.Record.Place.Incarnation); !known {
		spots = 1
	}
	if err := r.leaves(owner, c.Origin, names, spots, c.Most); err != nil {
		return err
	}
	moves := e.Owner == owner && c.Record.Action != Withdraw && e.Origin != c.Origin && r.leavesOrigin(c.Origin, 1, 0, c.Most) == nil
	if names > 0 || moves {
		r.count(e.Owner, e.Origin, -1, 0)
		r.count(owner, c.Origin, 1, 0)
		e.Origin = c.Origin
	}
	r.count(owner, c.Origin, 0, spots)
	return nil
}
