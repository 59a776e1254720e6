package sim

import (
	"slices"

	"github.com/squall-go/squall/views"
)

// A shard's log breaks off if the shard goes on without it. That must not be, and it can be as views are made: where a shard has had no members for
// a while, or a member did not have its log whole. What is known to come to that is found here, as it begins, and the shard's log is not judged any
// more; a strict run judges it all the same.
//
//	begun anew     a restart places a shard that had no members, and nobody who was in it before is back
//	left uneven    a restart leaves a shard without members: the logs of those who were in it may have different ends, and all of them count
//	not whole      who had not caught up as the shard lost its members, or as its last whole member left, counts as one who has all of it; or
//	               who came back with another disk does

// breaksOff notes that a shard goes on without its log.
func (w *world) breaksOff(id shardID) {
	h := w.shard(id)
	if w.plan.Limits.Strict || h.broken {
		return
	}
	h.broken = true
	w.probes[LogBrokenOff]++
}

// begunAnew finds shards of a view that a restart makes of which nobody is back.
func (w *world) begunAnew(previous, v *views.View) {
	for i, sg := range v.Subgroups {
		before := previous.Subgroups[i]
		if sg.Mode != views.Persistent {
			continue
		}
		if h := w.shard(w.shardOf(sg)); !sg.Provisioned() {
			h.uneven = true
			continue
		}
		was := func(k views.Keeper) bool {
			r, ok := v.RankOf(k.ID)
			return ok && sg.Has(r)
		}
		if len(before.Keepers) > 0 && !slices.ContainsFunc(before.Keepers, was) || before.Provisioned() && w.rest(previous, w.shardOf(sg)) {
			w.anew[v.Key] = append(w.anew[v.Key], w.shardOf(sg))
		}
	}
}

// rest reports whether all that were in a shard are back, and none of them has its log whole: then the longest that is left is taken.
func (w *world) rest(previous *views.View, id shardID) bool {
	return !slices.ContainsFunc(w.keepers(previous, id), func(p *process) bool {
		if p.memory == nil {
			return true
		}
		s := p.memory.State()
		return !slices.Contains(s.Lacking(), w.logID(id))
	})
}

// entitle finds out whether a process that is in a shard of a view, and not fresh there, has its log whole. Those that a restart brings back have what
// was agreed.
func (w *world) entitle(k *keeper, v *views.View) {
	r := w.record(v)
	g, before := r.shard(w, k.id), w.before(r)
	if before == nil || len(w.shard(k.id).records) == 0 || slices.Contains(g.sg.Fresh, g.rank(k.proc)) || w.lost(k.id, before) {
		return
	}
	if k.proc.restarted && len(k.proc.seats) <= 1 {
		return
	}
	if k.forgone || !slices.Contains(w.keepers(before.view, k.id), k.proc) && w.short(k.proc, k.id) {
		w.breaksOff(k.id)
	}
}

// short reports whether what a process finds on its disk is not the whole log: the last member that its node had there lacked something, or had
// another disk.
func (w *world) short(p *process, id shardID) bool {
	for _, q := range slices.Backward(w.procs) {
		if q.node != p.node || q == p {
			continue
		}
		sat := slices.ContainsFunc(q.seats, func(s *seat) bool { return s.record.shard(w, id).reader(q) != nil })
		if k := q.keeper(id); q.diskless || sat && k != nil {
			return q.diskless || k.partial
		}
	}
	return false
}

// keepers are the processes that have a shard's log in a view, as the view has it.
func (w *world) keepers(v *views.View, id shardID) (all []*process) {
	for _, sg := range v.Subgroups {
		if w.shardOf(sg) != id {
			continue
		}
		for _, r := range sg.Members {
			all = append(all, w.processOf(v.Members[r]))
		}
		for _, k := range sg.Keepers {
			all = append(all, w.processOf(views.Member{ID: k.ID, Incarnation: k.Incarnation}))
		}
	}
	return all
}
