package member

import (
	"sync/atomic"
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
)

// clock is a hybrid logical clock. Any goroutine.
type clock struct {
	last  atomic.Uint64
	began atomic.Uint64 // the largest of the times with which views began, and of those in the logs here when this process began
}

// Now reads the member's hybrid logical clock: not before the wall clock, nor any time that was
// observed or read. Any goroutine.
func (m *Member) Now() order.Time { return m.advance(m.cfg.Wall()) }

// Hear has the clock follow the time of a message of another member, as far as that may draw it
// along: MaxSkew beyond what the wall clocks show. Any goroutine.
func (m *Member) Hear(t order.Time) {
	m.advance(min(t, later(m.walls.now.Load(), MaxSkew)))
}

// Observe has the clock read no time before t from now on: that of a view, or of what is in the own
// logs as the process begins. Loop, or before it runs.
func (m *Member) Observe(t order.Time) {
	m.clock.began.Store(max(m.clock.began.Load(), uint64(t)))
	m.advance(t)
}

// advance has the clock read no time before t from now on, and returns what it reads. Any
// goroutine.
func (m *Member) advance(t order.Time) order.Time {
	for {
		last := m.clock.last.Load()
		if uint64(t) <= last {
			return order.Time(last)
		}
		if m.clock.last.CompareAndSwap(last, uint64(t)) {
			return t
		}
	}
}

// tellTime publishes the clock: whatever this member sends from now on has a time that is not
// before it. A member that made a proposal does so no more in this view. The next view begins with
// a time that its proposer read after its last word here; and no member calls a time settled that
// is later than the last word of any member. So no message of the next view, whichever members join
// in it, has a time that was settled before.
func (e *epoch) tellTime() {
	if !e.view.Persistent() || e.change.Leading() {
		return
	}
	wordClock.Store(e.line, e.m.Now())
}

// tellWall publishes the wall clock: what others believe of times goes by wall clocks, which no
// message moves.
func (e *epoch) tellWall() {
	if e.view.Persistent() {
		wordWall.Store(e.line, e.m.wall())
	}
}

// tellComplete publishes of which declarations this member has the state of its shard, or all of
// its log.
func (e *epoch) tellComplete() {
	whole := uint64(0)
	for i, p := range e.subs {
		if p != nil && p.whole() {
			whole |= 1 << e.view.Declared(i)
		}
	}
	wordComplete.Store(e.line, whole)
}

// whole reports whether a member has the state of the part's shard, or all of its log.
func (p *part) whole() bool {
	if p.recorder != nil {
		return !p.recorder.partial || mutant.Enabled && mutant.On(mutant.PartialWhole)
	}
	return p.receiver.Whole()
}

// whole reports whether a member of a subgroup told that it has its state, or all of its log.
func (e *epoch) whole(subgroup int, r order.Rank) bool {
	return wordComplete.Load(e.table.Line(r, e.layout.line[r]))>>e.view.Declared(subgroup)&1 != 0
}

// persist tells the others how far this member's disk is, and takes note of how far all disks are.
func (p *part) persist() (work int) {
	r := p.recorder
	records, last := r.cfg.Log.Durable()
	here, whole := order.Seq(0), false
	switch {
	case p.before == nil && r.drained(records, p.view.ID, p.core.Taken()) && !(mutant.Enabled && mutant.On(mutant.NullsHold)), mutant.Enabled && mutant.On(mutant.EarlyPersisted):
		here, whole = p.core.Delivered(), true
	case !r.partial && last.View == p.view.ID:
		here, whole = last.Seq+1, true
	}
	work = p.core.Persist(here, whole)
	if whole {
		r.Frontier.reach(Here, order.Version{View: p.view.ID, Seq: min(here, p.core.Delivered())})
	} else if !r.partial && last != (order.Version{}) {
		r.Frontier.reach(Here, order.Version{View: last.View, Seq: last.Seq + 1})
	}
	if everywhere, all := p.core.Everywhere(); all {
		if news := r.global(order.Version{View: p.view.ID, Seq: everywhere}); news > 0 {
			work += news
			p.m.ran = append(p.m.ran, p) // it may have run upcalls
		}
		p.settled(everywhere)
	}
	return work
}

// settle finds times up to which the order is complete. Every member tells its clock, and the order
// is complete before the least of these times: a message that a member published before it told its
// clock is visible to each member that has heard the clock, and a message that it publishes later
// has no earlier time. A time is settled when all versions up to it are on every disk. Members that
// do not send count too: one of them may propose the next view, which begins with the clock of its
// proposer.
type settle struct {
	nextSettle time.Duration
	told       bool       // a time may have been told since one was looked for
	time       order.Time // the time that is to be settled; 0: none
	until      order.Seq  // everything with that time or an earlier one lies before it
}

// settling reports whether a time is to be looked for.
func (p *part) settling() bool { return p.recorder != nil && p.time == 0 }

// hearTime reads up to where nothing can come any more, as the members told, before the step looks
// at what they published; 0: it is not time. A clock may stand still, so that the very time that
// was told may come again.
func (p *part) hearTime() order.Time {
	if p.time != 0 || p.m.now < p.nextSettle {
		return 0
	}
	e := p.m.epoch
	p.nextSettle, p.told = p.m.now+p.m.cfg.Heartbeat/looksPerHeartbeat, false
	if e.change.Wedged() {
		return 0
	}
	return max(wordClock.Min(e.table, e.layout.line), 1) - 1
}

// noteTime begins to settle the time t. No message that arrives from now on has that time or an
// earlier one, so t is settled when all that has arrived is on every disk.
func (p *part) noteTime(t order.Time) {
	if t > p.recorder.Frontier.Settled() {
		p.time, p.until = t, p.core.Arrivals()
	}
}

// settled settles the noted time, if everything up to it is on every disk.
func (p *part) settled(everywhere order.Seq) {
	if p.time != 0 && p.until <= everywhere {
		p.recorder.Frontier.settle(p.time)
		p.time = 0
	}
}

// frontier is nil where nothing is recorded.
func (r *Recorder) frontier() *Frontier {
	if r == nil {
		return nil
	}
	return &r.Frontier
}

// shown reports whether the application saw a version that was taken.
func (r *Recorder) shown(v order.Version) bool {
	return r == nil || !r.cfg.AfterPersist || v.Before(r.Frontier.At(Shown))
}
