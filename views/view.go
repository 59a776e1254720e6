// Package views describes who is in a group and who does what in it.
//
// A View is immutable: an id, the members in order of seniority (rank), how to reach them, and the subgroups with their
// members, senders and sizes. It is computed once, where it is proposed, and travels as a value; everybody who installs
// it lays out the same table from it.
//
// Life of a view: declared (every process names its subgroups) → placed (ranks known, this package) → linked (every pair
// of members connected) → installed (the loop runs on its table).
//
// Invariants, checked by View.Validate on everything that arrives from elsewhere:
//
//	V1  member ids are distinct, and there is at least one member
//	V2  a subgroup's members are distinct, in rank order and ranks of this view; its senders are among its members
//	V3  ring and window are powers of two within the limits of package smc
package views

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/order"
)

// Mode is how a subgroup delivers.
type Mode uint8

const (
	// Ordered delivers in total order, once every member holds the message (G1, G2).
	Ordered Mode = iota
	// Unordered delivers each sender's messages in its order as they arrive, without waiting for anybody.
	Unordered
)

func (m Mode) String() string {
	switch m {
	case Ordered:
		return "ordered"
	case Unordered:
		return "unordered"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Member is one process of a view.
type Member struct {
	ID   order.NodeID `json:"id"`
	Addr string       `json:"addr"` // host:port its peers connect to
	// Host is equal for processes that can share memory; empty if the member does not offer it.
	Host string `json:"host,omitempty"`
	// Shm is the name of the member's abstract unix socket; empty if it has none.
	Shm string `json:"shm,omitempty"`
}

// Declaration is a subgroup as the application declares it. Every member must declare the same.
type Declaration struct {
	Name      string         `json:"name"`
	Members   []order.NodeID `json:"members,omitempty"` // empty: everybody
	Senders   []order.NodeID `json:"senders,omitempty"` // empty: every member of the subgroup
	Mode      Mode           `json:"mode"`
	RingBytes int            `json:"ring_bytes"` // a sender's byte ring
	Window    int            `json:"window"`     // a sender's descriptors
}

// Subgroup is a declaration placed in a view.
type Subgroup struct {
	Name      string       `json:"name"`
	Members   []order.Rank `json:"members"` // ascending
	Senders   []order.Rank `json:"senders"` // ascending; the place in this list is the SenderRank
	Mode      Mode         `json:"mode"`
	RingBytes int          `json:"ring_bytes"`
	Window    int          `json:"window"`
}

// SenderRank returns the place of rank r among the senders, or false if it does not send.
func (s Subgroup) SenderRank(r order.Rank) (order.SenderRank, bool) {
	i, ok := slices.BinarySearch(s.Senders, r)
	return order.SenderRank(i), ok
}

// Has reports whether rank r is a member.
func (s Subgroup) Has(r order.Rank) bool {
	_, ok := slices.BinarySearch(s.Members, r)
	return ok
}

// View is one membership of a group. It is never changed after it was made.
type View struct {
	ID        order.ViewID `json:"id"`
	Cluster   string       `json:"cluster"`
	Key       string       `json:"key"`     // known to its members only: connections for its rows must show it
	Members   []Member     `json:"members"` // by rank
	Subgroups []Subgroup   `json:"subgroups"`
}

// RankOf returns the rank of a node, or false if it is not a member.
func (v *View) RankOf(id order.NodeID) (order.Rank, bool) {
	i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == id })
	return order.Rank(i), i >= 0
}

// ErrNotMember says that a declaration names a node that the view does not have.
var ErrNotMember = errors.New("not a member of the view")

// Place builds a view: it turns declarations, which name nodes, into subgroups, which name ranks.
func Place(id order.ViewID, cluster string, members []Member, decls []Declaration) (*View, error) {
	v := &View{ID: id, Cluster: cluster, Members: slices.Clone(members)}
	var errs []error
	for _, d := range decls {
		sg := Subgroup{Name: d.Name, Mode: d.Mode, RingBytes: d.RingBytes, Window: d.Window}
		var err error
		if sg.Members, err = v.ranks(d.Members, nil); err != nil {
			errs = append(errs, fmt.Errorf("subgroup %q, members: %w", d.Name, err))
		}
		if sg.Senders, err = v.ranks(d.Senders, sg.Members); err != nil {
			errs = append(errs, fmt.Errorf("subgroup %q, senders: %w", d.Name, err))
		}
		v.Subgroups = append(v.Subgroups, sg)
	}
	if errs = append(errs, v.Validate()); errors.Join(errs...) != nil {
		return nil, errors.Join(errs...)
	}
	return v, nil
}

// ranks translates node ids to ascending ranks; an empty list means all (every rank if all is nil).
func (v *View) ranks(ids []order.NodeID, all []order.Rank) ([]order.Rank, error) {
	if len(ids) == 0 {
		if all != nil {
			return slices.Clone(all), nil
		}
		for r := range v.Members {
			all = append(all, order.Rank(r))
		}
		return all, nil
	}
	var ranks []order.Rank
	for _, id := range ids {
		r, ok := v.RankOf(id)
		if !ok {
			return nil, fmt.Errorf("node %d: %w", id, ErrNotMember)
		}
		ranks = append(ranks, r)
	}
	slices.Sort(ranks)
	return ranks, nil
}

// Validate checks V1 to V3 and reports every fault at once.
func (v *View) Validate() error {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("view %d: "+format, append([]any{v.ID}, args...)...))
	}
	if v.ID == 0 || len(v.Members) == 0 || len(v.Members) > MaxMembers {
		fault("%d members (1 to %d), id %d", len(v.Members), MaxMembers, v.ID)
	}
	seen := map[order.NodeID]bool{}
	for _, m := range v.Members {
		if seen[m.ID] {
			fault("node %d is a member twice", m.ID)
		}
		seen[m.ID] = true
	}
	for _, sg := range v.Subgroups {
		if len(sg.Members) == 0 || !ascending(sg.Members, len(v.Members)) {
			fault("subgroup %q: members %v are not ascending ranks below %d", sg.Name, sg.Members, len(v.Members))
		}
		if !ascending(sg.Senders, len(v.Members)) || slices.ContainsFunc(sg.Senders, func(r order.Rank) bool { return !sg.Has(r) }) {
			fault("subgroup %q: senders %v are not ascending ranks of its members %v", sg.Name, sg.Senders, sg.Members)
		}
		if sg.Mode > Unordered {
			fault("subgroup %q: unknown %v", sg.Name, sg.Mode)
		}
		if err := CheckSizes(sg.RingBytes, sg.Window); err != nil {
			fault("subgroup %q: %w", sg.Name, err)
		}
	}
	return errors.Join(errs...)
}

func ascending(ranks []order.Rank, below int) bool {
	for i, r := range ranks {
		if r < 0 || int(r) >= below || i > 0 && ranks[i-1] >= r {
			return false
		}
	}
	return true
}

// Limits of a view. A group is meant for 2 to 64 members and tens of subgroups.
const (
	MaxMembers   = 64
	MinRingBytes = 4 << 10
	MaxRingBytes = 1 << 30
	MinWindow    = 4
	MaxWindow    = 1 << 20
)

// CheckSizes reports what is wrong with a ring and a window: both are powers of two within limits.
func CheckSizes(ringBytes, window int) error {
	var errs []error
	if ringBytes < MinRingBytes || ringBytes > MaxRingBytes || ringBytes&(ringBytes-1) != 0 {
		errs = append(errs, fmt.Errorf("ring of %d bytes: need a power of two from %d to %d", ringBytes, MinRingBytes, MaxRingBytes))
	}
	if window < MinWindow || window > MaxWindow || window&(window-1) != 0 {
		errs = append(errs, fmt.Errorf("window of %d messages: need a power of two from %d to %d", window, MinWindow, MaxWindow))
	}
	return errors.Join(errs...)
}
