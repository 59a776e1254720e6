package restart

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// CoreConfig is what a Core needs to know. Its functions answer at once.
type CoreConfig struct {
	Cluster string
	Self    views.Member // as it is now: its incarnation is new
	Join    []string     // addresses to ask, besides the addresses of the last view's members
	// Logs are the ends of this process's logs, durably.
	Logs func() []LogEnd
	// Place makes the next view out of its members, which are in order of rank. In previous, the
	// records of members that were in it are as they are now, so that these members stay in their
	// shards. The key must be a new one.
	Place func(previous *views.View, members []views.Member) (*views.View, error)
	// Persistent says which subgroups have logs.
	Persistent func(name string) bool
	Times
}

// Times are what decides when something is tried, and nothing else. Zero values are replaced by the
// defaults.
type Times struct {
	Beat    time.Duration // how often a process says that it is here: 200 ms
	Silence time.Duration // a process that says nothing for so long is not here: 2 s
	Settle  time.Duration // how long the first quorum waits for further processes: 1 s
}

func (t Times) withDefaults() Times {
	t.Beat = cmp.Or(t.Beat, 200*time.Millisecond)
	t.Silence = cmp.Or(t.Silence, 2*time.Second)
	t.Settle = cmp.Or(t.Settle, time.Second)
	return t
}

// Core is one process's part in a restart. Messages, time and what became of its orders go in, and
// what to do comes out. It is pure.
type Core struct {
	cfg   CoreConfig
	state State
	peers []*peer // in order of their ids

	now     time.Duration // of the step under way
	beat    time.Duration // when Hello is due
	able    bool          // this process sees enough others to lead
	since   time.Duration // when that came to be so
	resume  time.Duration // not before then another attempt is made
	round   uint64        // the highest that was seen
	attempt *attempt      // as leader; nil: none is under way
	work    *work         // the logs are being reconciled
	logsFor string        // the key of the view for which they are where they were agreed to be; empty: for none
	ignored []order.NodeID
	waits   string  // what was told last
	cause   cause   // of that
	said    uint64  // messages so far
	heard   []heard // in order of their ids
	foreign error   // another group has this name; nil: none was met
	over    bool
}

// peer is another process that is here.
type peer struct {
	member views.Member
	heard  time.Duration
	viewID order.ViewID
	key    string
	counts bool
	able   bool
	lacks  []LogID
	peers  []string
}

// work is a reconciliation under way.
type work struct {
	ballot  Ballot
	view    *views.View
	plan    []Agreed
	stopped bool
}

// NewCore makes a core that does nothing before Start.
func NewCore(c CoreConfig, s State) *Core {
	c.Times = c.Times.withDefaults()
	return &Core{cfg: c, state: s, round: s.Promised.Round}
}

// State is what the process knows, as it will be once the effects that came out are applied.
func (c *Core) State() State { return c.state }

// LogsFor is the key of the view for which this process's logs are where they were agreed to be;
// empty: for none.
func (c *Core) LogsFor() string { return c.logsFor }

// Over reports whether the restart has ended here.
func (c *Core) Over() bool { return c.over }

// Start begins.
func (c *Core) Start(now time.Duration) Effects {
	c.state.begin(c.cfg.Self)
	c.beat = now
	e := c.Tick(now)
	c.keep(&e)
	return e
}

// Next returns when Tick is due: with the next Hello, or before that when this process may lead
// again. Once that time has passed, and something else than the time keeps it from leading, such as
// a senior member that is able to, there is nothing to look at before the Hello.
func (c *Core) Next() time.Duration {
	if at := max(c.resume, c.since+c.cfg.Settle); c.attempt == nil && c.able && c.resume > 0 && at > c.now {
		return min(c.beat, at)
	}
	return c.beat
}

// Tick lets time pass.
func (c *Core) Tick(now time.Duration) Effects {
	return c.step(now, func(e *Effects) {
		c.peers = slices.DeleteFunc(c.peers, func(p *peer) bool { return now-p.heard > c.cfg.Silence })
		if now < c.beat {
			return
		}
		c.beat = now + c.cfg.Beat
		for _, addr := range c.contacts() {
			c.say(addr, c.hello(), e)
		}
		c.urge(e)
	})
}

// Reconciled says that the reconciliation of a ballot has ended, well or not.
func (c *Core) Reconciled(now time.Duration, b Ballot, err error) Effects {
	return c.step(now, func(e *Effects) { c.reconciled(b, err, e) })
}

// Hear takes a message.
func (c *Core) Hear(now time.Duration, m Message) Effects {
	return c.step(now, func(e *Effects) { c.hear(now, m, e) })
}

// step does one thing, and what follows from it.
func (c *Core) step(now time.Duration, do func(*Effects)) (e Effects) {
	if c.over {
		return e
	}
	c.now = now
	do(&e)
	if !c.over {
		c.lead(now, &e)
	}
	if !c.over {
		c.wait(now, &e)
	}
	c.invariants()
	return e
}

func (c *Core) keep(e *Effects) {
	s := c.state
	e.State = &s
}

// message is one about the view in force.
func (c *Core) message(v Verb) Message {
	m := Message{Verb: v, Cluster: c.cfg.Cluster, From: c.cfg.Self}
	if v := c.state.View; v != nil {
		m.ViewID, m.Key, m.Group, m.Lineage = v.ID, v.Key(), v.Group, v.Lineage
	}
	return m
}

func (c *Core) hello() Message {
	m := c.message(Hello)
	m.Counts, m.Able, m.Lacks = c.counts(), c.able, c.state.Lacking()
	if c.attempt != nil && c.able {
		m.Ballot = c.attempt.ballot
	}
	for _, p := range c.peers {
		if len(m.Peers) < maxPeers {
			m.Peers = append(m.Peers, p.member.Addr)
		}
	}
	return m
}

// maxContacts bounds the addresses to which a process says hello, and maxHere the processes to
// which it listens.
const (
	maxContacts = 4 * views.MaxMembers
	maxHere     = 2 * views.MaxMembers
)

// contacts returns the addresses at which a process may be: where the view says, where this process
// was told, where former members were, and where others found one.
func (c *Core) contacts() (addrs []string) {
	add := func(addr string) {
		if addr != c.cfg.Self.Addr && len(addrs) < maxContacts && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	for _, p := range c.peers {
		add(p.member.Addr)
	}
	for _, addr := range c.cfg.Join {
		add(addr)
	}
	if c.state.View != nil {
		for _, m := range c.state.View.Members {
			add(m.Addr)
		}
	}
	for _, f := range c.state.Former {
		add(f.Addr)
	}
	for _, p := range c.peers {
		for _, addr := range p.peers {
			add(addr)
		}
	}
	return addrs
}

// hear takes a message: first what it says of the view in force, then the rest.
func (c *Core) hear(now time.Duration, m Message, e *Effects) {
	if err := m.check(); err != nil {
		c.ignore(m.From, fmt.Sprintf("%q: %v", clip(string(m.Verb)), err), e)
		return
	}
	if m.Cluster != c.cfg.Cluster {
		c.stranger(m, e)
		return
	}
	if m.Verb == Refuse {
		c.ignore(m.From, "it says: "+clip(m.Text), e)
		return
	}
	if !c.authentic(m, e) {
		return
	}
	if m.Verb == Running {
		c.running(m, e)
		return
	}
	if m.From.ID == c.cfg.Self.ID {
		if m.From.Incarnation != c.cfg.Self.Incarnation {
			c.ignore(m.From, "it calls itself what this process is called", e)
		}
		return
	}
	p := c.note(now, m, e)
	if p == nil || !c.agrees(p, m, e) {
		return
	}
	c.round = max(c.round, min(m.Ballot.Round, c.round+maxLead))
	c.dispatch(now, p, m, e)
}

// stranger answers a process of another cluster, once.
func (c *Core) stranger(m Message, e *Effects) {
	if m.Verb == Hello && !slices.Contains(c.ignored, m.From.ID) {
		answer := c.message(Refuse)
		answer.ViewID, answer.Key, answer.Group, answer.Lineage, answer.Text = 0, "", "", "", fmt.Sprintf("this is cluster %q, not %q", c.cfg.Cluster, clip(m.Cluster))
		e.say(m.From.Addr, answer)
	}
	c.ignore(m.From, fmt.Sprintf("it is of cluster %q", clip(m.Cluster)), e)
}

// ignore tells once per node that what it says is of no use.
func (c *Core) ignore(from views.Member, why string, e *Effects) {
	if slices.Contains(c.ignored, from.ID) || len(c.ignored) >= maxHere {
		return
	}
	c.ignored = append(c.ignored, from.ID)
	e.tell(Ignored{From: from, Why: why})
}

// note records that a process is here. Of two processes with one id it keeps the one that spoke
// last: the other one is gone, or both are at fault and neither makes progress.
func (c *Core) note(now time.Duration, m Message, e *Effects) *peer {
	if !c.fresh(m) {
		return nil
	}
	i, ok := slices.BinarySearchFunc(c.peers, m.From.ID, func(p *peer, id order.NodeID) int { return cmp.Compare(p.member.ID, id) })
	if !ok {
		if len(c.peers) >= maxHere {
			return nil
		}
		c.peers = slices.Insert(c.peers, i, &peer{})
	}
	p := c.peers[i]
	news := p.member.Incarnation != m.From.Incarnation
	if news {
		*p = peer{}
	}
	p.member, p.heard, p.viewID, p.key = m.From, now, m.ViewID, m.Key
	if m.Verb == Hello {
		p.counts, p.able, p.lacks, p.peers = m.Counts, m.Able, m.Lacks, m.Peers
		if m.Ballot != (Ballot{}) && m.Ballot == c.state.Promised {
			c.yield()
		}
	}
	if news {
		c.answer(m.From, c.hello(), e) // it may not know yet which process is here
	}
	return p
}

// agrees reports whether both sides speak about the same view. A sender that knows an older one is
// told, and a newer one is believed.
func (c *Core) agrees(p *peer, m Message, e *Effects) bool {
	mine := c.state.View
	if m.Verb == Hello && m.Next.View != nil && (mine == nil || m.Next.View.ID > mine.ID) {
		c.learn(m.Next, e)
		e.tell(Learned{View: m.Next.View, From: m.From})
		return true
	}
	switch {
	case mine == nil:
		return m.Verb == Hello
	case p.viewID < mine.ID:
		if m.Verb == Hello || m.Verb == Prepare {
			answer := c.hello()
			answer.Next = c.state.Successor
			c.answer(p.member, answer, e)
		}
		return m.Verb == Hello
	case p.viewID > mine.ID:
		return m.Verb == Hello // it will say so
	case p.key != mine.Key():
		c.ignore(m.From, fmt.Sprintf("its view %d is not the view %d that is known here: two groups have one name", mine.ID, mine.ID), e)
		return false
	}
	return true
}

// learn takes a view that is in force. Whatever was under way was about the one before; and the
// members of the new view are waited for anew, which may be here and know of it in a moment.
func (c *Core) learn(next Successor, e *Effects) {
	c.state.move(next)
	c.round, c.able = 0, false
	c.drop()
	c.halt(e)
	c.keep(e)
}

// yield lets another process lead, as long as that process shows that it does.
func (c *Core) yield() { c.resume = c.now + c.cfg.Silence }

// drop ends an attempt.
func (c *Core) drop() { c.attempt = nil }

// halt ends a reconciliation. Nothing is promised before it has ended, so that no log changes
// behind a promise.
func (c *Core) halt(e *Effects) {
	if c.work != nil && !c.work.stopped {
		c.work.stopped, e.Stop = true, true
	}
}

func (c *Core) dispatch(now time.Duration, p *peer, m Message, e *Effects) {
	switch m.Verb {
	case Prepare:
		c.prepare(m, e)
	case Plan:
		c.plan(m, e)
	case Accept:
		c.accept(m, e)
	case Promise:
		c.promised(p, m, e)
	case Ready:
		c.arrived(p, m, e)
	case Vote:
		c.voted(p, m, e)
	case Outvoted:
		c.outvoted(now, m, e)
	case Decided:
		c.decided(m.Next, m.Enter, e)
	}
}

// running is the answer of a member of a group that works. If it is in a view that this process had
// its logs made ready for, this process is a member of it, and did not hear that it was decided. In
// any other view it would have missed something.
func (c *Core) running(m Message, e *Effects) {
	if mine := c.state.View; mine != nil && m.ViewID < mine.ID {
		return // it will find out that it was left behind
	}
	next := Successor{View: m.Next.View, Restarted: true}
	if a := c.state.Accepted; next.View == nil && a != nil && m.names(a.Successor) {
		next = a.Successor
	}
	if v := next.View; v != nil && v.Key() == c.logsFor {
		c.decided(next, true, e)
	}
	if !c.over && len(m.Peers) > 0 {
		c.end(Outcome{Running: slices.Clone(m.Peers)}, e)
		e.tell(Found{m.Peers})
	}
}

// decided takes a view that is in force, and enters it if that is possible.
func (c *Core) decided(next Successor, enter bool, e *Effects) {
	mine := c.state.View
	if mine != nil && !c.state.is(next.View) && checkNext(mine, next.View) == nil {
		c.learn(next, e)
	}
	if enter && c.state.is(next.View) && c.enters() {
		c.enter(e)
	}
}

// enters reports whether this process can begin the view in force (Y5): it is in it as it is, its
// logs are where they were agreed to be for this view and no other, and it has not promised to help
// replacing it.
func (c *Core) enters() bool {
	v := c.state.View
	r, ok := v.RankOf(c.cfg.Self.ID)
	return ok && v.Members[r].Incarnation == c.cfg.Self.Incarnation && c.logsFor == v.Key() && c.state.Promised == Ballot{}
}

func (c *Core) enter(e *Effects) {
	v := *c.state.View
	v.Secret = c.state.Secret
	c.end(Outcome{View: &v}, e)
	e.tell(Restarted{c.state.View})
}

func (c *Core) end(o Outcome, e *Effects) {
	c.over, e.Outcome = true, &o
	c.drop()
	c.halt(e)
}

// counts reports whether this process is an acceptor: a member of the view in force, with the disk
// that it had (Y1).
func (c *Core) counts() bool { return c.state.Counts(c.state.View) }

// rank is a node's in the view in force, for one that is known to be a member.
func (c *Core) rank(id order.NodeID) order.Rank {
	r, _ := c.state.View.RankOf(id)
	return r
}

// here are the acceptors that are here, this process among them if it is one.
func (c *Core) here() (set viewchange.Ranks) {
	v := c.state.View
	if v == nil {
		return 0
	}
	set = set.With(c.rank(c.cfg.Self.ID), c.counts())
	for _, p := range c.peers {
		r, ok := v.RankOf(p.member.ID)
		set = set.With(r, ok && p.counts && p.viewID == v.ID && p.key == v.Key())
	}
	return set
}

func (c *Core) quorum(set viewchange.Ranks) bool {
	if mutant.Enabled && mutant.On(mutant.RestartAlone) {
		return set != 0
	}
	return viewchange.Quorum(len(c.state.View.Members), set)
}

func (c *Core) invariants() {
	if !invariants.Enabled {
		return
	}
	s := &c.state
	if a := s.Accepted; a != nil {
		invariants.Check(a.Ballot.Compare(s.Promised) <= 0, "Y3", "a vote in %v, and %v promised", a.Ballot, s.Promised)
	}
	if s.Promised != (Ballot{}) {
		invariants.Check(c.counts(), "Y1", "node %d promised %v and does not count", s.Node, s.Promised)
	}
	if a := c.attempt; a != nil {
		invariants.Check(a.ballot.Compare(s.Promised) == 0, "Y3", "leads %v, and %v is promised", a.ballot, s.Promised)
	}
}
