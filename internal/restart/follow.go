package restart

import (
	"errors"
	"time"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/views"
)

// prepare promises to vote in no lower ballot. The ends of the logs go with it, so nothing may be
// changing them.
func (c *Core) prepare(m Message, e *Effects) {
	if !c.fair(m) || !c.current(m, e) {
		return
	}
	if c.work != nil {
		if c.work.ballot != m.Ballot || c.work.stopped {
			c.halt(e)
		}
		return // it is asked again
	}
	c.promise(m.Ballot, e)
	c.answer(m.From, c.account(), e)
}

// fair reports whether a ballot can be its sender's, and this process may vote in it.
func (c *Core) fair(m Message) bool {
	_, leads := c.state.View.RankOf(m.From.ID)
	return leads && m.Ballot.Node == m.From.ID && m.Ballot.Round != 0 && m.Ballot.Round <= c.state.Promised.Round+maxLead && c.counts()
}

// current reports whether a ballot is not below the promise; if it is, its leader is told.
func (c *Core) current(m Message, e *Effects) bool {
	if m.Ballot.Compare(c.state.Promised) >= 0 {
		return true
	}
	answer := c.message(Outvoted)
	answer.Ballot, answer.Promised = m.Ballot, c.state.Promised
	c.answer(m.From, answer, e)
	return false
}

// promise puts a ballot above all that this process votes in from now on.
func (c *Core) promise(b Ballot, e *Effects) {
	if b.Compare(c.state.Promised) <= 0 {
		return
	}
	c.state.Promised = b
	if b.Node != c.cfg.Self.ID {
		c.yield()
	}
	if c.attempt != nil && c.attempt.ballot != b {
		e.tell(Superseded{c.attempt.ballot, b})
		c.drop()
	}
	if !(mutant.Enabled && mutant.On(mutant.PromiseUnsynced)) {
		c.keep(e)
	}
}

// account is what goes with a promise.
func (c *Core) account() Message {
	m := c.message(Promise)
	m.Ballot, m.Accepted, m.Echo, m.LogsFor = c.state.Promised, c.state.Accepted, c.state.Echo, c.logsFor
	m.Lacks, m.Logs = c.state.Lacking(), c.cfg.Logs()
	if len(m.Logs) > views.MaxSubgroups {
		m.Logs = m.Logs[:views.MaxSubgroups]
	}
	return m
}

// plan brings this process's logs to their agreed ends.
func (c *Core) plan(m Message, e *Effects) {
	if !c.fair(m) || !c.current(m, e) || m.Ballot != c.state.Promised || !c.has(m.Next.View) || checkNext(c.state.View, m.Next.View) != nil {
		return
	}
	if c.logsFor == m.Next.View.Key() {
		c.tellReady(m.From, e)
		return
	}
	c.reconcile(m.Next.View, m.Plan, e)
}

// has reports whether this process, as it is, is in a view.
func (c *Core) has(v *views.View) bool {
	r, ok := v.RankOf(c.cfg.Self.ID)
	return ok && v.Members[r].Incarnation == c.cfg.Self.Incarnation
}

// reconcile begins a reconciliation, if none is under way; if another one is, it has to end first,
// and this one is asked for again.
func (c *Core) reconcile(v *views.View, plan []Agreed, e *Effects) {
	if c.work != nil {
		if c.work.ballot != c.state.Promised {
			c.halt(e)
		}
		return
	}
	c.logsFor = "" // the logs are going to be elsewhere
	c.work = &work{ballot: c.state.Promised, view: v, plan: plan}
	e.Reconcile = &Reconciliation{c.work.ballot, plan}
	e.tell(Reconciling{c.work.ballot, plan})
}

// reconciled takes the end of it. If it failed, the leader asks again; if an own log did, the
// process ends.
func (c *Core) reconciled(b Ballot, err error, e *Effects) {
	w := c.work
	if w == nil || w.ballot != b {
		return
	}
	c.work = nil
	if errors.As(err, new(LogError)) {
		c.end(Outcome{Err: err}, e)
		return
	}
	if w.stopped {
		return
	}
	e.tell(Reconciled{b, err})
	if err != nil || b != c.state.Promised {
		return
	}
	c.logsFor = w.view.Key()
	c.complete(w.plan, e)
	if b.Node == c.cfg.Self.ID {
		return // lead sees it
	}
	for _, p := range c.peers {
		if p.member.ID == b.Node {
			c.tellReady(p.member, e)
		}
	}
}

// complete notes that logs that lacked records are now as whole as the logs of their sources.
func (c *Core) complete(plan []Agreed, e *Effects) {
	for _, a := range plan {
		if c.state.lacks(a.ID) {
			c.state.completed(a.ID, c.state.View.ID)
			c.keep(e)
		}
	}
}

// tellReady tells the leader that the logs are where they were agreed to be, and for which view.
func (c *Core) tellReady(leader views.Member, e *Effects) {
	m := c.message(Ready)
	m.Ballot, m.LogsFor = c.state.Promised, c.logsFor
	c.answer(leader, m, e)
}

// accept votes for a view.
func (c *Core) accept(m Message, e *Effects) {
	if !c.fair(m) || !c.current(m, e) || checkNext(c.state.View, m.Next.View) != nil {
		return
	}
	if c.work != nil && c.work.ballot != m.Ballot {
		c.halt(e)
	}
	c.vote(m.Ballot, m.Next, e)
	answer := c.message(Vote)
	answer.Ballot = m.Ballot
	c.answer(m.From, answer, e)
}

func (c *Core) vote(b Ballot, next Successor, e *Effects) {
	if a := c.state.Accepted; a != nil && a.Ballot == b && c.state.Promised == b {
		return // it did
	}
	c.promise(b, e)
	c.state.Accepted = &Accepted{b, next}
	if !(mutant.Enabled && mutant.On(mutant.VoteUnsynced)) {
		c.keep(e)
	}
}

// outvoted gives way to a higher ballot. The more junior, the longer, so that two do not outvote
// each other for ever.
func (c *Core) outvoted(now time.Duration, m Message, e *Effects) {
	a := c.attempt
	if a == nil || a.ballot != m.Ballot || m.Promised.Compare(m.Ballot) <= 0 {
		return
	}
	c.round = max(c.round, min(m.Promised.Round, c.round+maxLead))
	e.tell(Superseded{a.ballot, m.Promised})
	c.drop()
	c.resume = now + c.cfg.Beat*time.Duration(1+c.rank(c.cfg.Self.ID))
}
