package join

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/squall-go/squall/fabric/port"
	"github.com/squall-go/squall/internal/invariants"
	"github.com/squall-go/squall/internal/wait"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/trust"
	"github.com/squall-go/squall/views"
)

// JoinerConfig is what a Joiner needs to know.
type JoinerConfig struct {
	Cluster      string
	Self         views.Member
	Declarations []views.Declaration
	Join         []string // addresses to ask, in turn; at least one
	Expect       int      // for the first view only
	Nonce        string   // new for every Joiner: shows it that it asked itself
	// Group and Secret are the identity of the group that this process was a member of; it joins no
	// other group. Empty: it was a member of none.
	Group  string
	Secret views.Secret
	// Silence is how long the other side of a conversation may say nothing at all; 0 is
	// DefaultSilence.
	Silence time.Duration
	// Linger is how long conversations are kept that may have become pointless: after this process
	// became a member, so that the others can see that it lives, and after the leader went away, so
	// that they can say that it is a member already. 0 is four times Silence.
	Linger time.Duration
}

// Joiner is a process that wants to become a member. Connections, messages and time go in, and what
// to do comes out. It is pure. Its life: asking at one address after the other → held → meeting
// (greeting all members) → ready → a member.
type Joiner struct {
	config   JoinerConfig
	addrs    []string // Join without this process's own
	failures []error  // the last one at each of addrs
	at       int      // of addrs, which is asked
	hops     int      // redirects since
	pause    wait.Backoff
	resume   time.Duration // when the next round over addrs begins, if no application is under way
	last     Ticket
	beat     time.Duration

	asked  *call        // the conversation in which this process applies; nil between two
	greets []*call      // with members
	group  string       // of the members that greet
	met    order.ViewID // that they were in, as the latest leader said
	until  time.Duration
	view   *views.View // the end: this process is a member
	offer  *views.View // another end: the first view, which the first member proposed
	err    error       // another end
}

// call is a conversation, from the dialing on.
type call struct {
	ticket  Ticket
	addr    string
	member  Met // the member that it greets
	stage   callStage
	meets   order.ViewID // of the last meet
	heard   time.Duration
	pause   wait.Backoff  // before the next attempt
	resume  time.Duration // when that is
	itself  bool          // it leads back to this process
	refused error         // what the member answered instead of greeted
	word    string        // the member's word that it was greeted
	worded  order.ViewID  // in which view
}

type callStage uint8

const (
	broken  callStage = iota // a greeting that is dialed again at resume
	dialing                  // on its way
	opened                   // the request is said
	waiting                  // another process must come or go first
	meets                    // the members are being greeted
	settled                  // an application: all were greeted, and ready was said. A greeting: it was answered.
)

// pauses are between two rounds over the addresses, and before a member is dialed again.
var pauses = wait.Backoff{First: 50 * time.Millisecond, Longest: time.Second}

// NewJoiner makes an applicant that does nothing before Start.
func NewJoiner(c JoinerConfig) *Joiner {
	if c.Silence == 0 {
		c.Silence = DefaultSilence
	}
	if c.Linger == 0 {
		c.Linger = 4 * c.Silence
	}
	a := &Joiner{config: c, pause: pauses}
	a.addrs = slices.DeleteFunc(slices.Clone(c.Join), func(addr string) bool { return addr == c.Self.Addr })
	a.failures = make([]error, len(a.addrs))
	return a
}

// View is the view in which this process became a member, nil before. Conversations may go on until
// Over.
func (a *Joiner) View() *views.View { return a.view }

// Offer is the first view that the first member proposed, and the conversation in which it did. It
// is the applicant's end: what follows is not its affair.
func (a *Joiner) Offer() (*views.View, Ticket) {
	if a.offer == nil {
		return nil, 0
	}
	return a.offer, a.asked.ticket
}

// Err is why this process will not become a member, whenever it asks. It wraps ErrRefused or
// ErrBadView.
func (a *Joiner) Err() error { return a.err }

// decided reports whether there is nothing left to ask for.
func (a *Joiner) decided() bool { return a.view != nil || a.offer != nil || a.err != nil }

// Over reports whether nothing will come out any more.
func (a *Joiner) Over() bool {
	return a.err != nil || a.offer != nil || a.view != nil && a.asked == nil && len(a.greets) == 0
}

// Start begins.
func (a *Joiner) Start(now time.Duration) (e Effects) {
	a.beat = now + a.config.Silence/beats
	if len(a.addrs) == 0 {
		a.err = fmt.Errorf("join: %w: there is no address to ask but this process's own", ErrRefused)
		return e
	}
	a.ask(now, a.addrs[0], &e)
	return e
}

func (a *Joiner) dial(now time.Duration, c *call, e *Effects) {
	a.last++
	c.ticket, c.stage, c.heard = a.last, dialing, now
	e.Dials = append(e.Dials, Dial{c.ticket, c.addr, c.member})
}

func (a *Joiner) ask(now time.Duration, addr string, e *Effects) {
	a.asked = &call{addr: addr, pause: pauses}
	a.dial(now, a.asked, e)
}

// Connected takes a conversation that was dialed.
func (a *Joiner) Connected(now time.Duration, t Ticket) (e Effects) {
	c := a.call(t)
	if c == nil {
		e.hangUp(t)
		return e
	}
	c.stage, c.heard = opened, now
	q := Request{Verb: Greet, Cluster: a.config.Cluster, Member: a.config.Self, Group: a.config.Group, Declarations: a.config.Declarations}
	if c == a.asked {
		q.Verb, q.Expect, q.Nonce = Apply, a.config.Expect, a.config.Nonce
	}
	e.say(t, q)
	return e
}

// call finds the conversation of a ticket; a greeting that is not being dialed has none.
func (a *Joiner) call(t Ticket) *call {
	if a.asked != nil && a.asked.ticket == t {
		return a.asked
	}
	for _, c := range a.greets {
		if c.ticket == t && c.stage != broken {
			return c
		}
	}
	return nil
}

// Itself says that the request under way came back to this process. It comes before the answer to
// that request.
func (a *Joiner) Itself() {
	if a.asked != nil {
		a.asked.itself = true
	}
}

// Gone takes the end of a conversation, or of the attempt to dial.
func (a *Joiner) Gone(now time.Duration, t Ticket, err error) (e Effects) {
	if c := a.call(t); c != nil {
		a.lose(now, c, err, &e)
	}
	a.invariants()
	return e
}

// Hear takes what the other side says.
func (a *Joiner) Hear(now time.Duration, t Ticket, m Message) (e Effects) {
	c := a.call(t)
	if c == nil || a.offer != nil || a.err != nil {
		return e
	}
	c.heard = now
	switch {
	case m.Verb == sayStill:
	case a.view != nil: // whatever it says, this process is a member: the view, most likely
		e.hangUp(t)
		a.drop(c)
	case m.Verb == sayOther || m.Verb == sayView && a.foreign(m):
		e.hangUp(t)
		a.lose(now, c, a.otherHistory(c, m), &e)
	case m.Verb == sayView && m.View != nil && m.View.ID == firstView && c == a.asked:
		a.propose(c, m.shown(), &e)
	case m.Verb == sayView:
		a.enter(now, c, m.shown(), &e)
	case c == a.asked:
		a.hearLeader(now, c, m, &e)
	default:
		a.hearMember(now, c, m, &e)
	}
	a.invariants()
	return e
}

// foreign reports whether a view is not one of the group that this process is bound to. A process
// that shows one of the group that this process was a member of knows its secret.
func (a *Joiner) foreign(m Message) bool {
	return m.View != nil && (a.foreignGroup(m.View.Group) || a.config.Group != "" && views.NewSecret(m.Secret) != a.config.Secret)
}

// foreignGroup reports whether this process is bound to another group than the given one: to the
// group that it was a member of, or to the group whose members it has greeted. These members may
// have made it a member already, so it applies to no other group while their conversations last.
func (a *Joiner) foreignGroup(group string) bool {
	if a.config.Group != "" {
		return group != a.config.Group
	}
	return len(a.greets) > 0 && group != a.group
}

// otherHistory is what is wrong with another group, or with one that says that it is this process's
// own and does not know its secret.
func (a *Joiner) otherHistory(c *call, m Message) error {
	group := clip(m.Group)
	if m.View != nil {
		group = clip(m.View.Group)
	}
	if a.config.Group == "" {
		return fmt.Errorf("%s: %w: it is group %.64q, and members of group %.64q have greeted this process", c.addr, views.ErrOtherHistory, group, a.group)
	}
	return views.OtherHistory(c.addr, a.config.Group, group)
}

func (a *Joiner) propose(c *call, v *views.View, e *Effects) {
	if err := checkFirst(a.config, v); err != nil {
		e.say(c.ticket, saying(sayAbort, "%v", err))
		a.fail(c, err, e)
		return
	}
	a.offer = v
	a.hangUpGreets(e)
}

// enter is the end: this process is a member. It keeps its conversations, for a while, until each
// member has said so too: one that finds its own broken when it installs the view takes this
// process for failed.
func (a *Joiner) enter(now time.Duration, c *call, v *views.View, e *Effects) {
	if err := checkView(a.config, v); err != nil {
		a.fail(c, err, e)
		return
	}
	e.tell(Admitted{Member: a.config.Self, View: v.ID})
	e.hangUp(c.ticket)
	a.view, a.until = v, now+a.config.Linger
	a.drop(c)
	for _, c := range slices.Clone(a.greets) {
		if c.stage == broken || c.stage == dialing {
			a.discard(c, e)
		}
	}
	if a.asked != nil && a.asked.stage < meets {
		a.discard(a.asked, e)
	}
}

// fail ends all conversations.
func (a *Joiner) fail(c *call, err error, e *Effects) {
	a.err = fmt.Errorf("join: %s: %w", c.addr, err)
	a.hangUpGreets(e)
	if a.asked != nil {
		a.discard(a.asked, e)
	}
}

func (a *Joiner) hangUpGreets(e *Effects) {
	for _, c := range slices.Clone(a.greets) {
		a.discard(c, e)
	}
}

// discard hangs up.
func (a *Joiner) discard(c *call, e *Effects) {
	if c.stage != broken {
		e.hangUp(c.ticket)
	}
	a.drop(c)
}

func (a *Joiner) drop(c *call) {
	if c == a.asked {
		a.asked = nil
	}
	a.greets = slices.DeleteFunc(a.greets, func(other *call) bool { return other == c })
}

// hearLeader is the conversation in which this process applies.
func (a *Joiner) hearLeader(now time.Duration, c *call, m Message, e *Effects) {
	switch m.Verb {
	case sayWait:
		if c.stage != waiting {
			e.tell(Held{c.addr})
		}
		c.stage = waiting
	case sayMeet:
		a.meet(now, c, m, e)
	case sayRedirect:
		a.redirect(now, c, m.Addr, e)
	case sayRefuse:
		if c.meets == 0 && len(a.greets) > 0 { // it may be a member already, and the other process one of another group
			e.hangUp(c.ticket)
			a.lose(now, c, refusal(m), e)
			return
		}
		a.fail(c, refusal(m), e)
	case sayLater:
		e.hangUp(c.ticket)
		a.lose(now, c, later(c, m.Text), e)
	default:
		e.hangUp(c.ticket)
		a.lose(now, c, fmt.Errorf("%w: %q", errOutOfTurn, clip(string(m.Verb))), e)
	}
}

func refusal(m Message) error { return fmt.Errorf("%w: %s", ErrRefused, clip(m.Text)) }

// errItself says that an address leads to this process. If it is the first one, that makes it the
// first member.
var errItself = errors.New("the address leads to this process itself")

func later(c *call, text string) error {
	err := fmt.Errorf("told to ask again: %s", clip(text))
	if c.itself {
		err = errItself
	}
	return err
}

func (a *Joiner) redirect(now time.Duration, c *call, addr string, e *Effects) {
	e.hangUp(c.ticket)
	if _, _, err := net.SplitHostPort(addr); err != nil || len(addr) > views.MaxTextBytes {
		a.lose(now, c, fmt.Errorf("%s redirected to %q: it is no address", c.addr, clip(addr)), e)
		return
	}
	if a.hops == maxRedirects {
		a.lose(now, c, fmt.Errorf("%w: %d, the last to %s", ErrTooManyRedirects, maxRedirects+1, addr), e)
		return
	}
	a.hops++
	e.tell(Redirected{c.addr, addr})
	a.unsettle(now, c, e)
	a.ask(now, addr, e)
}

// meet greets the members of a view, keeps the greetings of members that it shares with the one
// before, and drops the others: that of a member that was started again, too, for its later process
// knows nothing of it.
func (a *Joiner) meet(now time.Duration, c *call, m Message, e *Effects) {
	err := checkMeet(c, m)
	if err == nil && a.foreignGroup(m.Group) {
		err = a.otherHistory(c, m)
	}
	if err == nil && len(a.greets) > 0 && m.Group == a.group && m.ViewID < a.met { // of a member that has not heard of the views since
		err = fmt.Errorf("%w: meet members of view %d after members of view %d", errOutOfTurn, m.ViewID, a.met)
	}
	if err != nil {
		e.hangUp(c.ticket)
		a.lose(now, c, err, e)
		return
	}
	c.stage, c.meets, a.until, a.group, a.met = meets, m.ViewID, 0, m.Group, m.ViewID
	e.tell(Meeting{Addr: c.addr, View: m.ViewID, Members: len(m.Members)})
	for _, old := range slices.Clone(a.greets) {
		if !slices.Contains(m.Members, old.member) {
			a.discard(old, e)
		}
	}
	for _, member := range m.Members {
		if !slices.ContainsFunc(a.greets, func(c *call) bool { return c.member == member }) {
			one := &call{addr: member.Addr, member: member, pause: pauses}
			a.greets = append(a.greets, one)
			a.dial(now, one, e)
		}
	}
	a.settle(now, e)
}

func checkMeet(c *call, m Message) error {
	if m.ViewID <= c.meets || len(m.Members) >= views.MaxMembers {
		return fmt.Errorf("%w: meet %d members of view %d after view %d", errOutOfTurn, len(m.Members), m.ViewID, c.meets)
	}
	for i, member := range m.Members {
		if err := checkMember(member.record()); err != nil {
			return err
		}
		if slices.ContainsFunc(m.Members[:i], func(other Met) bool { return other.ID == member.ID }) {
			return fmt.Errorf("%w: node %d is to be met twice", errOutOfTurn, member.ID)
		}
	}
	return nil
}

// settle says ready once all members were greeted, and said so in the view that was named (J7). One
// that has not installed that view yet, or the next one already, will say so again; or the leader
// will.
func (a *Joiner) settle(now time.Duration, e *Effects) {
	if a.asked == nil || a.asked.stage != meets {
		return
	}
	m := Message{Verb: sayReady, ViewID: a.asked.meets}
	for _, c := range a.greets {
		if c.stage != settled || c.worded != a.asked.meets {
			return
		}
		m.Words = append(m.Words, Word{c.member.ID, c.word})
	}
	a.asked.stage, a.asked.heard = settled, now
	e.say(a.asked.ticket, m)
}

// hearMember is a conversation in which this process greets.
func (a *Joiner) hearMember(now time.Duration, c *call, m Message, e *Effects) {
	if m.Verb == sayGreeted && c.stage >= opened && len(m.Word) <= hex.EncodedLen(wordBytes) {
		c.pause.Reset()
		c.stage, c.refused, c.word, c.worded = settled, nil, m.Word, m.ViewID
		a.settle(now, e)
		return
	}
	if m.Verb == sayRefuse && a.asked != nil && a.asked.stage == meets { // without this member's word it cannot become a member
		a.fail(c, refusal(m), e)
		return
	}
	e.hangUp(c.ticket)
	a.lose(now, c, fmt.Errorf("it said %q: %s", clip(string(m.Verb)), clip(m.Text)), e)
}

// lose takes the end of a conversation that should have gone on.
func (a *Joiner) lose(now time.Duration, c *call, err error, e *Effects) {
	switch {
	case a.decided():
		a.drop(c)
	case c != a.asked:
		a.regreet(now, c, err)
	default:
		a.unsettle(now, c, e)
		a.next(now, c, err, e)
	}
}

// regreet dials a member again after a while. It may be gone: then the leader will name others.
func (a *Joiner) regreet(now time.Duration, c *call, err error) {
	if a.asked == nil || a.asked.stage < waiting {
		a.drop(c) // no application waits for it
		return
	}
	c.stage, c.resume, c.refused = broken, now+c.pause.Next(), err
}

// unsettle ends an application. If it came so far that this process may be in a view already, the
// members that it has greeted will say so, and their conversations are kept for a while.
func (a *Joiner) unsettle(now time.Duration, c *call, e *Effects) {
	a.asked = nil
	if c.meets != 0 {
		a.until = now + a.config.Linger
	}
	for _, g := range slices.Clone(a.greets) {
		if g.stage != settled {
			a.discard(g, e)
		}
	}
}

// next asks at the next address, after a pause if it was the last one.
func (a *Joiner) next(now time.Duration, c *call, err error, e *Effects) {
	if c.itself && a.config.Group == "" && a.hops == 0 && a.at == 0 && a.addrs[0] == a.config.Join[0] {
		a.err = errItself
		a.hangUpGreets(e)
		return
	}
	if a.hops > 0 && !errors.Is(err, ErrTooManyRedirects) {
		err = fmt.Errorf("redirected to %s: %w", c.addr, err)
	}
	a.failures[a.at] = err
	if errors.Is(err, trust.ErrSecret) || !slices.ContainsFunc(a.failures, func(err error) bool { return !port.Final(err) }) {
		a.err = fmt.Errorf("join: %s: %w", a.addrs[a.at], err)
		a.hangUpGreets(e)
		return
	}
	e.tell(AttemptFailed{a.addrs[a.at], err})
	a.hops = 0
	if a.at++; a.at < len(a.addrs) {
		a.ask(now, a.addrs[a.at], e)
		return
	}
	a.at, a.resume = 0, now+a.pause.Next()
}

// Tick lets time pass.
func (a *Joiner) Tick(now time.Duration) (e Effects) {
	if a.err != nil || a.offer != nil {
		return e
	}
	a.listen(now, &e)
	if a.until != 0 && now >= a.until {
		a.until = 0
		a.hangUpGreets(&e)
		if a.view != nil && a.asked != nil {
			a.discard(a.asked, &e)
		}
	}
	for _, c := range a.greets {
		if c.stage == broken && now >= c.resume {
			a.dial(now, c, &e)
		}
	}
	if !a.decided() && a.asked == nil && now >= a.resume {
		a.ask(now, a.addrs[a.at], &e)
	}
	a.live(now, &e)
	a.invariants()
	return e
}

// listen gives up conversations in which nothing is heard.
func (a *Joiner) listen(now time.Duration, e *Effects) {
	silent := func(c *call) bool { return c.stage != broken && now-c.heard > a.config.Silence }
	for _, c := range slices.Clone(a.greets) {
		if silent(c) {
			e.hangUp(c.ticket)
			a.lose(now, c, fmt.Errorf("nothing was heard for %v", a.config.Silence), e)
		}
	}
	if a.asked != nil && silent(a.asked) {
		e.hangUp(a.asked.ticket)
		a.lose(now, a.asked, fmt.Errorf("nothing was heard for %v", a.config.Silence), e)
	}
}

// live shows the others that this process lives.
func (a *Joiner) live(now time.Duration, e *Effects) {
	if now < a.beat {
		return
	}
	a.beat = now + a.config.Silence/beats
	for _, c := range append(slices.Clone(a.greets), a.asked) {
		if c != nil && c.stage >= opened {
			e.say(c.ticket, Message{Verb: sayStill})
		}
	}
}

// Next returns when Tick is due, or false if there is nothing to wait for.
func (a *Joiner) Next() (time.Duration, bool) {
	next := a.beat
	if a.asked == nil && !a.decided() {
		next = min(next, a.resume)
	}
	for _, c := range a.greets {
		if c.stage == broken {
			next = min(next, c.resume)
		}
	}
	return next, !a.Over()
}

// GivenUp is the error of a process that does not want to wait any longer. It names the last
// failure of each address, and where the present attempt stands.
func (a *Joiner) GivenUp(cause error) error {
	text := fmt.Errorf("join: %w", cause)
	for i, addr := range a.addrs {
		last := a.failures[i]
		if i == a.at && a.asked != nil {
			last = a.standing(last)
		}
		if last != nil {
			text = fmt.Errorf("%w; %s: %w", text, addr, last)
		}
	}
	return text
}

// errHeld says that a process holds our place but the view did not come.
var errHeld = errors.New("it waits for others")

// standing says what an application waits for. If it is the first answer, an earlier failure says
// more.
func (a *Joiner) standing(last error) error {
	switch a.asked.stage {
	case waiting:
		return errHeld
	case settled:
		return fmt.Errorf("all members of view %d were greeted, and the next one did not come", a.asked.meets)
	case meets:
		for _, c := range a.greets {
			if c.stage != settled || c.worded != a.asked.meets {
				return fmt.Errorf("%s was not greeted: %w", node(c.member.ID, c.addr), cmp.Or(c.refused, errNoAnswer))
			}
		}
	}
	return cmp.Or(last, errNoAnswer)
}

var errNoAnswer = errors.New("it has not answered")

func (a *Joiner) invariants() {
	if !invariants.Enabled {
		return
	}
	invariants.Check(len(a.greets) < views.MaxMembers, "J9", "%d greetings", len(a.greets))
	if a.asked == nil || a.asked.stage != settled || a.decided() {
		return
	}
	for _, c := range a.greets {
		invariants.Check(c.stage == settled || c.stage == broken || c.stage == dialing || c.stage == opened && c.refused != nil,
			"J7", "ready for view %d, but %v is being greeted for the first time", a.asked.meets, c.member)
	}
}
