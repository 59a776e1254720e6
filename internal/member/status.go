package member

import (
	"time"

	"github.com/squall-go/squall/internal/multicast"
	"github.com/squall-go/squall/order"
)

// Progress returns the progress of every member of a subgroup of the view in force, by its place
// among the members, or nil if this member is not in the subgroup. Loop.
func (m *Member) Progress(subgroup int) (all []multicast.Progress) {
	p := m.epoch.subs[subgroup]
	if p == nil {
		return nil
	}
	for k := range p.sg.Members {
		all = append(all, p.core.Progress(k))
	}
	return all
}

// Silence returns the time since another member's heartbeat was last seen to change, to within the
// time between two looks at it. Loop.
func (m *Member) Silence(r order.Rank) time.Duration {
	if r == m.epoch.self {
		return 0
	}
	return m.now - m.epoch.peers[r].changed
}

// Suspected reports whether a member is suspected in the view in force. Loop.
func (m *Member) Suspected(r order.Rank) bool { return m.epoch.change.Suspected().Has(r) }
