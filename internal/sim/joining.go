package sim

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/life"
	"github.com/squall-go/squall/internal/simnet"
)

// talk is a conversation of a process that joins, or of a member with one.
type talk struct {
	ticket  join.Ticket
	conn    *simnet.Conn
	up      bool // its owner knows that it stands
	asked   bool // of a member: the request came
	closing bool // it has ended here
}

// ask begins to join.
func (p *process) ask(ask []string) {
	w := p.world
	config := join.JoinerConfig{
		Cluster: cluster, Self: p.self, Declarations: w.plan.Decls, Join: ask, Nonce: w.key(), Silence: w.plan.Silence(),
	}
	if p.memory != nil && p.memory.State().View != nil {
		config.Group, config.Secret = p.memory.State().View.Group, p.memory.State().Secret
	}
	p.applicant = join.NewJoiner(config)
	p.apply(&p.calls, p.applicant.Start(p.local()))
}

// accept takes a conversation that a joiner opened.
func (p *process) accept(c *simnet.Conn) {
	if p.over {
		return
	}
	p.tickets++
	p.guests = append(p.guests, &talk{ticket: p.tickets, conn: c, up: true})
	p.wake()
}

// apply does what a gate or an applicant wants done.
func (p *process) apply(talks *[]*talk, e join.Effects) {
	w := p.world
	for _, d := range e.Dials {
		*talks = append(*talks, &talk{ticket: d.Ticket, conn: w.dial(p, d.Addr)})
	}
	for _, s := range e.Says {
		if find(*talks, s.To) != nil {
			w.joinSaid(p, s.What)
		}
	}
	for _, ev := range e.Events {
		w.event(joins, p.node.place)
		p.print("%v", ev)
		w.joinEvent(p, ev)
	}
	say(*talks, e)
	if e.Changed && p.member != nil {
		p.member.Join(p.gate.Candidates())
	}
	for _, probe := range e.Probes {
		p.tryHolder(probe)
	}
}

// tryHolder tries the member whose place a joiner wants, and lets the gate know at once. A node has
// one process at a time, so the member that is tried has always ended. A process that goes on as
// another one (its former incarnation was told that it is no member) does not answer for the
// earlier one either.
func (p *process) tryHolder(probe join.Probe) {
	var err error
	if q := p.world.processOf(probe.Member); q.over || q.self.Incarnation != probe.Member.Incarnation {
		err = simnet.ErrClosed
	}
	p.apply(&p.guests, p.gate.HolderTried(p.local(), probe.Ticket, probe.Member, err))
}

// dial begins a conversation with the process at an address. Where no node is any more, the call is
// refused, as one to the caller itself is.
func (w *world) dial(p *process, addr string) *simnet.Conn {
	to := p.self.ID
	if n := w.nodeAt(addr); n != nil {
		to = n.ID
	}
	return w.net.Dial(p.self.ID, to)
}

// nodeAt returns the node that has an address; nil: there is none.
func (w *world) nodeAt(addr string) *node {
	i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.address() == addr })
	if i < 0 {
		return nil
	}
	return w.nodes[i]
}

func find(talks []*talk, ticket join.Ticket) *talk {
	i := slices.IndexFunc(talks, func(t *talk) bool { return t.ticket == ticket && !t.closing })
	if i < 0 {
		return nil
	}
	return talks[i]
}

// say says what a gate or an applicant has to say, and hangs up: the others hear of that behind it.
func say(talks []*talk, e join.Effects) {
	for _, s := range e.Says {
		if t := find(talks, s.To); t != nil {
			t.conn.Send(s.What)
		}
	}
	for _, ticket := range e.HangUps {
		if t := find(talks, ticket); t != nil {
			t.closing = true
			t.conn.Close()
		}
	}
}

// converse is one look at all conversations.
func (p *process) converse() (work int) {
	if p.applicant != nil {
		work += p.askOn()
	}
	if p.gate != nil && !p.told {
		work += p.answer()
	}
	return work
}

// askOne is a look of a joiner at one conversation.
func (p *process) askOne(t *talk) (work int) {
	a := p.applicant
	if !t.up && t.conn.Up() {
		t.up = true
		work++
		p.apply(&p.calls, a.Connected(p.local(), t.ticket))
	}
	for msg, ok := t.conn.Recv(); ok; msg, ok = t.conn.Recv() {
		work++
		if !t.closing {
			p.apply(&p.calls, a.Hear(p.local(), t.ticket, msg.(join.Message)))
		}
	}
	if err := t.conn.Closed(); err != nil {
		work++
		forget(&p.calls, t)
		if !t.closing {
			p.apply(&p.calls, a.Gone(p.local(), t.ticket, err))
		}
	}
	return work
}

// askOn is a look of a joiner at its conversations.
func (p *process) askOn() (work int) {
	a := p.applicant
	for _, t := range slices.Clone(p.calls) {
		work += p.askOne(t)
	}
	if next, ok := a.Next(); ok && p.local() >= next {
		work++
		p.apply(&p.calls, a.Tick(p.local()))
	}
	if v := a.View(); v != nil && p.member == nil {
		if p.world.moves(p, Enters); !p.over && !p.vanish(v) {
			p.lived(life.Result{View: v})
		}
	}
	if a.Over() && a.Err() == nil && len(p.calls) == 0 {
		p.applicant = nil
	}
	return work
}

// answer is a look of a member at the conversations of joiners.
func (p *process) answer() (work int) {
	return answerAll(p.gate, &p.guests, p.local(), func(e join.Effects) { p.apply(&p.guests, e) })
}

// answerAll is a look at the conversations of joiners with a gate.
func answerAll(gate *join.Acceptor, talks *[]*talk, now time.Duration, apply func(join.Effects)) (work int) {
	for _, t := range slices.Clone(*talks) {
		for msg, ok := t.conn.Recv(); ok; msg, ok = t.conn.Recv() {
			work++
			switch {
			case t.closing:
			case !t.asked:
				t.asked = true
				apply(gate.Ask(now, t.ticket, msg.(join.Request)))
			default:
				apply(gate.Hear(now, t.ticket, msg.(join.Message)))
			}
		}
		if t.conn.Closed() != nil {
			work++
			forget(talks, t)
			if !t.closing && t.asked {
				apply(gate.Gone(now, t.ticket, t.conn.Closed()))
			}
		}
	}
	if next, ok := gate.Next(); ok && now >= next {
		work++
		apply(gate.Tick(now))
	}
	return work
}

// lead tells the conversations of joiners which member leads, after a step in which that may have
// changed.
func (p *process) lead() {
	if p.gate == nil || p.told {
		return
	}
	if r, ok := p.member.View().RankOf(p.member.Leader().ID); ok && r != p.leader {
		p.leader = r
		p.apply(&p.guests, p.gate.Lead(r))
	}
}

func forget(talks *[]*talk, t *talk) {
	*talks = slices.DeleteFunc(*talks, func(o *talk) bool { return o == t })
}

// joinDue is when the process must look at its conversations even if nothing happens on them.
func (p *process) joinDue() time.Duration {
	at := time.Duration(math.MaxInt64 / 2)
	if p.applicant != nil {
		if next, ok := p.applicant.Next(); ok {
			at = min(at, next-p.jumped)
		}
	}
	if p.gate != nil && !p.told {
		if next, ok := p.gate.Next(); ok {
			at = min(at, next-p.jumped)
		}
	}
	if next, ok := p.restartDue(); ok {
		at = min(at, next)
	}
	return at
}

// refusedToJoin ends a process that will not become a member. It will be started again: its
// predecessor most likely held its place.
func (p *process) refusedToJoin() {
	w := p.world
	refusedBecause := p.applicant.Err().Error()
	if !strings.Contains(refusedBecause, "held by") {
		w.fail(violated("liveness", "node %d may not join: %v", p.self.ID, p.applicant.Err()))
		return
	}
	for _, t := range p.calls {
		t.conn.Close()
	}
	w.net.Crash(p.self.ID)
	p.over = true
	p.leaveDisk()
	w.pending++
	w.stir()
	w.schedule.add(w.now+w.plan.FailAfter(), &birth{world: w, node: p.node})
}
