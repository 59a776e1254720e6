package restart

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// attempt is a ballot that this process leads.
type attempt struct {
	ballot   Ballot
	phase    phase
	began    time.Duration
	accounts []Message // of the processes that promised, this one among them; one each
	next     Successor // from reconciling or voting on
	agreed   []Agreed
	arrived  []order.NodeID   // members of next whose logs are where they were agreed to be
	voted    viewchange.Ranks // of the view in force
}

// phase is how far an attempt has come.
type phase uint8

const (
	preparing   phase = iota // promises are collected
	reconciling              // the members of a new view bring their logs to the agreed ends
	voting                   // votes are
)

// lead begins and advances an attempt, if it is for this process to lead.
func (c *Core) lead(now time.Duration, e *Effects) {
	c.look(now)
	switch {
	case c.attempt != nil || !c.due(now):
	case c.work != nil:
		c.halt(e) // the process that asked for it leads no more, and the source of the logs may be gone
	default:
		c.begin(now, e)
	}
	for c.attempt != nil && c.advance(now, e) {
	}
}

// look finds out whether this process could lead.
func (c *Core) look(now time.Duration) {
	able := c.counts() && c.quorum(c.here()) && len(c.unmet()) == 0
	if able && !c.able {
		c.since = now
	}
	c.able = able
}

// unmet returns the shards whose log no process that is here has whole.
func (c *Core) unmet() (lacking []views.Subgroup) {
	v, here := c.state.View, c.here()
	for i := range v.Subgroups {
		if sg := &v.Subgroups[i]; sg.Provisioned() && c.cfg.Persistent(sg.Name) && !c.held(sg, here) {
			lacking = append(lacking, *sg)
		}
	}
	return lacking
}

// logged are the shards of a view that have members and logs.
func (c *Core) logged(v *views.View) (list []views.Subgroup) {
	for _, sg := range v.Subgroups {
		if sg.Provisioned() && c.cfg.Persistent(sg.Name) {
			list = append(list, sg)
		}
	}
	return list
}

// held reports whether a process that is here says that it has a shard's log whole, or stands in
// for the processes that had it.
func (c *Core) held(sg *views.Subgroup, here viewchange.Ranks) bool {
	id, all := idOf(*sg), c.state.View.Members
	member := func(node order.NodeID) bool {
		return slices.ContainsFunc(sg.Members, func(r order.Rank) bool { return here.Has(r) && all[r].ID == node })
	}
	if !c.state.lacks(id) && member(c.cfg.Self.ID) {
		return true
	}
	for _, p := range c.peers {
		if !slices.Contains(p.lacks, id) && member(p.member.ID) {
			return true
		}
	}
	members := []views.Member{c.cfg.Self}
	for _, p := range c.peers {
		members = append(members, p.member)
	}
	return len(c.standIns(*sg, members)) > 0
}

// standIns returns the processes that stand in for a shard whose log an operator gave up, as all
// whose disks had it are gone.
func (c *Core) standIns(sg views.Subgroup, members []views.Member) (list []order.NodeID) {
	holders := c.state.View.Holders(sg)
	if !sg.GivenUp(holders, members) {
		return nil
	}
	for _, m := range members {
		if m.StandsIn(sg, holders) {
			list = append(list, m.ID)
		}
	}
	return list
}

// due reports whether an attempt is to begin, as soon as the logs are still: this process is the
// most senior one that is able to lead, and every process is here or has had the time to come.
func (c *Core) due(now time.Duration) bool {
	if !c.able || now < c.resume {
		return false
	}
	self := c.rank(c.cfg.Self.ID)
	here := c.here()
	for _, p := range c.peers {
		if r, ok := c.state.View.RankOf(p.member.ID); ok && here.Has(r) && p.able && r < self {
			return false
		}
	}
	return here.Count() == len(c.state.View.Members) || now-c.since >= c.cfg.Settle
}

// begin promises a ballot above all that were seen, and asks the others to.
func (c *Core) begin(now time.Duration, e *Effects) {
	c.round = max(c.round, c.state.Promised.Round) + 1
	c.promise(Ballot{c.round, c.cfg.Self.ID}, e)
	c.attempt = &attempt{ballot: c.state.Promised, began: now, accounts: []Message{c.account()}}
	c.urge(e)
}

// acceptors are the peers that count.
func (c *Core) acceptors() (list []*peer) {
	here := c.here()
	for _, p := range c.peers {
		if r, ok := c.state.View.RankOf(p.member.ID); ok && here.Has(r) {
			list = append(list, p)
		}
	}
	return list
}

// urge asks for what is missing, again.
func (c *Core) urge(e *Effects) {
	a := c.attempt
	if a == nil {
		return
	}
	m := c.message(Prepare)
	m.Ballot, m.Next = a.ballot, a.next
	if a.phase == voting {
		m.Verb = Accept
	}
	if a.phase == reconciling {
		c.urgeReconciling(m, e)
		return
	}
	for _, p := range c.acceptors() {
		if a.phase == preparing && a.account(p.member) == nil || a.phase == voting && !a.voted.Has(c.rank(p.member.ID)) {
			c.answer(p.member, m, e)
		}
	}
}

func (c *Core) urgeReconciling(m Message, e *Effects) {
	a := c.attempt
	m.Verb = Plan
	for _, member := range a.next.View.Members {
		switch {
		case slices.Contains(a.arrived, member.ID):
		case member.ID == c.cfg.Self.ID:
			c.reconcile(a.next.View, a.share(member.ID), e)
		default:
			m.Plan = a.share(member.ID)
			c.answer(member, m, e)
		}
	}
}

// share is a member's part of the agreed logs.
func (a *attempt) share(id order.NodeID) (plan []Agreed) {
	r, _ := a.next.View.RankOf(id)
	for _, one := range a.agreed {
		if slices.ContainsFunc(a.next.View.Subgroups, func(sg views.Subgroup) bool { return idOf(sg) == one.ID && sg.Has(r) }) {
			plan = append(plan, one)
		}
	}
	return plan
}

// account is what a process, as it is now, said when it promised.
func (a *attempt) account(m views.Member) *Message {
	for i := range a.accounts {
		if said := &a.accounts[i]; said.From.ID == m.ID && said.From.Incarnation == m.Incarnation {
			return said
		}
	}
	return nil
}

// concerns reports whether a message is about the ballot of the attempt.
func (a *attempt) concerns(m Message, otherwise mutant.Name) bool {
	return m.Ballot == a.ballot || mutant.Enabled && mutant.On(otherwise)
}

// promised takes a promise.
func (c *Core) promised(p *peer, m Message, e *Effects) {
	a := c.attempt
	r, ok := c.state.View.RankOf(p.member.ID)
	if a == nil || a.phase != preparing || !a.concerns(m, mutant.AnyPromise) || !ok || !c.here().Has(r) {
		return
	}
	if m.Accepted != nil && checkNext(c.state.View, m.Accepted.View) != nil || m.Echo != nil && m.Echo.View != nil && checkNext(c.state.View, m.Echo.View) != nil {
		c.ignore(m.From, "what it voted for cannot follow the view", e)
		return
	}
	a.accounts = slices.DeleteFunc(a.accounts, func(said Message) bool { return said.From.ID == m.From.ID })
	a.accounts = append(a.accounts, m)
}

// arrived takes a member's word that its logs are where they were agreed to be.
func (c *Core) arrived(p *peer, m Message, e *Effects) {
	a := c.attempt
	if a == nil || a.phase != reconciling || m.Ballot != a.ballot || m.LogsFor != a.next.View.Key() || slices.Contains(a.arrived, p.member.ID) {
		return
	}
	a.arrived = append(a.arrived, p.member.ID)
}

// voted takes a vote.
func (c *Core) voted(p *peer, m Message, _ *Effects) {
	a := c.attempt
	if r, ok := c.state.View.RankOf(p.member.ID); ok && a != nil && a.phase == voting && a.concerns(m, mutant.AnyVote) {
		a.voted = a.voted.With(r, true)
	}
}

// advance takes an attempt one phase further, or reports false.
func (c *Core) advance(now time.Duration, e *Effects) bool {
	switch a := c.attempt; a.phase {
	case preparing:
		return c.gathered(now) && c.choose(now, e)
	case reconciling:
		return c.reconciledAll(e)
	default:
		return c.quorum(a.voted) && c.conclude(e)
	}
}

// gathered reports whether the promises are a quorum, and every process that is here gave its
// promise or had the time to.
func (c *Core) gathered(now time.Duration) bool {
	a := c.attempt
	var set viewchange.Ranks
	for _, said := range a.accounts {
		set = set.With(c.rank(said.From.ID), true)
	}
	missing := slices.ContainsFunc(c.acceptors(), func(p *peer) bool { return a.account(p.member) == nil })
	return c.quorum(set) && (!missing || now-a.began >= c.cfg.Settle)
}

// choose finds what to put to the vote: what may have been decided already, or else a view of the
// processes that promised.
func (c *Core) choose(now time.Duration, e *Effects) bool {
	a := c.attempt
	if found := a.found(); found.View != nil {
		a.next = found
		e.tell(Completing{a.ballot, found.View})
		c.canvass(e)
		return true
	}
	if err := c.propose(); err != nil {
		c.drop()
		c.resume = now + c.cfg.Silence
		c.tellWaiting(nil, fmt.Sprintf("no view can be formed: %v", err), e)
		return false
	}
	a.phase = reconciling
	e.tell(Proposed{a.ballot, a.next.View})
	c.urge(e)
	return true
}

// found returns the vote of the highest ballot, or else the echo of the highest ballot: ballots of
// restarts are above ballots of changes within the view.
func (a *attempt) found() (next Successor) {
	var vote Ballot
	var echo viewchange.Ballot
	for _, said := range a.accounts {
		if v := said.Accepted; v != nil && (v.Ballot.Compare(vote) > 0 || mutant.Enabled && mutant.On(mutant.LastVote)) {
			vote, next = v.Ballot, v.Successor
		}
	}
	if next.View != nil && !(mutant.Enabled && mutant.On(mutant.EchoFirst)) {
		return next
	}
	for _, said := range a.accounts {
		if v := said.Echo; v != nil && v.Ballot > echo {
			echo, next = v.Ballot, Successor{View: v.View}
		}
	}
	return next
}

var errNotWhole = errors.New("no process that is here has the whole log")

// propose makes the next view of the processes that promised, and agrees on where its logs begin.
func (c *Core) propose() error {
	a := c.attempt
	base := *c.state.View
	base.Members = slices.Clone(base.Members)
	var members []views.Member
	for r, m := range base.Members {
		if i := slices.IndexFunc(a.accounts, func(said Message) bool { return said.From.ID == m.ID }); i >= 0 {
			base.Members[r] = a.accounts[i].From
			members = append(members, base.Members[r])
		}
	}
	next, err := c.cfg.Place(&base, members)
	if err != nil {
		return err
	}
	if c.state.View.Group != "" {
		next.Follow(c.state.View)
	}
	if err := checkNext(c.state.View, next); err != nil {
		return err
	}
	if !slices.Equal(next.Members, members) {
		return fmt.Errorf("it was laid out for %s, and is of %s", ids(members), ids(next.Members))
	}
	c.await(next)
	a.next = Successor{View: next, Restarted: true}
	if c.state.View.Group == "" {
		a.next.Secret = next.Secret.Reveal()
	}
	return c.agree()
}

// await leaves shards without members if their logs are elsewhere: the shards that had no members
// before and of which no process that is here has the log. It records the holders of all shards
// without members.
func (c *Core) await(next *views.View) {
	for i, sg := range next.Subgroups {
		old, ok := c.before(sg)
		if !ok || sg.Mode != views.Persistent {
			continue
		}
		if holders := c.holders(old); len(holders) > 0 && (!sg.Provisioned() || len(c.whole(sg)) == 0) {
			next.Subgroups[i].Unprovision(holders)
		}
	}
}

// before is a shard in the view in force.
func (c *Core) before(sg views.Subgroup) (old views.Subgroup, ok bool) {
	all := c.state.View.Subgroups
	i := slices.IndexFunc(all, func(old views.Subgroup) bool { return idOf(old) == idOf(sg) })
	if i < 0 {
		return old, false
	}
	return all[i], true
}

// holders returns the disks with a complete copy of a shard's log: disks that are here report it
// themselves; for absent ones the view in force decides. A process that is here may have had
// another disk at the time of that view.
func (c *Core) holders(old views.Subgroup) (all []views.Holder) {
	whole := c.whole(old)
	for _, k := range c.state.View.Holders(old) {
		k.Incarnation = 0 // what they have beyond what is on every disk may differ
		is := func(said Message) bool { return said.From.ID == k.ID && said.From.Disk == k.Disk }
		if !slices.ContainsFunc(c.attempt.accounts, is) || slices.ContainsFunc(whole, is) {
			all = append(all, k)
		}
	}
	for _, said := range whole {
		if k := (views.Holder{ID: said.From.ID, Disk: said.From.Disk}); old.Provisioned() && !slices.Contains(all, k) {
			all = append(all, k) // it has got it since the view began
		}
	}
	return all
}

// promisers returns the processes that promised, as they are now.
func (c *Core) promisers() (members []views.Member) {
	for _, said := range c.attempt.accounts {
		members = append(members, said.From)
	}
	return members
}

// agree finds, for each log, the longest among the logs that are whole.
func (c *Core) agree() error {
	for _, sg := range c.logged(c.state.View) {
		if len(c.whole(sg)) == 0 {
			return fmt.Errorf("%v: %w", idOf(sg), errNotWhole)
		}
	}
	for _, sg := range c.logged(c.attempt.next.View) {
		c.attempt.agreed = append(c.attempt.agreed, c.longest(sg))
	}
	return nil
}

// whole returns the accounts of the processes that have a shard's whole log: of its members, the
// processes whose account does not say that the log lacks records; if the shard has no members, the
// processes that kept the log, or that stand in for them. A log that no process ever had counts as
// whole at all processes.
func (c *Core) whole(sg views.Subgroup) (found []Message) {
	a := c.attempt
	old, ok := c.before(sg)
	if !ok || !old.Provisioned() && len(old.Holders) == 0 {
		return a.accounts
	}
	for _, said := range a.accounts {
		has := old.Has(c.rank(said.From.ID))
		if !old.Provisioned() {
			has = old.HeldBy(said.From)
		}
		if has && !slices.Contains(said.Lacks, idOf(sg)) {
			found = append(found, said)
		}
	}
	if len(found) > 0 {
		return found
	}
	in := c.standIns(old, c.promisers())
	return slices.DeleteFunc(slices.Clone(a.accounts), func(said Message) bool { return !slices.Contains(in, said.From.ID) })
}

func (c *Core) longest(sg views.Subgroup) Agreed {
	agreed := Agreed{ID: idOf(sg)}
	for i, said := range c.whole(sg) {
		end := said.end(agreed.ID)
		order := end.Last.Compare(agreed.End)
		if mutant.Enabled && mutant.On(mutant.ShortestLog) {
			order = -order
		}
		if i == 0 || order > 0 {
			agreed.End, agreed.Sources = end.Last, nil
		}
		if end.Last == agreed.End && len(agreed.Sources) < maxSources {
			agreed.Sources = append(agreed.Sources, Source{said.From.ID, said.From.Addr})
		}
	}
	return agreed
}

// end is that of a process's log; one that it does not have ends where it begins.
func (m *Message) end(id LogID) LogEnd {
	for _, end := range m.Logs {
		if end.ID == id {
			return end
		}
	}
	return LogEnd{ID: id}
}

// reconciledAll goes on to the vote once all members of the view have their logs where they were
// agreed to be (Y4). If one of them went away, the view is not to be.
func (c *Core) reconciledAll(e *Effects) bool {
	a := c.attempt
	for _, m := range a.next.View.Members {
		if m.ID != c.cfg.Self.ID && !slices.ContainsFunc(c.peers, func(p *peer) bool { return p.member == m }) {
			c.drop()
			return false
		}
	}
	if c.logsFor == a.next.View.Key() && !slices.Contains(a.arrived, c.cfg.Self.ID) {
		a.arrived = append(a.arrived, c.cfg.Self.ID)
	}
	if len(a.arrived) < len(a.next.View.Members) {
		return false
	}
	c.canvass(e)
	return true
}

// canvass puts the view to the vote, and votes for it.
func (c *Core) canvass(e *Effects) {
	a := c.attempt
	if invariants.Enabled && a.phase == reconciling {
		invariants.Check(len(a.arrived) == len(a.next.View.Members), "Y4", "%d of %d logs are where they were agreed to be", len(a.arrived), len(a.next.View.Members))
	}
	a.phase = voting
	c.vote(a.ballot, a.next, e)
	a.voted = a.voted.With(c.rank(c.cfg.Self.ID), true)
	c.urge(e)
}

// conclude ends the attempt: the view is in force. The processes whose logs end at the agreed ends
// enter the view, if they are enough; otherwise the view is only the one from which this group
// restarts.
func (c *Core) conclude(e *Effects) bool {
	a := c.attempt
	for _, said := range a.accounts {
		if said.LogsFor == a.next.View.Key() && !slices.Contains(a.arrived, said.From.ID) {
			a.arrived = append(a.arrived, said.From.ID)
		}
	}
	var enter viewchange.Ranks
	for r, m := range a.next.View.Members {
		said := a.account(m)
		enter = enter.With(order.Rank(r), said != nil && slices.Contains(a.arrived, m.ID))
	}
	m := c.message(Decided)
	enough := viewchange.Quorum(len(a.next.View.Members), enter) || mutant.Enabled && mutant.On(mutant.FewEnter)
	m.Ballot, m.Next, m.Enter = a.ballot, a.next, a.next.Restarted && enough
	for _, p := range c.peers {
		c.answer(p.member, m, e)
	}
	c.decided(m.Next, m.Enter, e)
	return false
}
