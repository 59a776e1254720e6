package restart

import (
	"slices"

	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// alive reports whether a member of a view is there, in that view or in a later one.
func (w *world) alive(v *views.View, m views.Member) *worldNode {
	n := w.node(m.ID)
	if n.up && n.inc == m.Incarnation && n.view != nil && n.view.ID >= v.ID {
		return n
	}
	return nil
}

func (w *world) living(v *views.View) (set viewchange.Ranks) {
	for r, m := range v.Members {
		set = set.With(order.Rank(r), w.alive(v, m) != nil)
	}
	return set
}

// work moves a group that works on, at one of its members.
func (w *world) work(n *worldNode) {
	g := w.groups[n.view.Key()]
	id := LogID{Name: w.decls[w.rng.IntN(len(w.decls))].Name}
	switch k := w.rng.IntN(20); {
	case k < 6:
		w.stabilize(g, id)
	case k < 12:
		w.delivers(n, g, id, g.stable[id])
	case k < 16:
		l := n.log(id)
		l.synced = len(l.list)
		w.acknowledge(g, id)
	case k < 17:
		w.change(n, g)
	case k < 19:
		w.echoes(n, g)
	default:
		w.install(n, g)
	}
	if n.view != nil && !w.calm && !viewchange.Quorum(len(n.view.Members), w.living(n.view)) && w.rng.IntN(4) == 0 {
		n.start() // partitioned: its operator starts it again
	}
}

// whole reports whether a node has the whole log of a shard. Of a view that is not on its disk yet
// it knows in which shards it is fresh.
func (n *worldNode) whole(id LogID) bool {
	if n.view != nil && !n.disk.is(n.view) {
		if r, ok := n.view.RankOf(n.id); ok && slices.Contains(shard(n.view, id).Fresh, r) {
			return false
		}
	}
	return !n.disk.lacks(id)
}

func shard(v *views.View, id LogID) *views.Subgroup {
	i := slices.IndexFunc(v.Subgroups, func(sg views.Subgroup) bool { return idOf(sg) == id })
	return &v.Subgroups[i]
}

// everybody lists the members of a shard if all of them are running.
func (w *world) everybody(g *group, id LogID) (list []*worldNode) {
	for _, r := range shard(g.view, id).Members {
		n := w.alive(g.view, g.view.Members[r])
		if n == nil || n.view != g.view {
			return nil
		}
		list = append(list, n)
	}
	return list
}

func (w *world) stabilize(g *group, id LogID) {
	if !g.wedged && len(w.everybody(g, id)) > 0 {
		g.stable[id]++
	}
}

// delivers appends what is stable. A node that lacks earlier messages fetches these first.
func (w *world) delivers(n *worldNode, g *group, id LogID, upTo int) {
	r, _ := g.view.RankOf(n.id)
	if !shard(g.view, id).Has(r) {
		return
	}
	l := n.log(id)
	if !n.whole(id) {
		if !w.fetchWhole(n, g, id) {
			return
		}
	}
	here := len(l.list) - slices.IndexFunc(append(slices.Clone(l.list), order.Version{View: g.view.ID}), func(v order.Version) bool { return v.View == g.view.ID })
	for seq := max(0, here); seq < upTo; seq++ {
		l.list = append(l.list, order.Version{View: g.view.ID, Seq: order.Seq(seq)})
		if w.rng.IntN(3) == 0 {
			break
		}
	}
}

func (w *world) fetchWhole(n *worldNode, g *group, id LogID) bool {
	for _, r := range shard(g.view, id).Members {
		from := w.alive(g.view, g.view.Members[r])
		if from == nil || from == n || !from.whole(id) || from.view != g.view {
			continue
		}
		l := n.log(id)
		l.list = nil
		for _, v := range from.log(id).list {
			if v.View < g.view.ID {
				l.list = append(l.list, v)
			}
		}
		l.synced = len(l.list)
		n.disk.catchUp(g.view.ID)
		n.disk.completed(id, g.view.ID)
		return true
	}
	return false
}

// acknowledge notes what every member of a shard has on its disk.
func (w *world) acknowledge(g *group, id LogID) {
	least := order.Version{View: ^order.ViewID(0)}
	all := w.everybody(g, id)
	for _, n := range all {
		if !n.whole(id) {
			return
		}
		if last := n.log(id).last(); last.Compare(least) < 0 {
			least = last
		}
	}
	if len(all) > 0 && least.Compare(w.acked[id]) > 0 {
		w.acked[id] = least
	}
}

// change begins a ballot: the decision of the highest ballot that a live node has echoed, or a new
// one.
func (w *world) change(n *worldNode, g *group) {
	living := w.living(g.view)
	if g.chosen || !viewchange.Quorum(len(g.view.Members), living) || n.view != g.view {
		return
	}
	g.wedged = true
	g.attempt++
	r, _ := g.view.RankOf(n.id)
	found := row{}
	for id, said := range g.rows {
		rank, _ := g.view.RankOf(id)
		if living.Has(rank) && said.ballot > found.ballot {
			found = said
		}
	}
	if found.view == nil {
		found = w.decide(g, living)
	}
	found.ballot = viewchange.Ballot(g.attempt<<8 | uint64(r))
	g.next = found
}

// turn begins a change at a member, and lets most of the others go along with it.
func (w *world) turn(n *worldNode) {
	g := w.groups[n.view.Key()]
	joins := slices.ContainsFunc(w.nodes, func(other *worldNode) bool { return other.joining })
	if !joins && w.living(g.view).Count() == len(g.view.Members) && w.rng.IntN(20) > 0 {
		return // no node comes or goes
	}
	w.change(n, g)
	for _, do := range []func(*worldNode, *group){w.echoes, w.install} {
		for _, m := range g.view.Members {
			if one := w.alive(g.view, m); one != nil && one.view == g.view && w.rng.IntN(12) > 0 {
				do(one, g)
			}
		}
	}
}

func (w *world) decide(g *group, living viewchange.Ranks) (d row) {
	var members []views.Member
	for _, r := range living.List() {
		members = append(members, g.view.Members[r])
	}
	for _, n := range w.nodes {
		if n.joining && !slices.ContainsFunc(members, func(m views.Member) bool { return m.ID == n.id }) {
			members = append(members, n.self())
		}
	}
	d.view, _ = w.place(g.view, members)
	d.view.TakeOver(g.view, func(i int, r order.Rank) bool {
		m := w.alive(g.view, g.view.Members[r])
		return m != nil && m.view == g.view && m.whole(idOf(g.view.Subgroups[i]))
	})
	d.trim = map[LogID]int{}
	for i := range d.view.Subgroups {
		sg := &d.view.Subgroups[i]
		d.trim[idOf(*sg)] = g.stable[idOf(*sg)] + w.rng.IntN(2)
	}
	return d
}

// echoes copies the decision of the last ballot.
func (w *world) echoes(n *worldNode, g *group) {
	if g.next.view == nil || g.rows[n.id].ballot >= g.next.ballot || n.view != g.view || g.chosen && g.rows[n.id].view == g.next.view {
		return
	}
	if err := n.disk.echo(g.view.ID, g.next.ballot, g.next.view); err != nil {
		w.fail("%v", err)
		return
	}
	w.known(n)
	if n.dies() {
		return
	}
	g.rows[n.id] = g.next
}

// install takes a member into the next view once that is chosen, and joiners with it.
func (w *world) install(n *worldNode, g *group) {
	if g.next.view == nil || g.rows[n.id].ballot != g.next.ballot {
		return
	}
	var echoed viewchange.Ranks
	for r, m := range g.view.Members {
		has := g.rows[m.ID].ballot == g.next.ballot
		echoed = echoed.With(order.Rank(r), has)
		if q, goes := g.next.view.RankOf(m.ID); goes && g.next.view.Members[q] == m && !has && w.alive(g.view, m) != nil && !g.chosen {
			return
		}
	}
	if !g.chosen && !viewchange.Quorum(len(g.view.Members), echoed) {
		return
	}
	g.chosen = true
	v := g.next.view
	if !slices.Contains(v.Members, n.self()) {
		n.start() // evicted
		return
	}
	for _, d := range w.decls {
		id := LogID{Name: d.Name}
		for range 2 * (g.next.trim[id] + 1) {
			w.delivers(n, g, id, g.next.trim[id])
		}
	}
	if w.groups[v.Key()] == nil {
		w.changes++
		if key, ok := w.chain[v.ID]; ok && key != v.Key() {
			w.fail("view %d is %s at node %d, and %s elsewhere", v.ID, v.Key(), n.id, key)
		}
		if w.chain[v.ID] == "" {
			w.count(g.view, v)
		}
		w.chain[v.ID] = v.Key()
		w.groups[v.Key()] = &group{view: v, stable: map[LogID]int{}, rows: map[order.NodeID]row{}}
	}
	n.view = v
	n.remembers(v)
	if w.rng.IntN(3) > 0 {
		n.disk.installed(v)
		w.known(n)
	}
	for _, joiner := range w.nodes {
		if joiner.joining && slices.Contains(v.Members, joiner.self()) {
			w.enter(joiner, v)
		}
	}
}
