package squall

import (
	"slices"

	"github.com/squall-go/squall/views"
)

// drafts are the views that this process made, with what only their maker knows of them: the view
// in force, if it made that, and the last one that followed it.
//
// Invariant: at most one draft is not of the view that the last one follows.
type drafts []draft

type draft struct {
	key   string
	unmet []views.Unmet // the shards that are not provisioned, and why
}

// begin notes the first view.
func (d *drafts) begin(v *views.View, unmet []views.Unmet) { *d = drafts{{v.Key(), unmet}} }

// add notes a view that follows another one.
func (d *drafts) add(previous, v *views.View, unmet []views.Unmet) {
	*d = append(slices.DeleteFunc(*d, func(m draft) bool { return m.key != previous.Key() }), draft{v.Key(), unmet})
}

// unmet returns the shards of a view that are not provisioned, each with the best reason that is
// known here.
func (d drafts) unmet(v *views.View, declared []views.Declaration) []views.Unmet {
	unmet := v.Unmet(declared)
	k := slices.IndexFunc(d, func(m draft) bool { return m.key == v.Key() })
	if k < 0 {
		return unmet
	}
	for i, u := range unmet {
		better := func(m views.Unmet) bool { return m.Name == u.Name && m.Shard == u.Shard }
		if at := slices.IndexFunc(d[k].unmet, better); at >= 0 && !v.AwaitsLog(u.Name, u.Shard) {
			unmet[i] = d[k].unmet[at]
		}
	}
	return unmet
}
