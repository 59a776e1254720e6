package sim

import (
	"slices"
	"time"

	"github.com/squall-go/squall/views"
)

// ahead is a process that takes, before it joins a group that works, what a member has of the logs that are not in shards. Nothing of its own is
// dropped for that, and nothing is taken from who is in no position to say what the group has. It stands for package logwire.
type ahead struct {
	proc  *process
	ask   []string // whom the process asks then
	from  *process
	decl  int    // at hand
	fetch *fetch // of its log; nil: it has not begun
}

// seek looks for a group that works, and joins it.
func (p *process) seek(ask []string) {
	if p.memory != nil && len(ask) > 0 {
		if from := p.answers(ask); from != nil {
			p.world.schedule.add(p.world.now, &ahead{proc: p, ask: ask, from: from})
			return
		}
	}
	p.ask(ask)
}

// answers is the first of some who answers as a member; nil: nobody does.
func (p *process) answers(ask []string) *process {
	w, first := p.world, p.random.IntN(len(ask))
	for i := range ask {
		n := w.nodeAt(ask[(first+i)%len(ask)])
		if n == nil {
			continue
		}
		if q := n.proc; q != nil && q != p && q.member != nil && !q.over && !q.told && w.near(p, q) {
			return q
		}
	}
	return nil
}

// act implements actor.
func (a *ahead) act(now time.Duration) (next time.Duration) {
	next = never
	a.proc.survive(func() { next = a.turn(now) })
	return next
}

func (a *ahead) turn(now time.Duration) time.Duration {
	p, w := a.proc, a.proc.world
	switch {
	case p.over:
		return never
	case now < p.hangs:
		return p.hangs
	case a.decl == len(w.plan.Decls):
		p.ask(a.ask)
		p.wake()
		return never
	case a.fetch == nil && !a.begin():
		return a.on(now)
	}
	own, from := a.fetch.keeper.log, a.fetch.from
	switch {
	case own.err != nil:
		p.must(own.err)
		return never
	case own.next() < a.fetch.upTo && !from.proc.over:
		if a.fetch.take() != nil {
			return a.on(now) // what is missing comes after joining
		}
		return now + w.bulkTime(from.proc, p)
	case !own.drained():
		return now + w.plan.Hop()
	}
	w.probes[CaughtUpAhead]++
	return a.on(now)
}

// on goes on with the next log.
func (a *ahead) on(now time.Duration) time.Duration {
	a.decl, a.fetch = a.decl+1, nil
	return now
}

// begin begins with the log at hand, or reports false: the member does not have it, or it cannot be one with this process's.
func (a *ahead) begin() bool {
	p, w, id := a.proc, a.proc.world, shardID{decl: a.decl}
	o := a.from.keeper(id)
	if d := w.plan.Decls[a.decl]; d.Mode != views.Persistent || d.ShardCount() > 1 || o == nil || a.from.over || !o.speaks() && w.lax != AheadOfAnybody {
		return false
	}
	k, err := p.keep(id)
	if p.must(err); p.over {
		return false
	}
	f := &fetch{keeper: k, from: o, upTo: o.log.book.End().Records}
	same, err := f.common()
	if err == nil && same < k.log.next() && w.lax == AheadOfAnybody {
		same, err = k.log.next(), f.agree()
	}
	if a.fetch = f; err != nil || same < k.log.next() {
		a.fetch = nil
	}
	return a.fetch != nil
}

// speaks reports whether the end of a log is the end of the group's, as far as its member knows.
func (k *keeper) speaks() bool {
	p := k.proc
	return !k.partial && p.seat() != nil && slices.ContainsFunc(p.seat().record.groups, func(g *group) bool {
		return p.world.shardOf(g.sg) == k.id && g.reader(p) != nil
	})
}
