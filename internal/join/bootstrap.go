package join

import (
	"errors"
	"fmt"
	"slices"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// firstView is the id of the view that is formed here.
const firstView order.ViewID = 1

// phase is how far the attempt has come. It only grows, and installed and failed are its two ends.
type phase uint8

const (
	gathering phase = iota // places are free
	proposed               // the View was sent
	installed              // every member is ready
	failed                 // given up; cause says why
)

// self is the first member's own ticket.
const self Ticket = 0

// slot is a place in the first view, in the order of rank.
type slot struct {
	ticket Ticket
	member views.Member
	ready  bool
}

// bootstrap is the first member's decision: requests and failures go in, in order, and the messages
// to send come out. It is pure.
type bootstrap struct {
	cluster string
	key     string // of the view: a process that shows it got it from the first member
	group   string
	secret  views.Secret // of the group
	expect  int
	decls   []views.Declaration
	layouts map[string]views.Layout
	phase   phase
	seats   []slot      // the first member's first (J1)
	view    *views.View // from proposed on
	unmet   []views.Unmet
	cause   error // when failed
}

// over reports whether the attempt has ended.
func (r *bootstrap) over() bool { return r.phase == installed || r.phase == failed }

// effects is what the world must do now, in order.
type effects struct {
	sends  []send
	events []Event
}

type send struct {
	to  Ticket
	msg Message
}

func (e *effects) say(to Ticket, m Message) { e.sends = append(e.sends, send{to, m}) }
func (e *effects) tell(event Event)         { e.events = append(e.events, event) }

func newBootstrap(c Config) *bootstrap {
	return &bootstrap{cluster: c.Cluster, expect: c.Expect, decls: c.Declarations, layouts: c.Layouts, seats: []slot{{ticket: self, member: c.Self}}}
}

// ask decides about a request.
func (r *bootstrap) ask(t Ticket, q Request) (e effects) {
	answer := r.judge(q)
	if answer.Verb != sayWait {
		e.say(t, answer)
		if q.Verb == Apply {
			e.tell(refused(q, answer))
		}
		return e
	}
	r.seats = append(r.seats, slot{ticket: t, member: q.Member})
	e.tell(JoinRequested{Member: q.Member, Asked: len(r.seats), Expect: r.expect})
	e.say(t, answer)
	r.propose(&e)
	return e
}

func refused(q Request, answer Message) Refused {
	return Refused{ID: q.Member.ID, Addr: clip(q.Member.Addr), Text: answer.Text, Final: answer.Verb != sayLater}
}

// judge returns the answer to a request. It checks permanent differences first, so that no joiner
// waits only to be refused.
func (r *bootstrap) judge(q Request) Message {
	if err := checkMember(q.Member); err != nil {
		return saying(sayRefuse, "%v", err)
	}
	if q.Cluster != r.cluster {
		return saying(sayRefuse, "this is cluster %q, not %q", r.cluster, q.Cluster)
	}
	if q.Verb != Apply {
		return saying(sayLater, "there is no group yet")
	}
	if q.Group != "" {
		return other(r.group) // which begins now
	}
	switch r.phase {
	case proposed, installed: // from then on a Server takes the requests, in a moment
		return saying(sayLater, "the first view is being installed: %s", roster(r.view.Members))
	case failed:
		return saying(sayLater, "%v", r.cause)
	}
	if q.Expect != r.expect {
		return saying(sayRefuse, "the bootstrapping node expects %d members, node %d expects %d", r.expect, q.Member.ID, q.Expect)
	}
	if d := views.Difference(r.decls, q.Declarations); d != "" {
		return saying(sayRefuse, "declarations differ: %s", d)
	}
	if holder, ok := r.conflict(q.Member); ok {
		verb := sayRefuse
		if holder.ID == q.Member.ID && holder.Addr == q.Member.Addr && holder.ID != r.seats[0].member.ID {
			verb = sayLater
		}
		return saying(verb, "node id %d and address %s: the place is held by %s", q.Member.ID, q.Member.Addr, node(holder.ID, holder.Addr))
	}
	return Message{Verb: sayWait}
}

// conflict returns the member that has the id or the address of m. If that member has both, m may
// be a new incarnation of the same node, whose old connection the first member has not seen break
// yet. Then m is asked to try again later, and does not take the place: otherwise a process with
// access to the first member could remove a member by a request in the member's name. A new
// incarnation of the first member cannot reach its old one this way.
func (r *bootstrap) conflict(m views.Member) (views.Member, bool) {
	for _, s := range r.seats {
		if s.member.ID == m.ID || s.member.Addr == m.Addr {
			return s.member, true
		}
	}
	return views.Member{}, false
}

var errOutOfTurn = errors.New("it spoke out of turn")

// propose makes the View when every place is taken.
func (r *bootstrap) propose(e *effects) {
	if len(r.seats) < r.expect {
		return
	}
	view, unmet, err := views.Place(views.Placement{ID: firstView, Cluster: r.cluster, Key: r.key, Group: r.group, Secret: r.secret, Members: r.members(), Declarations: r.decls, Layouts: r.layouts})
	if err != nil {
		r.phase, r.cause = failed, fmt.Errorf("join: %s cannot form the declared view: %w", roster(r.members()), err)
		e.tell(Aborted{r.cause})
		r.broadcast(e, saying(sayRefuse, "%v", r.cause))
		return
	}
	r.phase, r.view, r.unmet = proposed, view, unmet
	e.tell(ViewProposed{view})
	r.broadcast(e, showing(view))
}

func (r *bootstrap) members() []views.Member {
	var members []views.Member
	for _, s := range r.seats {
		members = append(members, s.member)
	}
	return members
}

// broadcast says m to all joiners.
func (r *bootstrap) broadcast(e *effects, m Message) {
	for _, s := range r.seats {
		if s.ticket != self {
			e.say(s.ticket, m)
		}
	}
}

func (r *bootstrap) seat(t Ticket) *slot {
	for i := range r.seats {
		if r.seats[i].ticket == t {
			return &r.seats[i]
		}
	}
	return nil
}

// ready notes that a member's links stand, and installs with the last one (J3). A joiner says it
// once, after the View.
func (r *bootstrap) ready(t Ticket) (e effects) {
	s := r.seat(t)
	if s == nil {
		return e
	}
	if t != self && (r.phase == gathering || r.phase == proposed && s.ready) {
		return r.fail(t, errOutOfTurn)
	}
	s.ready = true
	if r.phase == proposed && !slices.ContainsFunc(r.seats, func(s slot) bool { return !s.ready }) {
		r.phase = installed
		e.tell(ViewInstalled{r.view})
		r.broadcast(&e, Message{Verb: sayInstall})
	}
	return e
}

// fail is the end of a member's part: its connection broke, it reported an error, or it broke the
// rules.
func (r *bootstrap) fail(t Ticket, err error) (e effects) {
	s := r.seat(t)
	switch {
	case s == nil || r.over():
	case r.phase == proposed:
		who := node(s.member.ID, s.member.Addr)
		r.phase, r.cause = failed, fmt.Errorf("join: %w: %s: %w", ErrAborted, who, err)
		e.tell(Aborted{r.cause})
		r.broadcast(&e, saying(sayAbort, "%s: %v", who, err))
	case t == self:
		r.phase, r.cause = failed, fmt.Errorf("join: %d of %d members asked (%s): %w", len(r.seats), r.expect, roster(r.members()), err)
		e.tell(Aborted{r.cause})
		r.broadcast(&e, saying(sayLater, "the bootstrapping node gave up: %v", err))
	default:
		e.tell(Forgotten{Member: s.member, Err: err})
		e.say(t, saying(sayRefuse, "%v", err))
		r.seats = slices.DeleteFunc(r.seats, func(s slot) bool { return s.ticket == t })
	}
	return e
}
