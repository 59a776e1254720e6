package join

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// AcceptorConfig is what an Acceptor needs to know.
type AcceptorConfig struct {
	Cluster      string
	Declarations []views.Declaration
	// FailAfter is how long the group takes to notice a member that died. An id that a member holds
	// is waited for so long, and for Silence besides: the member's removal takes its time too.
	FailAfter time.Duration
	// Room returns why this process has no room for one more member now, or nil; nil itself: it
	// has.
	Room func() error
	// Admit returns why a process with these declarations, which do not differ, can be no member,
	// or nil; nil itself: it can. It must not block.
	Admit func([]views.Declaration) error
	// Silence is how long the other side of a conversation may say nothing at all; 0 is
	// DefaultSilence.
	Silence time.Duration
	// Probe has a joiner's address tried before it may be proposed.
	Probe bool
}

func (c AcceptorConfig) hold() time.Duration { return c.FailAfter + c.Silence }

// meetSilences is how many times Silence a joiner has to greet the members of a view.
const meetSilences = 6

// Bounds of an Acceptor: the most conversations with joiners that apply, and with joiners that
// greet.
const maxTalks = 4 * views.MaxMembers

// Acceptor is a member's part in joining: it answers requests, greets the joiners that will be
// proposed, and keeps the set of joiners that are ready. Requests, messages and views go in, with
// the time, and what to do comes out. It is pure.
type Acceptor struct {
	config  AcceptorConfig
	view    *views.View // installed here
	self    order.Rank
	leader  order.Rank
	halted  error
	talks   []*session     // in the order in which they began
	failed  []views.Member // of the view: they failed, as far as is known here
	joined  []arrival      // members that joined not long ago
	absent  probation
	readied uint64 // how often a joiner became ready
	beat    time.Duration
}

// arrival is a member that joined while this one was a member.
type arrival struct {
	member views.Member
	at     time.Duration
}

// session is a conversation that goes on.
type session struct {
	ticket Ticket
	member views.Member
	stage  stage
	since  time.Duration // of the stage
	heard  time.Duration // when the joiner said something, at last
	turn   uint64        // readied, when it became ready
	probed bool          // its process was reached at its address
	tried  trust.Party   // the process in its place that is being tried, or was
	ready  bool          // it said ready for the view
}

// stage is how far a conversation has come.
type stage uint8

const (
	holding stage = iota // another process has the id or the address
	meeting              // the members of the view are being greeted
	reached              // they have been: a candidate
	probing              // a joiner of which another member decides; its address is being tried
	greeted              // the same, and it was reached
)

func (t *session) applies() bool { return t.stage < probing }

// NewAcceptor begins with the first view that this process is a member of. Rank 0 leads it.
func NewAcceptor(c AcceptorConfig, v *views.View, self order.Rank) *Acceptor {
	if c.Silence == 0 {
		c.Silence = DefaultSilence
	}
	return &Acceptor{config: c, view: v, self: self, absent: probation{unit: c.hold()}}
}

// Ask takes the request that opens a conversation.
func (g *Acceptor) Ask(now time.Duration, t Ticket, q Request) (e Effects) {
	if answer := g.judge(now, q); answer.Verb != "" {
		e.end(t, answer)
		if q.Verb != Inquire && (answer.Verb == sayRefuse || answer.Verb == sayLater) {
			e.tell(refused(q, answer))
		}
		return e
	}
	if len(g.talks) == 0 {
		g.beat = now + g.config.Silence/beats
	}
	one := &session{ticket: t, member: q.Member, stage: probing, since: now, heard: now, probed: !g.config.Probe}
	if q.Verb == Greet {
		g.talks = append(g.talks, one)
		g.greet(one, &e)
		return e
	}
	g.supersede(q.Member, &e)
	one.stage = holding
	g.talks = append(g.talks, one)
	e.tell(Applied{q.Member})
	if g.consider(now, one, &e); one.stage == holding {
		e.say(t, Message{Verb: sayWait})
	}
	g.invariants()
	return e
}

// greet answers a joiner that greets, with this member's word about it, once it was reached.
func (g *Acceptor) greet(t *session, e *Effects) {
	if !t.probed {
		e.Probes = append(e.Probes, Probe{Ticket: t.ticket, Member: t.member})
		return
	}
	t.stage = greeted
	e.say(t.ticket, Message{Verb: sayGreeted, ViewID: g.view.ID, Word: wordOf(g.view, g.view.Members[g.self], t.member)})
}

// Probed takes what came of a probe: nil if the joiner was reached.
func (g *Acceptor) Probed(now time.Duration, t Ticket, err error) (e Effects) {
	one := g.talk(t)
	switch {
	case one == nil || one.probed:
	case err != nil:
		g.dismiss(one, saying(sayLater, "%s was not reached from here: %v", node(one.member.ID, one.member.Addr), err), fmt.Errorf("it was not reached: %w", err), &e)
		g.reconsider(now, &e)
	case one.stage == probing:
		one.probed = true
		g.greet(one, &e)
	default:
		one.probed = true
		g.promote(now, one, &e)
	}
	g.invariants()
	return e
}

// promote makes a joiner a candidate once all checks have passed.
func (g *Acceptor) promote(now time.Duration, t *session, e *Effects) {
	if t.stage != meeting || !t.ready || !t.probed {
		return
	}
	g.readied++
	t.stage, t.since, t.turn, e.Changed = reached, now, g.readied, true
	e.tell(Reached{Member: t.member, View: g.view.ID})
}

// judge is the answer that ends a conversation before it has begun; without a verb, it goes on.
// What will differ for ever is said first.
func (g *Acceptor) judge(now time.Duration, q Request) Message {
	if m := g.judgeRecord(q); m.Verb != "" {
		return m
	}
	switch {
	case g.halted != nil:
		return saying(sayLater, "%v", g.halted)
	case q.Group != "" && q.Group != g.view.Group && q.Verb != Inquire:
		return other(g.view.Group)
	case q.Verb == Inquire:
		return g.member(q)
	case has(g.view, q.Member):
		return g.judgeMember(q)
	case q.Verb == Greet:
		return g.judgeGreeting(now, q)
	case q.Verb == Apply:
		return g.judgeApplication(now, q)
	}
	return saying(sayRefuse, "%v: %q", errOutOfTurn, clip(string(q.Verb)))
}

// member returns the answer to an inquiry: the identity of this group, and a proof that a process
// with the group's secret can verify.
func (g *Acceptor) member(q Request) Message {
	m := Message{Verb: sayMember, Addr: g.leaderAddr(), Group: g.view.Group}
	if !g.view.Secret.IsZero() {
		m.Proof = g.view.Secret.Sum(proofOfMember, []byte(q.Nonce))
	}
	return m
}

// proofOfMember is the use of the secret in the answer to an inquiry.
const proofOfMember = "squall join member"

func (g *Acceptor) judgeRecord(q Request) Message {
	if err := checkMember(q.Member); err != nil {
		return saying(sayRefuse, "%v", err)
	}
	if q.Cluster != g.config.Cluster {
		return saying(sayRefuse, "this is cluster %q, not %q", g.config.Cluster, q.Cluster)
	}
	if q.Member.Incarnation == 0 && q.Verb != Inquire {
		return saying(sayRefuse, "node %d: incarnation 0 is none", q.Member.ID)
	}
	return Message{}
}

// judgeMember answers a member of the view that does not know that it is one: the member that was
// to tell it died, or its conversations broke. Any member that it asks tells it, unless it was
// reported as failed already: then it is taken again when it is out of the view.
func (g *Acceptor) judgeMember(q Request) Message {
	if g.view.ID == firstView && q.Verb == Apply || slices.ContainsFunc(g.failed, func(m views.Member) bool { return sameProcess(m, q.Member) }) {
		return saying(sayLater, "%s is a member of view %d that went away", node(q.Member.ID, q.Member.Addr), g.view.ID)
	}
	return showing(g.view)
}

// Failed takes a member of the view that failed. If it has not shown a heartbeat here since it
// joined, joiners at its address are held back for a while (J12).
func (g *Acceptor) Failed(now time.Duration, m views.Member, absent bool) {
	g.failed = append(g.failed, m)
	i := slices.IndexFunc(g.joined, func(a arrival) bool { return sameProcess(a.member, m) })
	if i < 0 {
		return
	}
	g.joined = slices.Delete(g.joined, i, i+1)
	if absent && !(mutant.Enabled && mutant.On(mutant.NotHeldBack)) {
		g.absent.note(now, m.Addr)
	}
}

// heldBack returns why and for how long a joiner at an address is held back, or nil (J12).
func (g *Acceptor) heldBack(now time.Duration, addr string) error {
	left, why := g.absent.held(now, addr)
	if left == 0 {
		return nil
	}
	return fmt.Errorf("%s: ask again in %v", why, left)
}

// judgeCrowd returns the answer to a joiner whose address is held back, or that comes while there
// are too many conversations; if the answer has no verb, the conversation goes on.
func (g *Acceptor) judgeCrowd(now time.Duration, q Request, alike func(*session) bool) Message {
	if err := g.heldBack(now, q.Member.Addr); err != nil {
		return saying(sayLater, "%v", err)
	}
	if g.count(alike) >= maxTalks {
		return saying(sayLater, "%v: %d", errBusy, maxTalks)
	}
	return Message{}
}

func (g *Acceptor) judgeGreeting(now time.Duration, q Request) Message {
	if m := g.judgeProgram(q); m.Verb != "" {
		return m
	}
	if m := g.judgeCrowd(now, q, func(t *session) bool { return !t.applies() }); m.Verb != "" {
		return m
	}
	return g.roomForOne()
}

// roomForOne returns the answer to a joiner for which this process has no room now; if there is
// room, the answer has no verb.
func (g *Acceptor) roomForOne() Message {
	if g.config.Room != nil {
		if err := g.config.Room(); err != nil {
			return saying(sayLater, "%v", err)
		}
	}
	return Message{}
}

// judgeProgram refuses a process that lacks operations which this member uses (J15). The leader
// judges an application, and every member a greeting, because a member knows only the operations of
// its own shards.
func (g *Acceptor) judgeProgram(q Request) Message {
	if g.config.Admit != nil {
		if err := g.config.Admit(q.Declarations); err != nil {
			return saying(sayRefuse, "%v", err)
		}
	}
	return Message{}
}

func (g *Acceptor) judgeApplication(now time.Duration, q Request) Message {
	if d := views.Difference(g.config.Declarations, q.Declarations); d != "" {
		return saying(sayRefuse, "declarations differ: %s", d)
	}
	switch {
	case g.leader != g.self:
		return Message{Verb: sayRedirect, Addr: g.leaderAddr()}
	case g.full():
		return g.noRoom()
	}
	if m := g.judgeProgram(q); m.Verb != "" {
		return m
	}
	if m := g.judgeCrowd(now, q, (*session).applies); m.Verb != "" {
		return m
	}
	return g.roomForOne()
}

func (g *Acceptor) leaderAddr() string { return g.view.Members[g.leader].Addr }

func (g *Acceptor) full() bool { return len(g.view.Members) >= views.MaxMembers }

func (g *Acceptor) noRoom() Message {
	return saying(sayRefuse, "the group is full: it has %d members", len(g.view.Members))
}

func (g *Acceptor) count(is func(*session) bool) (n int) {
	for _, t := range g.talks {
		if is(t) {
			n++
		}
	}
	return n
}

// supersede ends an earlier application of the same process: it would not ask again if it had not
// given that up.
func (g *Acceptor) supersede(m views.Member, e *Effects) {
	for _, t := range slices.Clone(g.talks) {
		if t.applies() && sameProcess(t.member, m) {
			g.dismiss(t, saying(sayLater, "you asked again"), errAgain, e)
		}
	}
}

var (
	errAgain  = errors.New("it asked again")
	errSilent = errors.New("it fell silent")
	errSlow   = errors.New("it did not reach all members")
	errMoved  = errors.New("it was sent to the leader")
	errBad    = errors.New("it broke the rules")
)

// consider lets an application go on if no process has its id or address, and ends it if one had
// them for too long.
func (g *Acceptor) consider(now time.Duration, t *session, e *Effects) {
	holder, held := g.holder(t)
	absent := g.heldBack(now, t.member.Addr) // it may have waited for the place of a process that did not appear (J12)
	switch {
	case absent != nil && !held:
		g.dismiss(t, saying(sayLater, "%v", absent), absent, e)
	case held && t.stage == holding && now-t.since > g.config.hold():
		g.dismiss(t, saying(sayRefuse, "node id %d and address %s: the place is held by %s",
			t.member.ID, t.member.Addr, node(holder.ID, holder.Addr)), fmt.Errorf("its place is held by %s", node(holder.ID, holder.Addr)), e)
	case held && t.stage != holding:
		g.withdraw(t, e)
		t.stage, t.since = holding, now
		e.say(t.ticket, Message{Verb: sayWait})
		g.tryHolder(t, holder, e)
	case held:
		g.tryHolder(t, holder, e)
	case g.full():
		g.dismiss(t, g.noRoom(), errors.New("the group is full"), e)
	default:
		g.meet(now, t, e)
	}
}

// holder returns the process that has the id or the address of t: a member, or an applicant that
// asked earlier. That process may be an earlier incarnation of the same node, whose place becomes
// free when its failure is detected. A request removes no member: otherwise any process could
// remove a member by a request in the member's name.
func (g *Acceptor) holder(t *session) (views.Member, bool) {
	collides := func(m views.Member) bool { return m.ID == t.member.ID || m.Addr == t.member.Addr }
	if i := slices.IndexFunc(g.view.Members, collides); i >= 0 {
		return g.view.Members[i], true
	}
	for _, other := range g.talks {
		if other == t {
			break
		}
		if other.applies() && collides(other.member) {
			return other.member, true
		}
	}
	return views.Member{}, false
}

// tryHolder has the member tried that has the id or the address of a joiner, once. A member that
// failed is not tried: its place becomes free.
func (g *Acceptor) tryHolder(t *session, holder views.Member, e *Effects) {
	failed := slices.ContainsFunc(g.failed, func(m views.Member) bool { return sameProcess(m, holder) })
	if t.tried == holder.Party() || failed || !has(g.view, holder) {
		return
	}
	t.tried = holder.Party()
	e.Probes = append(e.Probes, Probe{Ticket: t.ticket, Member: holder, Holds: true})
}

// HolderTried takes what came of a probe of the member in whose place a joiner wants to be. If it
// was reached, it is alive, and the joiner is refused at once; otherwise the joiner waits, as it
// does for the process before it, until the member's failure is detected (J13).
func (g *Acceptor) HolderTried(now time.Duration, t Ticket, holder views.Member, err error) (e Effects) {
	one := g.talk(t)
	if one == nil || one.stage != holding || err != nil && !(mutant.Enabled && mutant.On(mutant.HolderPresumedAlive)) {
		return e
	}
	if now, held := g.holder(one); held && sameProcess(now, holder) {
		g.dismiss(one, saying(sayRefuse, "%s", inUse(one.member, holder)), fmt.Errorf("its place is that of %s, which is alive", node(holder.ID, holder.Addr)), &e)
		e.tell(Refused{ID: one.member.ID, Addr: clip(one.member.Addr), Text: inUse(one.member, holder), Final: true})
	}
	g.reconsider(now, &e)
	g.invariants()
	return e
}

// inUse is why a process is refused whose id or address is that of a member that is alive.
func inUse(m, holder views.Member) string {
	if m.ID == holder.ID {
		return fmt.Sprintf("node id %d is in use by the member at %s, which is alive: give this process an id of its own, or stop that member first", m.ID, clip(holder.Addr))
	}
	return fmt.Sprintf("address %s is that of node %d, which is alive: give this process an address of its own, or stop that member first", clip(m.Addr), holder.ID)
}

// meet lists the members that the applicant has to greet. It sends fingerprints in place of their
// incarnations, which only members may know: a process that knows the incarnation of a member could
// greet in that member's name and learn the view.
func (g *Acceptor) meet(now time.Duration, t *session, e *Effects) {
	g.withdraw(t, e)
	t.stage, t.since, t.ready = meeting, now, false
	if !t.probed {
		e.Probes = append(e.Probes, Probe{Ticket: t.ticket, Member: t.member})
	}
	m := Message{Verb: sayMeet, ViewID: g.view.ID, Group: g.view.Group}
	for r, member := range g.view.Members {
		if order.Rank(r) != g.self {
			m.Members = append(m.Members, metAs(member))
		}
	}
	e.say(t.ticket, m)
}

// withdraw notes that a session is about to be no candidate any more.
func (g *Acceptor) withdraw(t *session, e *Effects) { e.Changed = e.Changed || t.stage == reached }

// dismiss ends a conversation with a last word, and tells why.
func (g *Acceptor) dismiss(t *session, word Message, why error, e *Effects) {
	e.end(t.ticket, word)
	g.forget(t, why, e)
}

// forget drops a conversation. A process that only greeted is no news: the member that decides
// about it tells.
func (g *Acceptor) forget(t *session, why error, e *Effects) {
	g.withdraw(t, e)
	g.talks = slices.DeleteFunc(g.talks, func(other *session) bool { return other == t })
	if t.applies() || errors.Is(why, errBad) {
		e.tell(Forgotten{Member: t.member, Err: why})
	}
}

// Hear takes what the joiner says after its request.
func (g *Acceptor) Hear(now time.Duration, t Ticket, m Message) (e Effects) {
	one := g.talk(t)
	if one == nil {
		return e
	}
	one.heard = now
	switch {
	case m.Verb == sayStill:
	case m.Verb == sayReady && one.stage == meeting && (m.ViewID == g.view.ID || mutant.Enabled && mutant.On(mutant.StaleReady)) && !one.ready:
		if by, missing := g.unproved(one.member, m.Words); missing && !(mutant.Enabled && mutant.On(mutant.StaleReady)) {
			g.dismiss(one, saying(sayRefuse, "%v: ready for view %d without the word of node %d", errOutOfTurn, m.ViewID, by.ID), fmt.Errorf("%w: it did not greet node %d", errBad, by.ID), &e)
			g.reconsider(now, &e)
			break
		}
		one.ready = true
		g.promote(now, one, &e)
	case m.Verb == sayReady && one.applies() && 0 < m.ViewID && m.ViewID < g.view.ID:
		// It was said before it heard of this view.
	case m.Verb == sayAbort && one.applies():
		e.hangUp(t)
		g.forget(one, errors.New(clip(m.Text)), &e)
		g.reconsider(now, &e)
	default:
		g.dismiss(one, saying(sayRefuse, "%v: %q", errOutOfTurn, clip(string(m.Verb))), fmt.Errorf("%w: %q", errBad, clip(string(m.Verb))), &e)
		g.reconsider(now, &e)
	}
	g.invariants()
	return e
}

func (g *Acceptor) talk(t Ticket) *session {
	if i := slices.IndexFunc(g.talks, func(one *session) bool { return one.ticket == t }); i >= 0 {
		return g.talks[i]
	}
	return nil
}

// Gone takes the end of a conversation, by whichever side, and its cause.
func (g *Acceptor) Gone(now time.Duration, t Ticket, err error) (e Effects) {
	if one := g.talk(t); one != nil {
		g.forget(one, err, &e)
		g.reconsider(now, &e)
	}
	g.invariants()
	return e
}

// reconsider looks again at the joiners that wait for an id or an address, because a conversation
// or a member has ended.
func (g *Acceptor) reconsider(now time.Duration, e *Effects) {
	for _, t := range slices.Clone(g.talks) {
		if t.stage == holding {
			g.consider(now, t, e)
		}
	}
}

// Candidates are the joiners that may be proposed, in the order in which they became ready. There
// are none but at the leader.
func (g *Acceptor) Candidates() []views.Member {
	var chosen []*session
	for _, t := range g.talks {
		if t.stage == reached {
			chosen = append(chosen, t)
		}
	}
	slices.SortFunc(chosen, func(a, b *session) int { return cmp.Compare(a.turn, b.turn) })
	var members []views.Member
	for _, t := range chosen[:min(len(chosen), views.MaxMembers-len(g.view.Members))] {
		members = append(members, t.member)
	}
	return members
}

// Installed takes a view that was installed here, in place of the one before. It returns the new
// members of whose conversations with this member none is left: they cannot be told, and have
// failed.
func (g *Acceptor) Installed(now time.Duration, v *views.View, self order.Rank) (e Effects, lost []views.Member) {
	before := g.view
	g.view, g.self, g.leader = v, self, 0
	g.joined = slices.DeleteFunc(g.joined, func(a arrival) bool { return now-a.at > arriving*g.config.hold() || !has(v, a.member) })
	for _, m := range v.Members {
		if !has(before, m) {
			g.joined = append(g.joined, arrival{m, now})
		}
		if !has(before, m) && !slices.ContainsFunc(g.talks, func(t *session) bool { return sameProcess(t.member, m) }) {
			lost = append(lost, m)
		}
	}
	g.failed = append(slices.DeleteFunc(g.failed, func(m views.Member) bool { return !has(v, m) }), lost...)
	for _, t := range slices.Clone(g.talks) {
		if has(v, t.member) {
			g.admit(t, &e)
		}
	}
	if g.leader != g.self {
		g.sendAway(&e)
	}
	for _, t := range slices.Clone(g.talks) {
		switch {
		case t.applies():
			g.consider(now, t, &e)
		default:
			g.greetAgain(now, t, &e)
		}
	}
	g.invariants()
	return e, lost
}

// greetAgain gives a joiner that greeted in an earlier view the word for this one, or ends the
// conversation if an earlier process at its address has not appeared since (J12).
func (g *Acceptor) greetAgain(now time.Duration, t *session, e *Effects) {
	if err := g.heldBack(now, t.member.Addr); err != nil {
		g.dismiss(t, saying(sayLater, "%v", err), err, e)
	} else if t.stage == greeted {
		g.greet(t, e)
	}
}

// arriving is for how many times its hold a member counts as one that joined not long ago: it may
// be waited for over several views.
const arriving = 8

// admit tells a joiner the view that it is in.
func (g *Acceptor) admit(t *session, e *Effects) {
	g.withdraw(t, e)
	e.end(t.ticket, showing(g.view))
	g.talks = slices.DeleteFunc(g.talks, func(other *session) bool { return other == t })
	if t.applies() {
		e.tell(Admitted{Member: t.member, View: g.view.ID})
	}
}

// Lead sets the leader. If it is another member, joiners that apply here are redirected to it.
func (g *Acceptor) Lead(leader order.Rank) (e Effects) {
	if g.leader = leader; leader != g.self {
		g.sendAway(&e)
	}
	g.invariants()
	return e
}

func (g *Acceptor) sendAway(e *Effects) {
	for _, t := range slices.Clone(g.talks) {
		if t.applies() {
			g.dismiss(t, Message{Verb: sayRedirect, Addr: g.leaderAddr()}, errMoved, e)
		}
	}
}

// Halted ends everything: this process is a member no more.
func (g *Acceptor) Halted(reason error) (e Effects) {
	g.halted = reason
	for _, t := range slices.Clone(g.talks) {
		g.dismiss(t, saying(sayLater, "%v", reason), reason, &e)
	}
	return e
}

// Tick lets time pass: it shows that this member lives, and ends what takes too long.
func (g *Acceptor) Tick(now time.Duration) (e Effects) {
	for _, t := range slices.Clone(g.talks) {
		switch {
		case now-t.heard > g.config.Silence:
			g.dismiss(t, saying(sayLater, "nothing was heard for %v", g.config.Silence), errSilent, &e)
		case t.stage == meeting && now-t.since > meetSilences*g.config.Silence:
			g.dismiss(t, saying(sayLater, "not all members were greeted within %v", meetSilences*g.config.Silence), errSlow, &e)
		}
	}
	g.reconsider(now, &e)
	if now >= g.beat {
		g.beat = now + g.config.Silence/beats
		for _, t := range g.talks {
			e.say(t.ticket, Message{Verb: sayStill})
		}
	}
	g.invariants()
	return e
}

// Next returns when Tick is due, or false if there is nothing to wait for.
func (g *Acceptor) Next() (time.Duration, bool) { return g.beat, len(g.talks) > 0 }

func (g *Acceptor) invariants() {
	if !invariants.Enabled {
		return
	}
	applying := g.count((*session).applies)
	invariants.Check(applying <= maxTalks && len(g.talks)-applying <= maxTalks, "J9", "%d conversations, %d of them apply", len(g.talks), applying)
	for _, t := range g.talks {
		if t.stage != reached {
			continue
		}
		holder, held := g.holder(t)
		invariants.Check(g.self == g.leader && g.halted == nil, "J6", "%v is a candidate at a member that does not lead", t.member)
		invariants.Check(t.ready && t.probed, "J10", "%v is a candidate: ready %v, reached %v", t.member, t.ready, t.probed)
		invariants.Check(!held, "J8", "%v is a candidate in the place of %v", t.member, holder)
	}
}
