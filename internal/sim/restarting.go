package sim

import (
	"slices"
	"time"

	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/viewchange"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// A process whose disk knows a view finds the others that were in it: their group works, and it
// joins it, or all of them have ended, and they agree on a view to go on with. What package restart
// decides is done here in virtual time; letters may be lost.

// comeBack begins that.
func (p *process) comeBack() {
	w := p.world
	p.core = restart.NewCore(restart.CoreConfig{
		Cluster: cluster, Self: p.self, Join: p.asks(), Logs: p.logEnds, Place: p.goOn, Persistent: w.persistent,
		Times: p.restartTimes(),
	}, p.memory.State())
	p.obey(p.core.Start(p.local()))
}

// restartTimes are such that as many beats fit into the silence after which a process is missed as
// in a group.
func (p *process) restartTimes() restart.Times {
	plan := p.world.plan
	return restart.Times{Beat: 4 * plan.Heartbeat(), Silence: 4 * plan.FailAfter(), Settle: plan.FailAfter()}
}

func (w *world) persistent(name string) bool {
	k := w.declNamed(name)
	return k >= 0 && w.plan.Decls[k].Mode == views.Persistent
}

// asks are the addresses that the node's processes ask.
func (p *process) asks() (list []string) {
	for _, i := range p.node.Ask {
		if i != p.node.place {
			list = append(list, address(p.world.nodes[i].ID))
		}
	}
	return list
}

// logEnds are where the process's logs end.
func (p *process) logEnds() (ends []restart.LogEnd) {
	for _, k := range p.keepers {
		ends = append(ends, restart.LogEnd{ID: p.world.logID(k.id), Last: k.log.book.End().Version})
	}
	return ends
}

// goOn makes the view in which the returned processes go on.
func (p *process) goOn(previous *views.View, members []views.Member) (*views.View, error) {
	v, err := p.next(previous, members, nil)
	if err != nil {
		return nil, err
	}
	v.Time = max(p.wall(), previous.Time)
	for _, k := range p.keepers {
		v.Time = max(v.Time, k.log.book.End().Time+1)
	}
	return v, nil
}

// obey does what the core says, in its order.
func (p *process) obey(e restart.Effects) {
	pause := time.Duration(0)
	p.base = p.memory.State().View
	p.world.noteReady(p)
	if e.State != nil {
		pause = p.node.disk.takes(memoName, p.world.now)
		if p.keepState(*e.State); p.over {
			return
		}
	}
	if e.Stop && p.reconciling != nil {
		p.reconciling.stopped = true
	}
	if e.Reconcile != nil {
		p.reconcile(*e.Reconcile, pause)
	}
	for _, s := range e.Sends {
		if m := s.Message; m.Verb == restart.Decided {
			p.world.judge("restart", p.world.checkDecides(p, m))
		}
		if p.post(s, pause); p.over {
			return
		}
	}
	for _, ev := range e.Events {
		if p.restartEvent(ev); p.over {
			return
		}
	}
	if e.Outcome != nil {
		p.isBack(*e.Outcome)
	}
}

// keepState writes down what the core knows now. The process may end between that and what it says
// of it.
func (p *process) keepState(s restart.State) {
	before := p.memory.State()
	p.world.noteInForce(before.View)
	p.world.checkGroup(p, s.View)
	if p.must(p.memory.Keep(s)); !p.over {
		p.world.noteBallots(p)
		p.world.judge("restart", p.world.checkInForce(p, s.View))
		p.world.judge("restart", p.world.checkWhole(p, before, s))
	}
	if p.over || s.View == nil || before.View == nil || s.View.Key() != before.View.Key() {
		return
	}
	w := p.world
	if s.Promised != before.Promised {
		p.promised = true
		p.resume(s.Promised, restart.Promise)
		w.moves(p, Promises)
	}
	if s.Accepted != nil && (before.Accepted == nil || s.Accepted.Ballot != before.Accepted.Ballot) && !p.over {
		w.voted(s)
		p.promised = false
		p.resume(s.Accepted.Ballot, restart.Vote)
		w.moves(p, Votes)
	}
}

// voted notes a process's vote for the successor of a view.
func (w *world) voted(s restart.State) {
	keys := w.history.votes[s.View.Key()]
	if !slices.Contains(keys, s.Accepted.View.Key()) {
		w.history.votes[s.View.Key()] = append(keys, s.Accepted.View.Key())
	}
	w.sometimes(RestartTwoVotes, len(keys) > 0 && !slices.Contains(keys, s.Accepted.View.Key()))
}

func (p *process) restartEvent(ev restart.Event) {
	w := p.world
	if _, waits := ev.(restart.Waiting); waits || !w.canRestart() {
		// It is no progress: processes whose last holder of a log is gone say it again in every
		// round, and of leaders between which a way is cut each supersedes the other.
		w.stirred = true
	} else {
		w.stir()
	}
	w.event(restarts, p.node.place)
	p.print("%v", ev)
	switch e := ev.(type) {
	case restart.Waiting:
		w.sometimes(RestartWaited, len(e.For) > 0)
	case restart.Proposed:
		w.judge("restart", w.checkLeads(p, e.Ballot, e.View))
		w.moves(p, Plans)
	case restart.Ignored:
		w.probes[MetStranger]++
	case restart.Superseded:
		w.probes[RestartSuperseded]++
	case restart.Completing:
		w.judge("restart", w.checkLeads(p, e.Ballot, e.View))
		w.probes[RestartCompletes]++
		w.sometimes(RestartChoseVote, len(w.history.votes[p.memory.State().View.Key()]) > 1)
		w.moves(p, Completing)
	case restart.Learned:
		w.probes[RestartLearns]++
	}
}

// isBack is the end of it: the process is in a view, or it joins a group that works, as another one
// than it was.
func (p *process) isBack(o restart.Outcome) {
	w := p.world
	p.lettersLeft = 0
	if o.Err != nil {
		p.must(o.Err)
		return
	}
	if o.View != nil {
		w.sometimes(RestartedWithout, len(o.View.Members) < len(w.history.last.procs))
		w.probes[Restarted]++
		w.judge("restart", w.checkReady(p, o.View))
		p.restarted = true
		w.moves(p, Restarts)
	} else {
		w.probes[FoundRunning]++
	}
	if !p.over {
		p.lived(life.Result{View: o.View, Running: o.Running})
	}
}

// restartDue is when the core wants to be called.
func (p *process) restartDue() (time.Duration, bool) {
	if p.core == nil || p.core.Over() {
		return 0, false
	}
	return p.core.Next() - p.jumped, true
}

// restartOn is a look of a process that comes back at its clock.
func (p *process) restartOn() (work int) {
	if due, ok := p.restartDue(); !ok || p.world.now < due {
		return 0
	}
	p.obey(p.core.Tick(p.local()))
	return 1
}

// announce has a member announce the group, concurrently with its loop, where processes may look
// for it in vain.
func (p *process) announce() {
	core := restart.NewAnnouncer(cluster, p.self, p.asks(), p.restartTimes())
	p.world.schedule.add(p.world.now, acting(func(now time.Duration) time.Duration {
		if p.told {
			return never
		}
		if until, held := p.held(now); held {
			return until
		}
		p.survive(func() {
			for _, s := range core.Tick(now, p.member.View(), p.memory.State().Former) {
				if p.post(s, 0); p.over {
					return
				}
			}
		})
		return max(now, core.Next())
	}))
}

// post sends a letter. One in some is lost.
func (p *process) post(s restart.Send, pause time.Duration) {
	w := p.world
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.address() == s.To })
	if i < 0 {
		return
	}
	if w.letters.oneIn(w.plan.Keep.LostIn) {
		if s.Message.Verb == restart.Decided {
			p.untold |= 1 << i
		}
		return
	}
	if w.lax == DeafToLacks {
		s.Message.Lacks = slices.DeleteFunc(slices.Clone(s.Message.Lacks), func(id restart.LogID) bool { return id.Shard > 0 })
		s.Message = s.Message.Sealed(p.memory.State().Secret)
	}
	w.overhear(s.Message)
	d := w.plan.Net.Delays[p.node.place][i]
	w.schedule.add(w.now+pause+d.Base+w.letters.upTo(d.Jitter+1), &letter{p, w.nodes[i], s.Message})
	if w.letters.oneIn(w.plan.Keep.LateIn) {
		late := &letter{p, w.nodes[i], s.Message}
		if m := s.Message; (m.Verb == restart.Promise || m.Verb == restart.Vote) && w.letters.oneIn(2) {
			w.nodes[i].stale = append(w.nodes[i].stale, late)
		} else {
			w.schedule.add(w.now+pause+w.letters.upTo(8*w.plan.FailAfter()), late)
		}
	}
	if p.lettersLeft > 0 {
		if p.lettersLeft--; p.lettersLeft == 0 {
			p.world.net.Crash(p.self.ID)
			p.crashed("crashes between two letters")
		}
	}
}

// resume has answers to an earlier attempt arrive that stayed behind on their way to a process, at
// the worst moment: promises as it begins another attempt, and votes as it puts a view to the vote.
func (p *process) resume(b restart.Ballot, answers restart.Verb) {
	w, n := p.world, p.node
	if b.Node != p.self.ID {
		return
	}
	n.stale = slices.DeleteFunc(n.stale, func(l *letter) bool {
		if l.what.Verb != answers || l.what.Ballot == b {
			return l.what.To != p.self.Incarnation
		}
		w.schedule.add(w.now+w.letters.upTo(w.plan.Hop()), l)
		return true
	})
}

// letter is a message of a restart on its way.
type letter struct {
	from *process
	to   *node
	what restart.Message
}

// act implements actor.
func (l *letter) act(now time.Duration) time.Duration {
	p := l.to.proc
	if s := l.to.stranger; s != nil && l.from.node != l.to {
		s.hear(l.what)
		return never
	}
	if p == nil || !p.world.near(l.from, p) {
		return never
	}
	if until, held := p.held(now); held {
		return until
	}
	p.survive(func() { p.hearLetter(l) })
	return never
}

func (p *process) hearLetter(l *letter) {
	switch {
	case p.core != nil && !p.core.Over():
		p.world.watchLetter(p, l.what)
		p.world.noteAnswer(p, l.what)
		p.obey(p.core.Hear(p.local(), l.what))
		p.wake()
	case p.member != nil && !p.told && l.what.Verb != restart.Running:
		p.post(restart.Send{To: l.what.From.Addr, Message: p.works(l.what)}, 0)
	}
}

// watchLetter counts letters of an attempt that is over.
func (w *world) watchLetter(p *process, m restart.Message) {
	if s := p.core.State(); s.View != nil && m.Key == s.View.Key() && m.Ballot != (restart.Ballot{}) && m.Ballot.Compare(s.Promised) < 0 {
		w.sometimes(StalePromise, m.Verb == restart.Promise)
		w.sometimes(StaleVote, m.Verb == restart.Vote)
	}
}

// works is what a member of a group that works answers.
func (p *process) works(m restart.Message) restart.Message {
	return restart.Answer(cluster, p.self, p.seat().record.view, m)
}

func (w *world) declNamed(name string) int {
	for k := range w.plan.Decls { // by index: a Declaration is large, and this is asked often
		if w.plan.Decls[k].Name == name {
			return k
		}
	}
	return -1
}

// comesBack reports whether a process looks for the others of a group that has ended.
func (w *world) comesBack() bool {
	return slices.ContainsFunc(w.nodes, func(n *node) bool { return n.proc != nil && !n.proc.over && n.proc.core != nil && !n.proc.core.Over() })
}

// canRestart reports whether the processes that have come back go on: they can with the newest view
// in force that one of them knows, and with each view that may have been decided to follow it, as
// far as they know. Ballots choose which one it is.
func (w *world) canRestart() bool {
	back := w.backTogether()
	var last *views.View
	for _, p := range back {
		if v := p.memory.State().View; v != nil && (last == nil || v.ID > last.ID) {
			last = v
		}
	}
	if last == nil || !w.suffice(back, last, false) {
		return false
	}
	for _, p := range back {
		s := p.memory.State()
		if s.View == nil || s.View.Key() != last.Key() {
			continue
		}
		if s.Echo != nil && s.Echo.View != nil && !w.suffice(back, s.Echo.View, true) || s.Accepted != nil && !w.suffice(back, s.Accepted.View, true) {
			return false
		}
	}
	return true
}

// backTogether are the processes that look for the others and reach each other; none if two of them
// do not.
func (w *world) backTogether() (back []*process) {
	for _, n := range w.nodes {
		p := n.proc
		if p == nil || p.over || p.core == nil || p.core.Over() {
			continue
		}
		if slices.ContainsFunc(back, func(q *process) bool { return !w.near(p, q) }) {
			return nil
		}
		back = append(back, p)
	}
	return back
}

// suffice reports whether some processes can go on with a view: they are a quorum of it, each with
// the disk that it had, and for each shard one of them has the whole log. next says that it follows
// the view in force.
func (w *world) suffice(back []*process, v *views.View, next bool) bool {
	disk := func(m views.Member) *restart.State {
		for _, p := range back {
			if s := p.memory.State(); p.self.ID == m.ID && s.Counts(v) {
				return &s
			}
		}
		return nil
	}
	var here viewchange.Ranks
	for r, m := range v.Members {
		here = here.With(order.Rank(r), disk(m) != nil)
	}
	if !viewchange.Quorum(len(v.Members), here) {
		return false
	}
	for _, sg := range v.Subgroups {
		whole := func(r order.Rank) bool {
			s := disk(v.Members[r])
			if s == nil || next && slices.Contains(sg.Fresh, r) {
				return false
			}
			lacks := slices.ContainsFunc(s.Incomplete, func(l restart.IncompleteLog) bool { return l.Name == sg.Name && l.Shard == sg.Shard })
			return !lacks && (s.View.Key() == v.Key() || next && s.View.ID+1 == v.ID)
		}
		if sg.Mode == views.Persistent && sg.Provisioned() && !slices.ContainsFunc(sg.Members, whole) {
			return false
		}
	}
	return true
}
