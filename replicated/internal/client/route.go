package client

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/mutant"
)

// Route decides at which members a client asks for one shard of an object, or for anything else.
type Route struct {
	Members
	places []string // of the members
	stale  bool     // the members may be others now
}

// NewRoute returns the route to the members at some places. Without places, they are to be found
// first.
func NewRoute(places []string, timeout time.Duration) Route {
	return Route{Members: NewMembers(max(1, len(places)), timeout), places: slices.Clone(places), stale: len(places) == 0}
}

// Stale reports whether a member is to be asked where the members of the shard are, before anything
// is asked of them (RC5).
func (r *Route) Stale() bool { return r.stale }

// Failed notes that the link was dropped: the shard may be at other members.
func (r *Route) Failed() {
	if mutant.Enabled && mutant.On(mutant.StaleRoute) && len(r.places) > 0 {
		return
	}
	r.stale = true
}

// Found takes the places of the shard's members, of which pick chooses the first that is asked. Ok
// is false if there are none; the route is stale still. Dropped says that a link to a member of
// before was in use until then.
func (r *Route) Found(places []string, pick func(n int) int) (ok, dropped bool) {
	if len(places) == 0 {
		return false, false
	}
	if r.stale = false; slices.Equal(r.places, places) {
		return true, false
	}
	r.places = places
	return true, r.Replace(len(places), pick(len(places)))
}

// Place returns where the member is that is asked now.
func (r *Route) Place() string { return r.PlaceOf(r.Current()) }

// PlaceOf returns where a member is.
func (r *Route) PlaceOf(member int) string { return r.places[member] }
