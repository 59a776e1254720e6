package views

import (
	"slices"

	"github.com/squall-go/squall/order"
)

// keepers are those that have a persistent subgroup's log: its members or, while it has none, those of the last view in which it had.
func (v *View) keepers(i int) (all []Keeper) {
	sg := v.Subgroups[i]
	if !sg.Provisioned() {
		return sg.Keepers
	}
	for _, r := range sg.Members {
		all = append(all, Keeper{v.Members[r].ID, v.Members[r].Incarnation})
	}
	return all
}

// keep finds out who in a persistent subgroup of this view has its log, and that all others are fresh. Whoever was in it and has been a member
// since has all of it. If nobody is left of those, it is one that came back with its disk, the most senior: what was on every disk is on that
// one, and the others take over what it has. If none came back, the subgroup has no members until one does: a log that began anew would be
// another one.
func (v *View) keep(before *View, i int) {
	sg, keepers := &v.Subgroups[i], before.keepers(i)
	sg.Fresh, sg.Keepers = nil, nil
	if len(keepers) == 0 {
		return // it begins
	}
	if !sg.Provisioned() {
		sg.Keepers = keepers
		return
	}
	whole := slices.DeleteFunc(slices.Clone(sg.Members), func(r order.Rank) bool {
		return !slices.Contains(keepers, Keeper{v.Members[r].ID, v.Members[r].Incarnation})
	})
	if len(whole) == 0 {
		back := slices.IndexFunc(sg.Members, func(r order.Rank) bool {
			return slices.ContainsFunc(keepers, func(k Keeper) bool { return k.ID == v.Members[r].ID })
		})
		if back < 0 {
			sg.Members, sg.Senders, sg.Keepers = nil, nil, keepers
			return
		}
		whole = sg.Members[back : back+1]
	}
	for _, r := range sg.Members {
		if !slices.Contains(whole, r) {
			sg.Fresh = append(sg.Fresh, r)
		}
	}
}

// KeepFrom hands on who has the logs of the persistent subgroups that have no members in this view, either: as in the view before, when this one
// was not made by a change within it.
func (v *View) KeepFrom(before *View) {
	for i := range v.Subgroups {
		if i < len(before.Subgroups) && v.Subgroups[i].Mode == Persistent && !v.Subgroups[i].Provisioned() && sameDeclaration(v.Subgroups[i], before.Subgroups[i]) {
			v.Subgroups[i].Keepers = before.keepers(i)
		}
	}
}
