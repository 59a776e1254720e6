package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// process is node id, or id.incarnation, at the node's own address.
func processOf(t *testing.T, text string) views.Member {
	t.Helper()
	id, incarnation, restarted := strings.Cut(text, ".")
	n, err := strconv.Atoi(id)
	if err != nil {
		t.Fatal(err)
	}
	m := member(n)
	m.Incarnation = 1
	if restarted {
		if m.Incarnation, err = strconv.ParseUint(incarnation, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// viewOf has the members that are named, in that order.
func viewOf(t *testing.T, id int, members ...string) *views.View {
	t.Helper()
	p := views.Placement{ID: order.ViewID(id), Cluster: "blue", Key: "secret", Declarations: decls}
	for _, m := range members {
		p.Members = append(p.Members, processOf(t, m))
	}
	v, _, err := views.Place(p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ids(members []views.Member) string {
	var out []string
	for _, m := range members {
		out = append(out, fmt.Sprint(m.ID))
	}
	return strings.Join(out, ",")
}

// effectsLine renders effects, so that a script's expectation is one line: "10:meet(2,3)" is said
// in conversation 10, "10!" hangs up, "10?" tries its address, "+10@a:1" dials. Events go by their
// names, a change of the candidates is "changed".
func effectsLine(e Effects) string {
	var out []string
	for _, p := range e.Probes {
		if p.Holds {
			out = append(out, fmt.Sprintf("%d?%d", p.Ticket, p.Member.ID))
			continue
		}
		out = append(out, fmt.Sprintf("%d?", p.Ticket))
	}
	for _, d := range e.Dials {
		out = append(out, fmt.Sprintf("+%d@%s", d.Ticket, strings.TrimSuffix(strings.TrimPrefix(d.Addr, "10.0.0."), ":7000")))
	}
	for _, s := range e.Says {
		out = append(out, fmt.Sprintf("%d:%s", s.To, whatLine(s.What)))
	}
	for _, t := range e.HangUps {
		out = append(out, fmt.Sprintf("%d!", t))
	}
	for _, event := range e.Events {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", event), "join."))
	}
	if e.Changed {
		out = append(out, "changed")
	}
	return strings.Join(out, " ")
}

func whatLine(what any) string {
	switch m := what.(type) {
	case Request:
		if m.Verb == Apply {
			return "apply"
		}
		return string(m.Verb)
	case Message:
		switch m.Verb {
		case sayMeet:
			return fmt.Sprintf("meet(%s)", ids(records(m.Members)))
		case sayView:
			return fmt.Sprintf("view(%d)", m.View.ID)
		case sayRedirect, sayMember:
			return fmt.Sprintf("%s(%s)", m.Verb, strings.TrimSuffix(strings.TrimPrefix(m.Addr, "10.0.0."), ":7000"))
		case sayReady:
			return fmt.Sprintf("ready(%d)", m.ViewID)
		}
		return string(m.Verb)
	}
	return fmt.Sprintf("%T", what)
}

// gateScript plays a script on the gate of node 1 in view 1 of nodes 1, 2 and 3. Silence is 4 s,
// FailAfter 6 s.
type gateScript struct {
	t    *testing.T
	gate *Acceptor
	now  time.Duration
	told []Event
	last Effects
}

func newGateScript(t *testing.T) *gateScript {
	return &gateScript{t: t, gate: NewAcceptor(AcceptorConfig{
		Cluster: "blue", Declarations: decls, FailAfter: 6 * time.Second, Silence: 4 * time.Second,
	}, viewOf(t, 1, "1", "2", "3"), 0)}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *gateScript) request(verb Verb, process string) Request {
	q := Request{Verb: verb, Cluster: "blue", Member: processOf(s.t, process)}
	if verb == Apply {
		q.Declarations = decls
	}
	return q
}

// words returns the words of all other members of the gate's view about a joiner, or words of
// another view, or about another process.
func (s *gateScript) words(joiner views.Member, how string) (words []Word) {
	v := *s.gate.view
	switch how {
	case "old":
		v.ID--
	case "forged":
		v.SetKey("guessed")
	case "stolen":
		joiner.Incarnation++
	}
	for r, m := range v.Members {
		if order.Rank(r) != s.gate.self {
			words = append(words, Word{m.ID, wordOf(&v, m, joiner)})
		}
	}
	if how == "some" {
		words = words[1:]
	}
	return words
}

// step is one line: what happens, and what comes of it.
func (s *gateScript) step(input string) string {
	s.t.Helper()
	words := append(strings.Fields(input), "", "", "", "")
	t := func() Ticket { return Ticket(number(s.t, words[1])) }
	var e Effects
	lost := ""
	switch words[0] {
	case "apply":
		e = s.gate.Ask(s.now, t(), s.request(Apply, words[2]))
	case "greet", "inquire":
		e = s.gate.Ask(s.now, t(), s.request(Verb(words[0]), words[2]))
	case "hear":
		m := Message{Verb: Verb(words[2])}
		if words[3] != "" {
			m.ViewID = order.ViewID(number(s.t, words[3]))
		}
		if one := s.gate.talk(t()); one != nil && m.Verb == sayReady && words[4] != "alone" {
			m.Words = s.words(one.member, words[4])
		}
		e = s.gate.Hear(s.now, t(), m)
	case "gone":
		e = s.gate.Gone(s.now, t(), errGone)
	case "probed":
		e = s.gate.Probed(s.now, t(), nil)
	case "unreached":
		e = s.gate.Probed(s.now, t(), errGone)
	case "alive":
		e = s.gate.HolderTried(s.now, t(), processOf(s.t, words[2]), nil)
	case "dead":
		e = s.gate.HolderTried(s.now, t(), processOf(s.t, words[2]), errGone)
	case "failed":
		s.gate.Failed(s.now, processOf(s.t, words[1]), words[2] == "absent")
	case "view":
		v := viewOf(s.t, number(s.t, words[1]), strings.Fields(input)[2:]...)
		self, _ := v.RankOf(1)
		var members []views.Member
		if e, members = s.gate.Installed(s.now, v, self); len(members) > 0 {
			lost = " lost(" + ids(members) + ")"
		}
	case "lead":
		e = s.gate.Lead(order.Rank(number(s.t, words[1])))
	case "halt":
		e = s.gate.Halted(errors.New("left"))
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now += d
		e = s.gate.Tick(s.now)
	case "candidates":
		return ids(s.gate.Candidates())
	default:
		s.t.Fatalf("%q", input)
	}
	s.last, s.told = e, append(s.told, e.Events...)
	return strings.TrimSpace(effectsLine(e) + lost)
}

// play runs lines of "input => effects".
func play(t *testing.T, step func(string) string, script string) {
	t.Helper()
	for line := range strings.Lines(script) {
		input, want, _ := strings.Cut(strings.TrimSpace(line), "=>")
		if input == "" {
			continue
		}
		if got := step(input); got != strings.TrimSpace(want) {
			t.Fatalf("%s\n got %q\nwant %q", input, got, strings.TrimSpace(want))
		}
	}
}

func TestGateScripts(t *testing.T) {
	for name, script := range map[string]string{
		"a joiner becomes a candidate and is told the view": `
			apply 1 7          => 1:meet(2,3) Applied
			candidates         =>
			hear 1 ready 1     => Reached changed
			candidates         => 7
			view 2 1 2 3 7     => 1:view(2) 1! Admitted changed
			candidates         =>
			after 10s          =>`,
		"one that was greeted by another member is told the view too": `
			lead 1             =>
			greet 1 7          => 1:greeted
			view 2 1 2 3 7     => 1:view(2) 1!`,
		"candidates come in the order in which they became ready": `
			apply 1 7          => 1:meet(2,3) Applied
			apply 2 8          => 2:meet(2,3) Applied
			hear 2 ready 1     => Reached changed
			hear 1 ready 1     => Reached changed
			candidates         => 8,7`,
		"another view comes first, and is met again": `
			apply 1 7          => 1:meet(2,3) Applied
			apply 2 8          => 2:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			view 2 1 2 4       => 1:meet(2,4) 2:meet(2,4) changed lost(4)
			candidates         =>
			hear 2 ready 1     =>
			candidates         =>
			hear 1 ready 2     => Reached changed
			candidates         => 7`,
		"J6 a candidate whose conversation ends is none": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			gone 1             => Forgotten changed
			candidates         =>`,
		"J6 a candidate that falls silent is none": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			after 3s           => 1:still
			after 2s           => 1:later 1! Forgotten changed
			candidates         =>`,
		"one that goes on saying still stays": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			after 3s           => 1:still
			hear 1 still       =>
			after 3s           => 1:still
			hear 1 still       =>
			after 3s           => 1:still
			candidates         => 7`,
		"one that is in a view without being within reach has failed": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			gone 1             => Forgotten changed
			view 2 1 2 3 7     => lost(7)`,
		"a greeting makes up for a broken application": `
			apply 1 7          => 1:meet(2,3) Applied
			gone 1             => Forgotten
			greet 2 7          => 2:greeted
			view 2 1 2 3 7     => 2:view(2) 2!`,
		"another process with the same id does not": `
			greet 2 7.2        => 2:greeted
			view 2 1 2 3 7     => 2:greeted lost(7)
			view 3 1 2 3 7.2   => 2:view(3) 2!`,
		"a member that greets is told the view": `
			greet 1 3          => 1:view(1) 1!`,
		"a member that asks to join is to come again": `
			apply 1 3          => 1:later 1! Refused`,
		"J10 a joiner that greeted nobody is sent away": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1 alone   => 1:refuse 1! Forgotten
			candidates             =>`,
		"J10 one that greeted some of them": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1 some    => 1:refuse 1! Forgotten`,
		"J10 one that shows what it was given in another view": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1 old     => 1:refuse 1! Forgotten`,
		"J10 one that makes up the members' words": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1 forged  => 1:refuse 1! Forgotten`,
		"J10 one that shows what another process was given": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1 stolen  => 1:refuse 1! Forgotten`,
		"who greeted is given the member's word with every view": `
			greet 1 7              => 1:greeted
			view 2 1 2 3 8         => 1:greeted lost(8)`,
		"a member that was never told so asks, and is told": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1         => Reached changed
			view 2 1 2 3 7         => 1:view(2) 1! Admitted changed
			lead 1                 =>
			apply 2 7              => 2:view(2) 2!
			greet 3 7              => 3:view(2) 3!`,
		"J12 a joiner that became a member and did not appear is held back, here and for its later processes": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1         => Reached changed
			view 2 1 2 3 7         => 1:view(2) 1! Admitted changed
			failed 7 absent        =>
			view 3 1 2 3           =>
			apply 2 7              => 2:later 2! Refused
			greet 3 7.2            => 3:later 3! Refused
			apply 4 8              => 4:meet(2,3) Applied
			gone 4                 => Forgotten
			after 10s              =>
			apply 5 7.2            => 5:meet(2,3) Applied`,
		"J12 each time for twice as long, and one that fails in two views counts once": `
			view 2 1 2 3 7         => lost(7)
			failed 7 absent        =>
			view 3 1 2 3 7         =>
			failed 7 absent        =>
			view 4 1 2 3           =>
			after 10s              =>
			view 5 1 2 3 7         => lost(7)
			failed 7 absent        =>
			view 6 1 2 3           =>
			after 10s              =>
			greet 2 7              => 2:later 2! Refused
			after 10s              =>
			greet 3 7              => 3:greeted`,
		"J12 one that waits for the place of an earlier process that does not appear is held back too": `
			view 2 1 2 3 7         => lost(7)
			apply 1 7.2            => 1:wait Applied
			failed 7 absent        =>
			view 3 1 2 3           => 1:later 1! Forgotten
			after 10s              =>
			apply 2 7.2            => 2:meet(2,3) Applied`,
		"J12 one that greeted before an earlier process at its address did not appear is held back too": `
			view 2 1 2 3 7         => lost(7)
			greet 1 7.2            => 1:greeted
			greet 2 8              => 2:greeted
			failed 7 absent        =>
			view 3 1 2 3           => 1:later 2:greeted 1!`,
		"J12 one that appeared, and failed later, is not held back": `
			view 2 1 2 3 7         => lost(7)
			failed 7               =>
			view 3 1 2 3           =>
			apply 2 7              => 2:meet(2,3) Applied`,
		"J12 nor is a member of old that another one cannot hear": `
			failed 3 absent        =>
			view 2 1 2             =>
			apply 2 3.2            => 2:meet(2) Applied`,
		"a member that failed asks, and is to come again": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1         => Reached changed
			gone 1                 => Forgotten changed
			view 2 1 2 3 7         => lost(7)
			apply 2 7              => 2:later 2! Refused
			greet 3 7              => 3:later 3! Refused
			view 3 1 2             =>
			apply 4 7              => 4:meet(2) Applied`,
		"a member that failed later asks, and is to come again": `
			apply 1 7              => 1:meet(2,3) Applied
			hear 1 ready 1         => Reached changed
			view 2 1 2 3 7         => 1:view(2) 1! Admitted changed
			failed 7               =>
			apply 2 7              => 2:later 2! Refused`,
		"the leader is elsewhere": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			greet 2 8          => 2:greeted
			lead 1             => 1:redirect(2) 1! Forgotten changed
			apply 3 7          => 3:redirect(2) 3!
			inquire 4 7        => 4:member(2) 4!
			lead 0             =>
			apply 5 7          => 5:meet(2,3) Applied
			view 2 3 1         => 5:redirect(3) 2:greeted 5! Forgotten`,
		"the id is held by a member that goes": `
			apply 1 3.2        => 1?3 1:wait Applied
			after 3s           => 1:still
			hear 1 still       =>
			view 2 1 2         => 1:meet(2)
			hear 1 ready 2     => Reached changed`,
		"the id is held by a member that stays": `
			apply 1 3.2        => 1?3 1:wait Applied
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 2s           => 1:still
			after 1s           => 1:refuse 1! Forgotten`,
		"J8 two with the same id: the first keeps the place": `
			apply 1 7          => 1:meet(2,3) Applied
			apply 2 7.2        => 2:wait Applied
			hear 1 ready 1     => Reached changed
			candidates         => 7
			view 2 1 2 3 7     => 2?7 1:view(2) 1! Admitted changed
			after 4s           => 2:still
			hear 2 still       =>
			after 4s           => 2:still
			hear 2 still       =>
			after 3s           => 2:refuse 2! Forgotten`,
		"J8 two with the same id: the second follows the first": `
			apply 1 7          => 1:meet(2,3) Applied
			apply 2 7.2        => 2:wait Applied
			apply 3 7.3        => 3:wait Applied
			gone 1             => 2:meet(2,3) Forgotten
			gone 3             => Forgotten
			hear 2 ready 1     => Reached changed`,
		"J8 two with the same id at different members": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			greet 2 7.2        => 2:greeted
			view 2 1 2 3 7.2   => 1?7 2:view(2) 1:wait 2! changed`,
		"the same process asks again": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			apply 2 7          => 1:later 2:meet(2,3) 1! Forgotten Applied changed`,
		"ready before meet is out of turn": `
			apply 1 3.2        => 1?3 1:wait Applied
			hear 1 ready 1     => 1:refuse 1! Forgotten`,
		"ready for a view that does not exist is out of turn": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 2     => 1:refuse 1! Forgotten`,
		"ready twice is out of turn": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			hear 1 ready 1     => 1:refuse 1! Forgotten changed`,
		"a proposal is out of turn": `
			apply 1 7          => 1:meet(2,3) Applied
			apply 2 8          => 2:meet(2,3) Applied
			hear 1 view        => 1:refuse 1! Forgotten
			hear 1 view        =>
			hear 2 ready 1     => Reached changed`,
		"who greets has nothing else to say": `
			greet 1 7          => 1:greeted
			hear 1 still       =>
			hear 1 ready 1     => 1:refuse 1! Forgotten`,
		"a joiner that gives up": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 abort       => 1! Forgotten`,
		"a joiner that does not reach all members": `
			apply 1 7          => 1:meet(2,3) Applied
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 4s           => 1:still
			hear 1 still       =>
			after 1s           => 1:later 1! Forgotten`,
		"a greeting that falls silent is no news": `
			greet 1 7          => 1:greeted
			after 5s           => 1:later 1!
			gone 1             =>`,
		"this process is no member any more": `
			apply 1 7          => 1:meet(2,3) Applied
			hear 1 ready 1     => Reached changed
			greet 2 8          => 2:greeted
			halt               => 1:later 2:later 1! 2! Forgotten changed
			apply 3 7          => 3:later 3! Refused
			greet 4 7          => 4:later 4! Refused
			inquire 5 7        => 5:later 5!
			candidates         =>`,
		"an inquiry costs nothing": `
			inquire 1 7        => 1:member(1) 1!`,
		"what is not known is refused": `
			greet 9 7          => 9:greeted
			gone 9             =>
			hear 9 ready 1     =>
			gone 8             =>`,
	} {
		t.Run(name, func(t *testing.T) { play(t, newGateScript(t).step, script) })
	}
}

// J10: no joiner is proposed, or given a word, before its process answered at its address.
func TestAGateTriesTheAddressesOfJoiners(t *testing.T) {
	for name, script := range map[string]string{
		"ready, then reached": `
			apply 1 7          => 1? 1:meet(2,3) Applied
			hear 1 ready 1     =>
			candidates         =>
			probed 1           => Reached changed
			candidates         => 7`,
		"reached, then ready": `
			apply 1 7          => 1? 1:meet(2,3) Applied
			probed 1           =>
			hear 1 ready 1     => Reached changed
			view 2 1 2         => 1:meet(2) changed
			hear 1 ready 2     => Reached changed`,
		"not reached": `
			apply 1 7          => 1? 1:meet(2,3) Applied
			hear 1 ready 1     =>
			unreached 1        => 1:later 1! Forgotten`,
		"one that waits for its id is tried when it is its turn": `
			apply 1 3.2        => 1?3 1:wait Applied
			view 2 1 2         => 1? 1:meet(2)
			hear 1 ready 2     =>
			probed 1           => Reached changed`,
		"it is gone meanwhile": `
			apply 1 7          => 1? 1:meet(2,3) Applied
			gone 1             => Forgotten
			probed 1           =>`,
		"ready twice": `
			apply 1 7          => 1? 1:meet(2,3) Applied
			hear 1 ready 1     =>
			hear 1 ready 1     => 1:refuse 1! Forgotten`,
		"one that greets is answered when it was reached": `
			greet 1 7          => 1?
			view 2 1 2         =>
			probed 1           => 1:greeted
			probed 1           =>`,
		"one that greets is not reached": `
			greet 1 7          => 1?
			unreached 1        => 1:later 1!`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newGateScript(t)
			s.gate.config.Probe = true
			play(t, s.step, script)
		})
	}
}

func TestAGateNamesTheReasonOfARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Request)
		verb  Verb
		names []string
	}{
		"cluster":      {func(q *Request) { q.Cluster = "green" }, sayRefuse, []string{`"blue"`, `"green"`}},
		"declarations": {func(q *Request) { q.Declarations = q.Declarations[:1] }, sayRefuse, []string{`"audit"`}},
		"id 0":         {func(q *Request) { q.Member.ID = 0 }, sayRefuse, []string{"id 0"}},
		"incarnation":  {func(q *Request) { q.Member.Incarnation = 0 }, sayRefuse, []string{"incarnation 0"}},
		"address":      {func(q *Request) { q.Member.Addr = "nowhere" }, sayRefuse, []string{"nowhere"}},
		"too long":     {func(q *Request) { q.Member.SHM = strings.Repeat("x", 1000) }, sayRefuse, []string{"longer than 256"}},
		"verb":         {func(q *Request) { q.Verb = "proposal" }, sayRefuse, []string{"out of turn", "proposal"}},
		"member":       {func(q *Request) { q.Member = viewOf(t, 1, "3").Members[0] }, sayLater, []string{"node 3 at", "view 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGateScript(t)
			q := s.request(Apply, "7")
			c.spoil(&q)
			e := s.gate.Ask(0, 1, q)
			m, ok := e.Says[0].What.(Message)
			if !ok || m.Verb != c.verb || len(e.Says) != 1 || len(e.HangUps) != 1 || len(e.Events) != 1 || len(s.gate.talks) != 0 {
				t.Fatalf("%+v", e)
			}
			for _, part := range c.names {
				if !strings.Contains(m.Text, part) {
					t.Errorf("%q does not name %s", m.Text, part)
				}
			}
		})
	}
}

func TestARefusedPlaceIsNamedWithItsHolder(t *testing.T) {
	s := newGateScript(t)
	s.step("apply 1 3.2")
	for range 11 {
		s.step("hear 1 still")
		s.step("after 1s")
	}
	m := s.last.Says[0].What.(Message)
	if m.Verb != sayRefuse || !strings.Contains(m.Text, "held by node 3 at 10.0.0.3:7000") {
		t.Fatalf("%+v", m)
	}
}

func full(t *testing.T, id, n int) *views.View {
	var members []string
	for i := 1; i <= n; i++ {
		members = append(members, strconv.Itoa(i))
	}
	return viewOf(t, id, members...)
}

func TestAFullGroupRefuses(t *testing.T) {
	s := newGateScript(t)
	play(t, s.step, `
		apply 1 101    => 1:meet(2,3) Applied
		apply 2 102    => 2:meet(2,3) Applied
		apply 3 103    => 3:meet(2,3) Applied`)
	s.gate.Installed(0, full(t, 2, 62), 0)
	play(t, s.step, `
		hear 1 ready 2 => Reached changed
		hear 2 ready 2 => Reached changed
		hear 3 ready 2 => Reached changed
		candidates     => 101,102`) // there is no room for more
	e, _ := s.gate.Installed(0, full(t, 3, 64), 0)
	if got := effectsLine(e); got != "1:refuse 2:refuse 3:refuse 1! 2! 3! Forgotten Forgotten Forgotten changed" {
		t.Fatal(got)
	}
	if m := e.Says[0].What.(Message); !strings.Contains(m.Text, "64 members") {
		t.Fatal(m.Text)
	}
	play(t, s.step, "apply 4 104 => 4:refuse 4! Refused")
}

// J9.
func TestConversationsAreBoundedAndTheNewestIsTurnedAway(t *testing.T) {
	s := newGateScript(t)
	for i := 1; i <= maxTalks; i++ {
		s.gate.Ask(0, Ticket(i), s.request(Greet, fmt.Sprint(100+i)))
		s.gate.Ask(0, Ticket(1000+i), s.request(Apply, fmt.Sprint(1000+i)))
	}
	play(t, s.step, `
		apply 5000 5000 => 5000:later 5000! Refused
		greet 5001 5001 => 5001:later 5001! Refused
		gone 1          =>
		greet 5001 5001 => 5001:greeted
		gone 1001       => Forgotten
		apply 5000 5000 => 5000:meet(2,3) Applied`)
	if len(s.gate.talks) != 2*maxTalks {
		t.Fatalf("%d conversations", len(s.gate.talks))
	}
}

// A process that knows a member's incarnation could greet in its name, and be told the view with
// its key.
func TestIncarnationsAreNotToldToJoiners(t *testing.T) {
	s := newGateScript(t)
	s.step("apply 1 7")
	meet := s.last.Says[0].What.(Message)
	text, err := json.Marshal(meet)
	if err != nil || strings.Contains(string(text), "incarnation") || metAs(processOf(t, "2")).Fingerprint.IsZero() {
		t.Fatalf("%s, %v", text, err)
	}
	play(t, s.step, "greet 2 3.2 => 2:greeted") // a wrong one is not told the view
}

func TestAGateWithoutConversationsNeedsNoTime(t *testing.T) {
	s := newGateScript(t)
	if _, due := s.gate.Next(); due {
		t.Fatal("it wants to be called")
	}
	s.step("greet 1 7")
	if at, due := s.gate.Next(); !due || at != time.Second {
		t.Fatalf("%v, %v", at, due)
	}
	s.step("gone 1")
	if _, due := s.gate.Next(); due {
		t.Fatal("it wants to be called")
	}
}

func TestAJoinerForWhomAMemberHasNoRoomIsToldToWait(t *testing.T) {
	s := newGateScript(t)
	full := errors.New("no descriptors")
	var room error
	s.gate.config.Room = func() error { return room }
	for _, verb := range []Verb{Apply, Greet} {
		room = full
		e := s.gate.Ask(0, 10, s.request(verb, "4"))
		if len(e.Says) != 1 || e.Says[0].What.(Message).Verb != sayLater || e.Says[0].What.(Message).Text != full.Error() || len(e.HangUps) != 1 {
			t.Errorf("%q: %s", verb, effectsLine(e))
		}
		room = nil
		if e = s.gate.Ask(0, 11, s.request(verb, "4")); len(e.HangUps) != 0 {
			t.Errorf("%q: %s", verb, effectsLine(e))
		}
	}
}
