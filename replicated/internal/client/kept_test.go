package client

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// kept plays callers of one session, and an object that keeps their replies. Answers come in a
// random order, and the answer to the first number does not come before all others are answered.
// Callers whose command was refused may give up.
type kept struct {
	random   *rand.Rand
	session  Session
	object   machine.Machine
	seq      uint64
	executed map[uint64]int // how often, by number
	number   uint64         // that is being executed
	answers  []answer       // that have not come yet
	waiting  []*CommandID   // refused
	begun    int
	givenUp  map[uint64]bool // numbers
	requests int
	told     int // acknowledgements
}

// answer is an answer to a command, or else to an acknowledgement.
type answer struct {
	command *CommandID
	status  invoke.Status
	ack     Acknowledgement
}

const (
	keptCommands = 300
	keptReply    = machine.MaxKeptBytes / 8
)

// Execute implements machine.Handler.
func (k *kept) Execute(_ *machine.Execution, _, out []byte) ([]byte, bool) {
	k.executed[k.number]++
	return append(out, make([]byte, k.random.IntN(keptReply))...), false
}

func (k *kept) apply(record []byte) (out machine.Result) {
	k.seq++
	k.object.Apply(&machine.Record{View: 1, Seq: k.seq, Sender: 1, Time: 1, Data: record}, k, &out)
	return out
}

func (k *kept) send(c *CommandID) {
	k.requests++
	k.number = c.Number
	out := k.apply(machine.AppendClient(nil, machine.Header{}, c.Session, c.Number, c.Acked))
	k.answers = append(k.answers, answer{command: c, status: out.Status})
}

// look has the commands go on that may.
func (k *kept) look() {
	for i := 0; i < len(k.waiting); i++ {
		c := k.waiting[i]
		switch k.session.Again(c) {
		case Go:
			k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
			i--
			k.send(c)
		case Say:
			a := k.session.Acknowledgement()
			if k.random.IntN(8) == 0 { // it cannot be sent
				k.session.Said(a, false)
				k.session.Retry(c)
				k.waiting = append(k.waiting[:i], k.waiting[i+1:]...)
				i--
				k.send(c)
				continue
			}
			k.told++
			out := k.apply(machine.AppendAcknowledge(nil, machine.Header{}, a.Session, a.Acked, a.Ended))
			k.answers = append(k.answers, answer{status: out.Status, ack: a})
		}
	}
}

// giveUp has a caller give up whose command was refused.
func (k *kept) giveUp() {
	i := k.random.IntN(len(k.waiting))
	c := k.waiting[i]
	k.waiting = slices.Delete(k.waiting, i, i+1)
	k.givenUp[c.Number] = true
	k.session.End(*c)
}

// check compares the commands that the session counts as refused with the calls that wait.
func (k *kept) check() error {
	var want []uint64
	for _, c := range k.waiting {
		want = append(want, c.Number)
	}
	slices.Sort(want)
	if s := &k.session; !slices.Equal(s.refused, want) || s.permits > len(want) {
		return fmt.Errorf("RC7: numbers %d wait; %d count as refused, %d of which may be sent", want, s.refused, s.permits)
	}
	return checkEnded(&k.session)
}

// checkEnded checks that nothing is noted of numbers that are acknowledged or not begun, and that
// the count of the unsaid ones is right.
func checkEnded(s *Session) error {
	count := 0
	for i := range uint64(invoke.MaxOutstanding) {
		switch n := s.acked + 1 + i; s.ended[n%invoke.MaxOutstanding] {
		case open:
			continue
		case unsaid:
			count++
		}
		if n := s.acked + 1 + i; n > s.last {
			return fmt.Errorf("RC2: number %d has ended, and %d is the last one", n, s.last)
		}
	}
	if count != s.unsaid {
		return fmt.Errorf("RC2: %d numbers are unsaid, and %d count", count, s.unsaid)
	}
	return nil
}

// come has one of the answers come. It reports false if the only one left is that to the first
// number.
func (k *kept) come() bool {
	var may []int
	for i, a := range k.answers {
		if a.command == nil || a.command.Number != 1 {
			may = append(may, i)
		}
	}
	if len(may) == 0 {
		return false
	}
	i := may[k.random.IntN(len(may))]
	a := k.answers[i]
	k.answers = append(k.answers[:i], k.answers[i+1:]...)
	switch {
	case a.command == nil:
		k.session.Said(a.ack, k.random.IntN(4) > 0) // the answer may be lost
	case a.status == invoke.Full:
		k.session.Refused(*a.command)
		k.waiting = append(k.waiting, a.command)
	default:
		k.session.End(*a.command)
	}
	return true
}

func playKept(seed uint64) error {
	k := &kept{random: rand.New(rand.NewPCG(seed, 7)), session: NewSession(1, invoke.Token{1}), executed: map[uint64]int{}, givenUp: map[uint64]bool{}}
	k.apply(machine.AppendKnows(nil, machine.Header{}, 7, []string{"op"}))
	k.apply(machine.AppendEnable(nil, machine.Header{}, 1, []string{"op"}))
	k.session.Begin(start)
	k.session.Opened(k.apply(machine.AppendOpen(nil, machine.Header{}, invoke.Token{1}, 1e9, invoke.Owner{})).Session)
	atOnce := 20 + k.random.IntN(100)
	for {
		for k.begun < keptCommands && len(k.answers)+len(k.waiting) < atOnce {
			c, step := k.session.Begin(start)
			if step != Go {
				return fmt.Errorf("number %d waits: step %d", k.begun+1, step)
			}
			k.begun++
			k.send(&c)
		}
		if k.come() {
			if len(k.waiting) > 0 && k.random.IntN(20) == 0 {
				k.giveUp()
			}
			k.look()
			if err := k.check(); err != nil {
				return err
			}
			continue
		}
		if len(k.waiting) == 0 && k.begun == keptCommands {
			break
		}
		return fmt.Errorf("RC7: %d commands wait, and only the answer to the first is awaited", len(k.waiting))
	}
	for n := range uint64(keptCommands) {
		if once := k.executed[n+1] == 1; once == k.givenUp[n+1] {
			return fmt.Errorf("number %d was executed %d times, and given up: %v", n+1, k.executed[n+1], k.givenUp[n+1])
		}
	}
	if most := 4 * keptCommands; k.requests > most || k.requests == keptCommands || k.told == 0 {
		return fmt.Errorf("RC7: %d requests, at most %d, and %d acknowledgements for %d commands, %d of them at a time", k.requests, most, k.told, keptCommands, atOnce)
	}
	return nil
}

// TestRC7RefusedCommandsGoOnWhileAnEarlierOneIsAwaited has commands refused, because the object
// keeps too many replies of those before them.
func TestRC7RefusedCommandsGoOnWhileAnEarlierOneIsAwaited(t *testing.T) {
	for seed := range uint64(50) {
		if err := playKept(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// twoForEach refuses some commands, and ends the accepted ones one after the other.
func twoForEach() error {
	s := NewSession(1, invoke.Token{1})
	s.Begin(start)
	s.Opened(7)
	var all []CommandID
	for range 8 {
		c, _ := s.Begin(start)
		all = append(all, c)
	}
	for _, c := range all[2:] {
		s.Refused(c)
	}
	for i := range 2 {
		s.End(all[i])
		for k := range all[2:] {
			c := all[2+k]
			switch step := s.Again(&c); {
			case k < 2*i: // it goes on already
			case k < 2*i+2 && (step != Go || c.Acked != uint64(i+1)):
				return fmt.Errorf("RC7: after %d have ended, number %d: step %d, %d acknowledged", i+1, c.Number, step, c.Acked)
			case k >= 2*i+2 && step != Wait:
				return fmt.Errorf("RC7: after %d have ended, number %d goes on: step %d", i+1, c.Number, step)
			}
		}
	}
	return nil
}

func TestRC7TwoRefusedCommandsGoOnForEachThatEnds(t *testing.T) {
	if err := twoForEach(); err != nil {
		t.Error(err)
	}
}

// TestASessionThatBecomesIdleAcknowledgesItsReplies touches a session twice after a command.
func TestASessionThatBecomesIdleAcknowledgesItsReplies(t *testing.T) {
	s := NewSession(3, invoke.Token{1})
	s.Begin(start)
	s.Opened(7)
	for range 3 {
		if c, _ := s.Begin(start); c.Number != 2 {
			s.End(c)
		}
	}
	if !s.Idle(start.Add(2)) {
		t.Fatal("the session is not idle")
	}
	if n, step := s.Touch(start); n != 7 || step != Say {
		t.Fatalf("session %d, step %d", n, step)
	}
	a := s.Acknowledgement()
	if bits := binary.LittleEndian.Uint16(append(a.Ended, 0, 0)); a.Session != 7 || a.Acked != 1 || bits != 0b10 {
		t.Errorf("%+v", a)
	}
	s.Said(a, false)
	if n, step := s.Touch(start); n != 7 || step != Say {
		t.Errorf("session %d, step %d: an acknowledgement that failed is not sent again", n, step)
	}
	b := s.Acknowledgement()
	if !slices.Equal(b.Ended, a.Ended) || b.Acked != a.Acked {
		t.Errorf("%+v, and %+v before", b, a)
	}
	s.Said(b, true)
	if n, step := s.Touch(start); n != 7 || step != Go {
		t.Errorf("session %d, step %d: it is acknowledged again", n, step)
	}
}

func TestASessionSendsOneAcknowledgementAtATime(t *testing.T) {
	s := NewSession(3, invoke.Token{1})
	s.Begin(start)
	s.Opened(7)
	s.Begin(start)
	if _, step := s.Touch(start); step != Say {
		t.Fatalf("step %d", step)
	}
	a := s.Acknowledgement()
	s.Begin(start)
	if _, step := s.Touch(start); step != Go {
		t.Errorf("step %d while an acknowledgement is sent", step)
	}
	s.Said(a, true)
	if _, step := s.Touch(start); step != Say {
		t.Errorf("step %d after a command that followed", step)
	}
}

// What a failed acknowledgement named first may be acknowledged by now.
func TestAnAcknowledgementThatFailsNamesNothingThatIsAcknowledged(t *testing.T) {
	s := NewSession(3, invoke.Token{1})
	s.Begin(start)
	s.Opened(7)
	one, _ := s.Begin(start)
	two, _ := s.Begin(start)
	s.End(two)
	a := s.Acknowledgement()
	s.End(one)
	s.Said(a, false)
	if err := checkEnded(&s); err != nil {
		t.Error(err)
	}
}

// A command that goes on without a permit takes one, if all that are refused have one.
func TestACommandThatIsSentAgainLeavesNoPermit(t *testing.T) {
	s := NewSession(3, invoke.Token{1})
	s.Begin(start)
	s.Opened(7)
	one, _ := s.Begin(start)
	two, _ := s.Begin(start)
	three, _ := s.Begin(start)
	s.Begin(start)
	s.Refused(two)
	s.Refused(three)
	s.End(one)
	s.Retry(&three)
	s.Retry(&two)
	if two.Acked != 1 || s.permits != 0 || len(s.refused) != 0 {
		t.Errorf("%d permits are left, %d are refused, %d are acknowledged", s.permits, s.refused, two.Acked)
	}
}
