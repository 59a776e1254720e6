package join

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/squall-go/squall/order"
)

// applicantScript plays a script on node 7, which knows nodes 1 and 2. Silence is 4 s, Linger 10 s.
// A verb may have the name of a group behind it.
type applicantScript struct {
	t         *testing.T
	applicant *Joiner
	now       time.Duration
	last      Effects
}

func newApplicantScript(t *testing.T) *applicantScript {
	return &applicantScript{t: t, applicant: NewJoiner(JoinerConfig{
		Cluster: "blue", Self: processOf(t, "7"), Declarations: decls, Join: []string{member(1).Addr, member(2).Addr},
		Expect: 3, Silence: 4 * time.Second, Linger: 10 * time.Second,
	})}
}

func (s *applicantScript) message(words []string) Message {
	verb, group, _ := strings.Cut(words[0], ":")
	m := Message{Verb: Verb(verb), Group: group}
	switch m.Verb {
	case sayGreeted: // in the view that the leader named, or in another one
		if m.Word = "a word"; len(words) > 1 {
			m.ViewID = order.ViewID(number(s.t, words[1]))
		} else if asked := s.applicant.asked; asked != nil {
			m.ViewID = asked.meets
		}
	case sayRedirect:
		m.Addr = member(number(s.t, words[1])).Addr
	case sayMeet:
		m.ViewID = order.ViewID(number(s.t, words[1]))
		for _, id := range words[2:] {
			m.Members = append(m.Members, metAs(processOf(s.t, id)))
		}
	case sayView:
		if len(words) > 1 {
			m.View = viewOf(s.t, number(s.t, words[1]), words[2:]...)
			m.View.Group = group
		}
	}
	return m
}

func (s *applicantScript) step(input string) string {
	s.t.Helper()
	words := strings.Fields(input)
	t := func() Ticket { return Ticket(number(s.t, words[1])) }
	var e Effects
	a := s.applicant
	switch words[0] {
	case "start":
		e = a.Start(s.now)
	case "up":
		e = a.Connected(s.now, t())
	case "gone":
		e = a.Gone(s.now, t(), errors.New("connection refused"))
	case "hear":
		e = a.Hear(s.now, t(), s.message(words[2:]))
	case "after":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now += d
		e = a.Tick(s.now)
	case "itself":
		a.Itself()
	case "outcome":
		return s.outcome()
	default:
		s.t.Fatalf("%q", input)
	}
	s.last = e
	return effectsLine(e)
}

func (s *applicantScript) outcome() string {
	a := s.applicant
	text := "asking"
	switch {
	case a.View() != nil:
		text = "member"
	case a.offer != nil:
		text = "offered"
	case errors.Is(a.Err(), ErrRefused):
		text = "refused"
	case errors.Is(a.Err(), ErrBadView):
		text = "bad view"
	case errors.Is(a.Err(), errItself):
		text = "itself"
	}
	if a.Over() {
		text += ", over"
	}
	return text
}

const joined = `
	start                 => +1@1
	up 1                  => 1:apply
	hear 1 meet 1 2 3     => +2@2 +3@3 Meeting
	up 2                  => 2:greet
	up 3                  => 3:greet
	hear 3 greeted        =>
	hear 2 greeted        => 1:ready(1)
`

const joinedA = `
	start                 => +1@1
	up 1                  => 1:apply
	hear 1 meet:A 1 2     => +2@2 Meeting
	up 2                  => 2:greet
	hear 2 greeted        => 1:ready(1)
	gone 1                => +3@2 AttemptFailed
	up 3                  => 3:apply
`

func TestApplicantScripts(t *testing.T) {
	for name, script := range map[string]string{
		"the leader's view is the end, and the others may still say it": joined + `
			hear 1 view 2 1 2 3 7 => 1! Admitted
			outcome               => member
			after 1s              => 2:still 3:still
			hear 3 view 2 1 2 3 7 => 3!
			hear 2 view 2 1 2 3 7 => 2!
			outcome               => member, over
			after 1h              =>`,
		"a member's view is as good": joined + `
			hear 2 view 2 1 2 3 7 => 2! Admitted
			outcome               => member
			hear 1 view 2 1 2 3 7 => 1!
			gone 3                =>
			outcome               => member, over`,
		"a member that never says it is not waited for": joined + `
			hear 1 view 2 1 2 3 7 => 1! Admitted
			after 3s              => 2:still 3:still
			hear 2 still          =>
			after 3s              => 2:still 3!
			hear 2 still          =>
			after 3s              => 2:still
			hear 2 still          =>
			after 2s              => 2!
			outcome               => member, over`,
		"J15 a member that refuses to be greeted ends it": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 1 2 3     => +2@2 +3@3 Meeting
			up 2                  => 2:greet
			up 3                  => 3:greet
			hear 3 greeted        =>
			hear 2 refuse         => 2! 3! 1!
			outcome               => refused, over`,
		"a member that refuses after ready was said may be too late": joined + `
			hear 2 refuse         => 2!
			outcome               => asking
			hear 1 view 2 1 2 3 7 => 1! Admitted
			outcome               => member`,
		"J7 another view comes first": joined + `
			hear 1 meet 2 3 4     => +4@4 2! Meeting
			up 4                  => 4:greet
			outcome               => asking
			hear 4 greeted        =>
			hear 3 greeted        => 1:ready(2)`,
		"J7 a view without news waits for the words of its members": joined + `
			hear 1 meet 2 3       => 2! Meeting
			hear 3 greeted        => 1:ready(2)`,
		"J7 a member is ahead of the leader": joined + `
			hear 3 greeted 2      =>
			hear 1 meet 2 3       => 1:ready(2) 2! Meeting`,
		"J7 a member is behind": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 2 2       => +2@2 Meeting
			up 2                  => 2:greet
			hear 2 greeted 1      =>
			hear 2 greeted 2      => 1:ready(2)`,
		"a group of one": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 1         => 1:ready(1) Meeting
			hear 1 view 2 1 7     => 1! Admitted
			outcome               => member, over`,
		"a redirect is followed": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 redirect 2     => +2@2 1! Redirected
			up 2                  => 2:apply
			hear 2 wait           => Held
			hear 2 wait           =>
			hear 2 meet 1 1       => +3@1 Meeting`,
		"redirects in a row are bounded": `
			start                 => +1@1
			hear 1 redirect 2     => +2@2 1! Redirected
			hear 2 redirect 1     => +3@1 2! Redirected
			hear 3 redirect 2     => +4@2 3! Redirected
			hear 4 redirect 1     => +5@1 4! Redirected
			hear 5 redirect 2     => +6@2 5! Redirected
			hear 6 redirect 1     => +7@1 6! Redirected
			hear 7 redirect 2     => +8@2 7! Redirected
			hear 8 redirect 1     => +9@1 8! Redirected
			hear 9 redirect 2     => +10@2 9! AttemptFailed`,
		"addresses in turn, with growing pauses": `
			start                 => +1@1
			gone 1                => +2@2 AttemptFailed
			gone 2                => AttemptFailed
			after 49ms            =>
			after 1ms             => +3@1
			gone 3                => +4@2 AttemptFailed
			gone 4                => AttemptFailed
			after 99ms            =>
			after 1ms             => +5@1`,
		"told to ask again": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 later          => +2@2 1! AttemptFailed`,
		"refused is final": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 refuse         => 1!
			outcome               => refused, over
			after 1h              =>`,
		"refused while it greets": joined + `
			hear 1 refuse         => 2! 3! 1!
			outcome               => refused, over`,
		"the first view of the first member": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 wait           => Held
			after 3s              => 1:still
			hear 1 still          =>
			after 3s              => 1:still
			hear 1 view 1 1 2 7   =>
			outcome               => offered, over`,
		"a first view that is none of ours": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 view 1 1 2 8   => 1:abort 1!
			outcome               => bad view, over`,
		"a view without this process": joined + `
			hear 2 view 2 1 2 3   => 2! 3! 1!
			outcome               => bad view, over`,
		"a view with another process of this node": joined + `
			hear 2 view 2 1 2 7.2 => 2! 3! 1!
			outcome               => bad view, over`,
		"no view at all": joined + `
			hear 1 view           => 2! 3! 1!
			outcome               => bad view, over`,
		"an address that says nothing": `
			start                 => +1@1
			up 1                  => 1:apply
			after 3s              => 1:still
			after 2s              => +2@2 1! AttemptFailed
			after 5s              => 2! AttemptFailed`,
		"the first member that falls silent while it holds the place": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 wait           => Held
			after 3s              => 1:still
			after 2s              => +2@2 1! AttemptFailed`,
		"a member that cannot be reached at first": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 1 2       => +2@2 Meeting
			gone 2                =>
			after 50ms            => +3@2
			gone 3                =>
			after 50ms            =>
			after 50ms            => +4@2
			up 4                  => 4:greet
			hear 4 later          => 4!
			after 200ms           => +5@2
			up 5                  => 5:greet
			hear 5 greeted        => 1:ready(1)`,
		"J7 a greeting that breaks is renewed": joined + `
			gone 2                =>
			after 50ms            => +4@2
			up 4                  => 4:greet
			hear 4 greeted        =>
			hear 4 view 2 1 2 7   => 4! Admitted`,
		"J7 a greeting that broke is missed in the next view": joined + `
			gone 2                =>
			hear 1 meet 2 2 3     => Meeting
			hear 3 greeted        =>
			after 50ms            => +4@2
			up 4                  => 4:greet
			hear 4 greeted        => 1:ready(2)`,
		"J7 a greeting of a member's former process is none": joined + `
			gone 1                => +4@2 AttemptFailed
			up 4                  => 4:apply
			hear 4 meet 4 3.2     => +5@3 2! 3! Meeting
			up 5                  => 5:greet
			hear 5 greeted        => 4:ready(4)`,
		"the leader dies before it is ready": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 1 2 3     => +2@2 +3@3 Meeting
			up 2                  => 2:greet
			hear 2 greeted        =>
			gone 1                => +4@2 3! AttemptFailed
			up 4                  => 4:apply
			hear 4 meet 2 3       => +5@3 2! Meeting`,
		"the leader dies, and it is in a view": joined + `
			gone 1                => +4@2 AttemptFailed
			hear 3 view 2 1 2 3 7 => 3! 4! Admitted
			hear 2 view 2 1 2 3 7 => 2!
			outcome               => member, over`,
		"the leader dies, and it is in no view": joined + `
			gone 1                => +4@2 AttemptFailed
			up 4                  => 4:apply
			hear 4 later          => 4! AttemptFailed
			after 1s              => +5@1 2:still 3:still
			gone 5                => +6@2 AttemptFailed
			up 6                  => 6:apply
			hear 6 meet 2 3       => 2! Meeting
			hear 3 greeted        => 6:ready(2)
			hear 6 view 3 2 3 7   => 6! Admitted`,
		"another group has taken the leader's address, and it is in a view": joinedA + `
			hear 3 meet:B 9 3     => 3! AttemptFailed
			hear 2 view:A 2 1 2 7 => 2! Admitted
			outcome               => member, over`,
		"another group forms at the leader's address, and it is in a view": joinedA + `
			hear 3 wait           => Held
			hear 3 view:B 1 3 7   => 3! AttemptFailed
			hear 2 view:A 2 1 2 7 => 2! Admitted
			outcome               => member, over`,
		"another group refuses it, and it is in a view": joinedA + `
			hear 3 refuse         => 3! AttemptFailed
			hear 2 view:A 2 1 2 7 => 2! Admitted
			outcome               => member, over`,
		"another group has taken the leader's address, and it is in no view": joinedA + `
			gone 2                =>
			hear 3 meet:B 9 3     => +4@3 Meeting
			up 4                  => 4:greet
			hear 4 greeted        => 3:ready(9)
			hear 4 view:A 2 1 2 7 => 4!
			hear 3 view:B 10 3 7  => 3! Admitted
			outcome               => member, over`,
		"a group that answers as another one later": joinedA + `
			hear 3 meet:A 2 2     => Meeting
			hear 3 meet:B 3 2     => 3! AttemptFailed`,
		"greetings are not kept for ever": joined + `
			gone 1                => +4@2 AttemptFailed
			up 4                  => 4:apply
			hear 4 wait           => Held
			after 3s              => 2:still 3:still 4:still
			hear 2 still          =>
			hear 4 still          =>
			after 3s              => 2:still 4:still 3!
			hear 2 still          =>
			hear 4 still          =>
			after 4s              => 4:still 2!`,
		"a leader that speaks out of turn": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 install        => +2@2 1! AttemptFailed
			up 2                  => 2:apply
			hear 2 greeted        => 2! AttemptFailed`,
		"a meeting of the same view again": joined + `
			hear 1 meet 1 2 3     => +4@2 1! AttemptFailed`,
		"a meeting with a member twice": `
			start                 => +1@1
			up 1                  => 1:apply
			hear 1 meet 1 2 2     => +2@2 1! AttemptFailed`,
		"a member that speaks out of turn": joined + `
			hear 2 meet 1 2       => 2!
			after 50ms            => +4@2`,
		"the first address leads to itself": `
			start                 => +1@1
			up 1                  => 1:apply
			itself                =>
			hear 1 later          => 1!
			outcome               => itself, over`,
		"the second address leads to itself": `
			start                 => +1@1
			gone 1                => +2@2 AttemptFailed
			up 2                  => 2:apply
			itself                =>
			hear 2 later          => 2! AttemptFailed
			outcome               => asking`,
		"a conversation that it does not know": `
			start                 => +1@1
			up 9                  => 9!
			hear 9 view 2 1 7     =>
			gone 9                =>`,
	} {
		t.Run(name, func(t *testing.T) { play(t, newApplicantScript(t).step, script) })
	}
}

func TestGivingUpSaysWhatWasWaitedFor(t *testing.T) {
	tired := errors.New("tired")
	for name, c := range map[string]struct {
		script string
		names  []string
	}{
		"nothing yet": {"start => +1@1", []string{"10.0.0.1:7000: it has not answered"}},
		"a failure": {`
			start  => +1@1
			gone 1 => +2@2 AttemptFailed`, []string{"10.0.0.1:7000: connection refused"}},
		"held": {`
			start       => +1@1
			up 1        => 1:apply
			hear 1 wait => Held`, []string{"10.0.0.1:7000: it waits for others"}},
		"unreachable": {`
			start             => +1@1
			up 1              => 1:apply
			hear 1 meet 1 2   => +2@2 Meeting
			gone 2            =>`, []string{"node 2 at 10.0.0.2:7000 was not greeted: connection refused"}},
		"ready": {joined, []string{"all members of view 1 were greeted"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newApplicantScript(t)
			play(t, s.step, c.script)
			expectError(t, s.applicant.GivenUp(tired), tired, c.names...)
		})
	}
}

func TestAnApplicantWithoutAnAddressIsRefused(t *testing.T) {
	a := NewJoiner(JoinerConfig{Self: processOf(t, "7"), Join: []string{member(7).Addr}})
	a.Start(0)
	expectError(t, a.Err(), ErrRefused)
}
