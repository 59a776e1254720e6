package sim

import (
	"time"

	"github.com/squall-go/squall/internal/join"
	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/internal/simnet"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// stranger is a process of another group that has the same cluster name, at the address of a node
// of this one: an operator wiped the node's disk and bootstrapped the group anew, or configured two
// groups alike. It answers processes that join and processes that come back, like a member of a
// working group, and sends false messages to processes that come back: that its view is the newest,
// that the group works here, that a restart is under way. It knows the identity of this group, but
// not its secret; it also replays earlier messages of others.
type stranger struct {
	world *world
	node  *node
	self  views.Member
	view  *views.View
	gate  *join.Acceptor
	talks []*talk
	next  join.Ticket
	said  uint64
	beat  time.Duration
	over  bool
}

// strange ends a process, and has a stranger in its place until the node's next process begins.
func (f *fault) strange(p *process) {
	w, n := f.world, p.node
	if n.disk == nil {
		return // its next process would be a stranger itself
	}
	n.Times, n.Returns = n.times+1, f.plan.For+w.plan.FailAfter()
	(&fault{world: w, plan: Fault{Kind: Crash}}).crash(p)
	s := &stranger{world: w, node: n, self: views.Member{ID: n.ID, Incarnation: 1 << 40, Addr: n.address()}}
	v, _, err := views.Place(views.Placement{
		ID: 1 << 20, Cluster: cluster, Key: w.key(), Group: "another group", Secret: views.NewSecret(w.key()),
		Members: []views.Member{s.self}, Declarations: w.plan.Decls, Layouts: layouts,
	})
	if err != nil {
		return // no group of one can be laid out
	}
	s.view = v
	s.gate = join.NewAcceptor(join.AcceptorConfig{Cluster: cluster, Declarations: w.plan.Decls, FailAfter: w.plan.FailAfter(), Silence: w.plan.Silence()}, v, 0)
	w.probes[StrangerCame]++
	w.print(n.place, "a process of another group has its address")
	w.net.Restart(n.ID)
	w.net.Listen(n.ID, s.accept)
	n.stranger = s
	w.schedule.add(w.now, s)
	w.later(f.plan.For, s.end)
}

func (s *stranger) end() {
	s.over, s.node.stranger = true, nil
	s.world.net.Crash(s.node.ID)
}

func (s *stranger) accept(c *simnet.Conn) {
	s.next++
	s.talks = append(s.talks, &talk{ticket: s.next, conn: c, up: true})
}

// act implements actor.
func (s *stranger) act(now time.Duration) time.Duration {
	if s.over {
		return never
	}
	answerAll(s.gate, &s.talks, now, func(e join.Effects) { say(s.talks, e) })
	if now >= s.beat {
		s.beat = now + s.world.plan.FailAfter()/2
		s.speak()
	}
	return now + s.world.plan.Hop()
}

// hear answers a letter of a process that comes back.
func (s *stranger) hear(m restart.Message) {
	s.post(m.From.ID, restart.Answer(cluster, s.self, s.view, m))
}

// speak sends one message to every process that comes back.
func (s *stranger) speak() {
	w := s.world
	for _, n := range w.nodes {
		p := n.proc
		if n == s.node || p == nil || p.over || p.core == nil || p.core.Over() {
			continue
		}
		w.probes[StrangerSpoke]++
		if len(w.overheard) > 0 && w.letters.oneIn(3) {
			s.post(n.ID, w.overheard[w.letters.IntN(len(w.overheard))])
			continue
		}
		s.post(n.ID, s.invent(p))
	}
}

// invent makes a letter of the stranger's own group, or one that pretends to be of this one.
func (s *stranger) invent(to *process) restart.Message {
	d, mine := s.world.letters, to.memory.State().View
	s.said++
	b := restart.Ballot{Round: 1 + uint64(d.IntN(1000)), Node: s.self.ID}
	next := restart.Successor{View: s.view, Restarted: true}
	m := restart.Message{Cluster: cluster, From: s.self, To: to.self.Incarnation, Count: s.said, ViewID: s.view.ID, Key: s.view.Key(), Group: s.view.Group, Lineage: s.view.Lineage}
	m.Verb, m.Ballot = pick(d, restart.Hello, restart.Running, restart.Prepare, restart.Accept, restart.Decided, restart.Promise, restart.Vote), b
	if m.Next = next; m.Verb == restart.Running {
		m.Ballot, m.Peers = restart.Ballot{}, []string{s.self.Addr}
	}
	m.Enter, m.Counts, m.Able = true, true, true
	// it has seen a view of this group, and knows all of it but the secret
	if mine != nil && d.oneIn(2) {
		m.ViewID, m.Key, m.Group, m.Lineage = mine.ID, mine.Key(), mine.Group, mine.Lineage
		follows := *s.view
		follows.ID, follows.Group = mine.ID+1, mine.Group
		follows.Follow(mine)
		m.Next.View = &follows
		m.From = mine.Members[d.IntN(len(mine.Members))]
	}
	return m.Sealed(s.view.Secret)
}

func (s *stranger) post(to order.NodeID, m restart.Message) {
	w := s.world
	n := w.nodes[w.placeOf[to]]
	w.schedule.add(w.now+w.plan.Net.Delays[s.node.place][n.place].Base+1, &letter{s.node.proc, n, m})
}

// overhear keeps some of the letters that are on their way.
func (w *world) overhear(m restart.Message) {
	const most = 32
	if len(w.overheard) < most {
		w.overheard = append(w.overheard, m)
	} else if w.letters.oneIn(8) {
		w.overheard[w.letters.IntN(most)] = m
	}
}

// checkGroup checks that a process is in no other history than that of its group.
func (w *world) checkGroup(p *process, v *views.View) {
	if v != nil && v.Group != groupOf(w.plan.Seed) {
		w.judge("brain", violated("G5", "node %d is in view %d of %q, which is another group", p.self.ID, v.ID, v.Group))
	}
}
