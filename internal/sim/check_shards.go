package sim

import (
	"slices"

	"github.com/squall-go/squall/views"
)

// shardsChecker checks that no shard waits permanently: at the end of a run, when all processes
// that come back are members, a shard has members if enough members are there that no other shard
// needs and, where it has a log, one of them has that. Layouts of the application's own decide for
// themselves.
type shardsChecker struct{ unconcerned }

func (shardsChecker) name() string { return "shards" }

func (shardsChecker) end(w *world) error {
	if !w.goesOn() {
		return nil
	}
	return w.idle()
}

// idle is a shard that could have members and has none; nil: there is none.
func (w *world) idle() error {
	r := w.history.last
	for k, d := range w.plan.Decls {
		if d.LayoutName != "" {
			continue
		}
		for _, g := range r.groups {
			if g.decl == k && !g.sg.Provisioned() && r.couldHave(w, g, d) {
				return violated("shards", "%q, shard %d, has no members in view %d, and could have some", d.Name, g.sg.Shard, r.view.ID)
			}
		}
	}
	return nil
}

// couldHave reports whether a shard could have members: the members that are in no other shard
// suffice, or suffice together with a holder of its log that is in another shard, which keeps its
// least size, and another member with its log.
func (r *viewRecord) couldHave(w *world, g *group, d views.Declaration) bool {
	least, free := max(1, d.MinMembers), 0
	var holders []*process // of the log
	for rank, p := range r.procs {
		if len(d.Members) > 0 && !slices.Contains(d.Members, p.self.ID) {
			continue
		}
		if !r.placed(p, g.decl) {
			free++
		}
		if g.sg.HeldBy(r.view.Members[rank]) {
			holders = append(holders, p)
		}
	}
	if d.Mode != views.Persistent || len(g.sg.Holders) == 0 {
		return free >= least
	}
	return slices.ContainsFunc(holders, func(p *process) bool {
		if !r.placed(p, g.decl) {
			return free >= least
		}
		at := r.groups[slices.IndexFunc(r.groups, func(o *group) bool { return o.decl == g.decl && o.reader(p) != nil })]
		whole := func(rd *reader) bool {
			k := rd.proc.keeper(w.shardOf(at.sg))
			return rd.proc != p && k != nil && !k.partial
		}
		return slices.ContainsFunc(at.readers, whole) && free+1 >= least+max(0, least-(len(at.readers)-1))
	})
}
