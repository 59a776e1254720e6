package sim

import (
	"errors"
	"slices"

	"github.com/squall-go/squall/internal/member"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A member that leaves a shard in which applications see what is on every disk does not show its
// application the tail: what the shard delivered, and what was not on every disk by then. Nor does
// a member that is fresh in the shard, or comes back to one that had no members: its application
// takes over the log. The checkers let go of that, and of nothing else. Which messages of its own
// are in the tail follows from its log: the member appends its own messages in the order of the
// claims.

// after reports whether the applications of a declaration see what is on every disk.
func (w *world) after(decl int) bool {
	return w.plan.Decls[decl].Mode == views.Persistent && w.plan.Keep.After>>decl&1 != 0
}

// left reports whether a process has left a shard after a view, or is fresh in it, so that its
// application sees no more of what that view delivered.
func (p *process) left(id shardID, v order.ViewID) bool {
	return p.seated(v, func(r *viewRecord) bool { return r.away(p, id) || r.fresh(p, id) })
}

// takesOver reports whether a process enters a shard after a view, so that its application takes
// over what the shard delivered then with the log.
func (p *process) takesOver(id shardID, v order.ViewID) bool {
	out := false
	return p.seated(v, func(r *viewRecord) bool {
		was := out
		out = r.shard(p.world, id).reader(p) == nil
		return was && !out || r.fresh(p, id)
	})
}

// awaits reports whether a process that was in a shard is in none, because the shard has no
// members: a caller that waits for disks there goes on waiting until it has.
func (p *process) awaits(id shardID) bool {
	now := p.seat().record
	return p.world.after(id.decl) && p.keeper(id) != nil && !now.shard(p.world, id).sg.Provisioned() && !now.placed(p, id.decl)
}

// awaitsShard reports whether a caller waits at a process for a message of a shard that has no
// members.
func (p *process) awaitsShard() bool {
	for _, l := range p.ledgers {
		for k := range l.futures {
			c := &l.claims[l.futures[k].number]
			if _, _, told := l.futures[k].look(); !told && c.recorded.View > 0 && p.awaits(c.shard) {
				return true
			}
		}
	}
	return false
}

// seated reports whether something holds in one of a process's views after v.
func (p *process) seated(v order.ViewID, holds func(*viewRecord) bool) bool {
	return slices.ContainsFunc(p.seats, func(s *seat) bool { return s.record.view.ID > v && holds(s.record) })
}

// fresh reports whether a process is fresh in a shard.
func (r *viewRecord) fresh(p *process, id shardID) bool {
	rank, ok := r.rankIn(p)
	return ok && slices.Contains(r.shard(p.world, id).sg.Fresh, rank)
}

// away reports whether a process is not in a shard. While the shard has no members, the processes
// that were in it wait for it.
func (r *viewRecord) away(p *process, id shardID) bool {
	switch g := r.shard(p.world, id); {
	case g.reader(p) != nil:
		return false
	case g.sg.Provisioned():
		return true
	}
	return r.placed(p, id.decl)
}

// moved reports whether a process changes its shard of a declaration with a view, so that its
// application may not see the tail of the view before.
func (r *viewRecord) moved(w *world, p *process, decl int) bool {
	before := w.before(r)
	if before == nil || !w.after(decl) {
		return false
	}
	rank, _ := r.rankIn(p)
	for _, g := range before.groups {
		if g.decl == decl && g.reader(p) != nil {
			return !r.view.Subgroups[g.index].Has(rank)
		}
	}
	return false
}

// left reports whether the member has left the shard after the view, so that it is given no more of
// that.
func (rd *reader) left(w *world) bool {
	return w.after(rd.group.decl) && rd.proc.left(w.shardOf(rd.group.sg), rd.group.record.view.ID)
}

// forgoesTail reports whether the member may go without the end of the view.
func (rd *reader) forgoesTail(w *world) bool {
	id := w.shardOf(rd.group.sg)
	return rd.left(w) || rd.proc.awaits(id) || w.after(id.decl) && rd.proc.takesOver(id, rd.group.record.view.ID)
}

// record notes the place of the next message of a process, which its own member records, or would
// if it had all of the log.
func (l *ledger) record(w *world, id shardID, v order.Version) error {
	if !w.after(id.decl) {
		return nil
	}
	l.catchUp(w.now)
	number := l.from(l.recorded)
	if !l.committedAt(number) {
		return violated("G6", "node %d records a message of its own at %v, and message %d was not committed", l.proc.self.ID, v, number)
	}
	l.claims[number].shard, l.claims[number].recorded = id, v
	l.recorded = number + 1
	return nil
}

// recordedAt is the number of a process's own message, or unknown.
func (l *ledger) recordedAt(v order.Version) int {
	for number := l.recorded - 1; number >= 0; number-- {
		if l.claims[number].recorded == v {
			return number
		}
	}
	return unknown
}

// letGo reports whether a message is in the tail that its own application does not see.
func (l *ledger) letGo(number int) bool {
	c := &l.claims[number]
	return !c.shown && c.recorded.View > 0 && (l.proc.left(c.shard, c.recorded.View) || l.proc.takesOver(c.shard, c.recorded.View))
}

// outlivesShard reports whether a message was delivered to a shard that had no members as its
// process left the group. The application of the process was to see it once the shard has members
// again. They take it over with the log, unless the shard goes on from a disk that lacks it: it was
// not on every disk. A process whose own log was not complete yet recorded nothing.
func (l *ledger) outlivesShard(number int) bool {
	c := &l.claims[number]
	h := l.proc.world.shard(c.shard)
	return c.recorded.View > 0 && l.proc.awaits(c.shard) && (h.find(c.recorded) != nil || h.restart > c.recorded.View || l.proc.keeper(c.shard).partial)
}

// past is the first message from some number on that the process's own application is to be given.
func (l *ledger) past(number int) int {
	for number = l.from(number); number < len(l.claims) && l.letGo(number); number = l.from(number + 1) {
	}
	return number
}

// unrecorded reports whether a message was delivered at a place to a shard that its process has
// left since, and waits in the backlog of that stay for the log. The place is valid: the others of
// the shard, if there are any, deliver the message there. A process that ends forgets its backlog,
// as it forgets records that are not on its disk, so that its own log may never have the message.
func (l *ledger) unrecorded(number int, v order.Version) bool {
	p := l.proc
	return slices.ContainsFunc(p.stays[l.decl].receivers, func(r *receiver) bool {
		return p.left(p.world.shardOf(r.view.Subgroups[r.index]), v.View) && slices.ContainsFunc(r.kept, func(m message) bool {
			return m.Version() == v && m.Sender == p.self.ID && l.content(m.Data, number)
		})
	})
}

// checkLeft checks a future that ends because the member left the shard.
func checkLeft(l *ledger, f *promised, v order.Version, err error) error {
	c := &l.claims[f.number]
	if errors.Is(err, member.ErrLeftShard) && (l.letGo(f.number) && v == c.recorded || l.proc.over && l.unrecorded(f.number, v)) {
		return nil
	}
	return violated("future", "node %d: message %d, which is recorded at %v and shown: %v, ends at %v with: %v", l.proc.self.ID, f.number, c.recorded, c.shown, v, err)
}
