package views

import (
	"fmt"
	"slices"
	"strings"

	"github.com/squall-go/squall/order"
)

// Holder is a process that has a subgroup's state, or all of its log, as it was when the subgroup
// last had members.
type Holder struct {
	ID order.NodeID `json:"id"`
	// Incarnation identifies a process that has been a member since: all holders with an
	// incarnation have the same log. It is 0 for a log on a disk: of several such logs one may be
	// longer than another, so that only one of them goes on.
	Incarnation uint64 `json:"incarnation,omitempty"`
	Disk        uint64 `json:"disk,omitempty"`
}

// live reports whether a member is the very process.
func (k Holder) live(m Member) bool {
	return k.Incarnation != 0 && k.ID == m.ID && k.Incarnation == m.Incarnation
}

// back reports whether a member has the disk of the process.
func (k Holder) back(m Member) bool { return k.ID == m.ID && k.Disk == m.Disk }

func anyHolder(holders []Holder, m Member, how func(Holder, Member) bool) bool {
	return slices.ContainsFunc(holders, func(k Holder) bool { return how(k, m) })
}

// holders returns the processes that have a subgroup's state, or all of its log: its members,
// except the members that still get it from others; while it has no members, its members in the
// last view in which it had any. Whole reports whether a member has got it meanwhile.
func (v *View) holders(sg Subgroup, whole func(order.Rank) bool) (all []Holder) {
	if !sg.Provisioned() {
		return sg.Holders
	}
	for _, r := range sg.Members {
		if m := v.Members[r]; !slices.Contains(sg.Partial, r) || whole(r) {
			all = append(all, Holder{m.ID, m.Incarnation, m.Disk})
		}
	}
	return all
}

// Updated returns the view with what has become known since it began: the partial members of which
// whole reports that they have got the state or the log of a subgroup are not partial any more.
func (v *View) Updated(whole func(subgroup int, r order.Rank) bool) *View {
	now := *v
	now.Subgroups = slices.Clone(v.Subgroups)
	for i := range now.Subgroups {
		sg, has := &now.Subgroups[i], func(r order.Rank) bool { return whole(i, r) }
		sg.Partial = slices.DeleteFunc(slices.Clone(sg.Partial), has)
		sg.Fresh = slices.DeleteFunc(slices.Clone(sg.Fresh), has)
	}
	return &now
}

// TakeOver finds out which members of this view have what its subgroups had in the view before:
// their logs, or their states. It is for a view that Place made from the one before. Whole reports
// whether a partial member of the view before has got the log or the state of a subgroup meanwhile;
// nil: none has.
func (v *View) TakeOver(before *View, whole func(subgroup int, r order.Rank) bool) {
	for i := range v.Subgroups {
		has := func(r order.Rank) bool { return whole != nil && whole(i, r) }
		if v.Subgroups[i].Mode == Persistent {
			v.assignLog(before, i, has)
		} else {
			v.assignState(before, i, has)
		}
	}
}

// assignLog finds out which members of a persistent subgroup of this view have its log. A member
// that had the log in the view before still has all of it. If none of these is left, the log is
// that of the most senior member that came back with its disk: what was on every disk is on that
// one, and the others take over what it has. If none came back, the subgroup has no members until
// one does, or until all of them are given up: a log that began anew would be another one.
func (v *View) assignLog(before *View, i int, whole func(order.Rank) bool) {
	sg, holders := &v.Subgroups[i], before.holders(before.Subgroups[i], whole)
	sg.Fresh, sg.Partial, sg.Holders = nil, nil, nil
	if len(holders) == 0 {
		return // it begins
	}
	if !sg.Provisioned() {
		sg.Holders = holders
		return
	}
	have := v.among(sg.Members, holders, Holder.live)
	if len(have) == 0 {
		have = v.among(sg.Members, holders, Holder.back)
		have = have[:min(len(have), 1)]
	}
	if len(have) == 0 && sg.GivenUp(holders, v.Members) {
		have = slices.DeleteFunc(slices.Clone(sg.Members), func(r order.Rank) bool { return !v.Members[r].StandsIn(*sg, holders) })
		have = append(have, sg.Members...)[:1]
	}
	if len(have) == 0 {
		sg.Unprovision(holders)
		return
	}
	for _, r := range sg.Members {
		if slices.Contains(have, r) {
			continue
		}
		sg.Partial = append(sg.Partial, r)
		if was, ok := before.RankOf(v.Members[r].ID); !ok || before.Members[was] != v.Members[r] || !before.Subgroups[i].Has(was) {
			sg.Fresh = append(sg.Fresh, r)
		}
	}
}

// assignState finds out which members of a subgroup of this view have its state, which exists only
// in processes. A holder is a member of the subgroup that has the state, or was one when the
// subgroup last had members and has been in no other shard since. While a holder is there, every
// other process that comes in is fresh. If none is there, the state is lost and the members begin
// anew, unless a member goes on that still waits for the state: the last source may have handed it
// over before it went. Such a member is no holder either until it says that it has the state, so
// that all members may be partial.
func (v *View) assignState(before *View, i int, whole func(order.Rank) bool) {
	sg, was := &v.Subgroups[i], before.Subgroups[i]
	sg.Fresh, sg.Partial, sg.Holders, sg.Lost = nil, nil, nil, false
	holders := slices.DeleteFunc(slices.Clone(before.holders(was, whole)), func(k Holder) bool { return !v.holds(k, i) })
	had := was.Provisioned() || len(was.Holders) > 0 || was.Lost
	if !sg.Provisioned() {
		sg.Holders, sg.Lost = holders, had && len(holders) == 0
		return
	}
	have := v.among(sg.Members, holders, Holder.live)
	for _, r := range sg.Members {
		at, ok := before.RankOf(v.Members[r].ID)
		switch {
		case slices.Contains(have, r):
		case !ok || before.Members[at] != v.Members[r] || !was.Has(at):
			sg.Fresh = append(sg.Fresh, r)
			sg.Partial = append(sg.Partial, r)
		default:
			sg.Partial = append(sg.Partial, r)
		}
	}
	if len(sg.Fresh) == len(sg.Members) {
		sg.Fresh, sg.Partial, sg.Lost = nil, nil, had
	}
}

// holds reports whether a process that had the state of a subgroup of the view before has it in
// this view, too: it is a member, and in no other shard of the same name.
func (v *View) holds(k Holder, i int) bool {
	return slices.ContainsFunc(v.Members, func(m Member) bool {
		r, _ := v.RankOf(m.ID)
		return k.live(m) && !slices.ContainsFunc(v.Shards(v.Subgroups[i].Name), func(sg Subgroup) bool { return sg.Shard != v.Subgroups[i].Shard && sg.Has(r) })
	})
}

// among returns the members of some ranks that keep a log or hold a state.
func (v *View) among(ranks []order.Rank, holders []Holder, how func(Holder, Member) bool) []order.Rank {
	return slices.DeleteFunc(slices.Clone(ranks), func(r order.Rank) bool { return !anyHolder(holders, v.Members[r], how) })
}

// Unprovision leaves a persistent subgroup without members, until one comes that has its log.
func (s *Subgroup) Unprovision(holders []Holder) {
	s.Members, s.Senders, s.Fresh, s.Partial, s.Holders = nil, nil, nil, nil, holders
}

// Holders returns the processes that have the state or the log of a subgroup of this view, as far
// as the view tells.
func (v *View) Holders(sg Subgroup) []Holder {
	return v.holders(sg, func(order.Rank) bool { return false })
}

// HeldBy reports whether a process has the state of a subgroup that has no members or, with its
// disk, its log.
func (s Subgroup) HeldBy(m Member) bool {
	if s.Mode == Persistent {
		return anyHolder(s.Holders, m, Holder.back)
	}
	return anyHolder(s.Holders, m, Holder.live)
}

// AwaitsLog reports whether a shard has no members because it waits for one that has its log.
func (v *View) AwaitsLog(name string, shard int) bool {
	return slices.ContainsFunc(v.Shards(name), func(sg Subgroup) bool { return sg.Shard == shard && sg.Mode == Persistent && len(sg.Holders) > 0 })
}

// WaitingFor returns a description of the processes for which a persistent subgroup without members
// waits.
func (s Subgroup) WaitingFor() string {
	var ids []string
	for _, k := range s.Holders {
		ids = append(ids, fmt.Sprint("node ", k.ID))
	}
	return fmt.Sprintf("%s waits for a member that has its log: %s", s.label(), strings.Join(ids, " or "))
}
