package machine_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/views"
)

// bulky executes commands that say in their arguments how much they emit, send or return: pairs of
// a letter and four bytes.
type bulky struct {
	*machine.Machine
	emitted  func(topic string, bytes int)
	sent     func(to machine.Destination, bytes int, ok bool)
	executed int
}

func (b *bulky) Execute(_ *machine.Execution, args, out []byte) ([]byte, bool) {
	b.executed++
	for ; len(args) > 0; args = args[5:] {
		n := int(binary.LittleEndian.Uint32(args[1:]))
		switch args[0] {
		case 'e':
			view, seq := b.At()
			b.Emit(view, seq, "topic", make([]byte, n))
			b.emitted("topic", n)
		case 's', 't':
			to := machine.Destination{Kind: machine.ToObject, Name: string(args[:1])}
			b.sent(to, n, b.Send(to, "op", zeros[:n]))
		case 'r':
			out = append(out, zeros[:n]...)
		}
	}
	return out, false
}

var zeros = make([]byte, machine.MaxEventBytes+1)

func bulk(args []byte, kind byte, n int) []byte {
	return binary.LittleEndian.AppendUint32(append(args, kind), uint32(n))
}

// enable makes an operation of a machine ready to be executed.
func enable(m *machine.Machine, h machine.Handler) {
	for _, r := range [][]byte{machine.AppendKnows(nil, machine.Header{}, 7, []string{"op"}), machine.AppendEnable(nil, machine.Header{}, 1, []string{"op"})} {
		m.Apply(&machine.Record{View: 1, Sender: 1, Data: r}, h, new(machine.Result))
	}
}

// fillings is what the machine should keep: all that was emitted, and what was sent and not
// forwarded.
type fillings struct {
	events []invoke.Event
	outbox map[machine.Destination][]machine.Sent
}

// kept returns the events that fit, and the cursor of the last one that does not.
func (f *fillings) kept() (kept []invoke.Event, dropped invoke.Cursor) {
	size := 0
	for i := len(f.events) - 1; i >= 0; i-- {
		if size += 64 + len(f.events[i].Topic) + len(f.events[i].Data); size > machine.MaxEventBytes && i < len(f.events)-1 {
			return f.events[i+1:], f.events[i].Cursor
		}
	}
	return f.events, invoke.Cursor{}
}

func (f *fillings) outboxBytes() (n int) {
	for _, all := range f.outbox {
		for _, s := range all {
			n += 64 + len(s.Operation) + len(s.Data)
		}
	}
	return n
}

// TestEventsAndOutboxesAreWhatWasEmittedAndSentUpToTheirBounds applies random commands that emit
// and send much, in messages of several records and in views that begin at the same positions, and
// compares the machine with a list of all of it. The machine is encoded and decoded now and then.
func TestEventsAndOutboxesAreWhatWasEmittedAndSentUpToTheirBounds(t *testing.T) {
	full, dropping := 0, 0
	for seed := range testutil.Seeds[uint64](2, 6) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		m := &machine.Machine{}
		want := &fillings{outbox: map[machine.Destination][]machine.Sent{}}
		at, index, emitted := invoke.Cursor{View: 1}, uint64(0), uint64(0)
		b := &bulky{Machine: m}
		b.emitted = func(topic string, n int) {
			emitted++
			want.events = append(want.events, invoke.Event{Cursor: invoke.Cursor{View: at.View, Seq: at.Seq, Index: emitted}, Topic: topic, Data: zeros[:n]})
		}
		b.sent = func(to machine.Destination, n int, ok bool) {
			if fits := want.outboxBytes()+64+len("op")+n <= machine.MaxOutboxBytes; ok != fits {
				t.Fatalf("seed %d, %v: %d bytes are sent: %v, with %d kept", seed, at, n, ok, want.outboxBytes())
			}
			if !ok {
				full++
				return
			}
			index++
			want.outbox[to] = append(want.outbox[to], machine.Sent{Cursor: invoke.Cursor{View: at.View, Seq: at.Seq, Index: index}, Operation: "op", Data: zeros[:n]})
		}
		enable(m, b)
		for range 120 {
			if rnd.IntN(4) == 0 {
				at.View++ // the position may be that of the message before
			} else {
				at.Seq++
			}
			index, emitted = 0, 0
			for range 1 + rnd.IntN(3) {
				var args []byte
				for range rnd.IntN(4) {
					size := rnd.IntN(1 << 9)
					if rnd.IntN(3) == 0 {
						size <<= 11
					}
					kind := "este"[rnd.IntN(4)]
					if seed%2 == 0 { // what is kept reaches the bounds exactly
						size = (1+rnd.IntN(4))<<18 - 64 - map[byte]int{'e': len("topic"), 's': len("op"), 't': len("op")}[kind]
					}
					if kind == 'e' && rnd.IntN(40) == 0 { // an event that is kept alone
						size = machine.MaxEventBytes - 64 - len("topic") + 1
					}
					args = bulk(args, kind, size)
				}
				data := append(machine.AppendCommand(nil, machine.Header{}), args...)
				m.Apply(&machine.Record{View: at.View, Seq: at.Seq, Sender: 1, Data: data}, b, new(machine.Result))
			}
			if rnd.IntN(4) == 0 {
				to := machine.Destination{Kind: machine.ToObject, Name: "st"[rnd.IntN(2):][:1]}
				if all := want.outbox[to]; len(all) > 0 {
					n := rnd.IntN(len(all))
					at.Seq++
					m.Apply(&machine.Record{View: at.View, Seq: at.Seq, Sender: 1, Data: machine.AppendHanded(nil, machine.Header{}, to, all[n].Cursor)}, b, new(machine.Result))
					if want.outbox[to] = all[n+1:]; n+1 == len(all) {
						delete(want.outbox, to)
					}
				}
			}
			if rnd.IntN(4) == 0 {
				again := &machine.Machine{}
				if err := again.Decode(m.Append(nil)); err != nil {
					t.Fatal(err)
				}
				m, b.Machine = again, again
			}
			events, dropped := want.kept()
			if dropped != (invoke.Cursor{}) {
				dropping++
			}
			for i, e := range want.events[max(0, len(want.events)-len(events)-2):] {
				got, ok := m.Events(e.Cursor)
				rest := slices.IndexFunc(events, func(x invoke.Event) bool { return e.Cursor.Less(x.Cursor) })
				if rest < 0 {
					rest = len(events)
				}
				if whole := !e.Cursor.Less(dropped); ok != whole || ok && len(got) != len(events)-rest {
					t.Fatalf("seed %d, event %d: behind %v are %d events, %v; %d are kept, the last one dropped is %v", seed, i, e.Cursor, len(got), ok, len(events), dropped)
				}
			}
			if _, ok := m.Events(invoke.Cursor{}); ok != (dropped == invoke.Cursor{}) {
				t.Fatalf("seed %d: all events are there: %v, the last one dropped is %v", seed, ok, dropped)
			}
			if got := m.Destinations(nil); len(got) != len(want.outbox) {
				t.Fatalf("seed %d, %v: destinations %v", seed, at, got)
			}
			for to, all := range want.outbox {
				if got := m.Outgoing(to, invoke.Cursor{}); !slices.EqualFunc(got, all, func(x, y machine.Sent) bool { return x.Cursor == y.Cursor && len(x.Data) == len(y.Data) }) {
					t.Fatalf("seed %d, %v: to %s go %d items, want %d", seed, at, to.Name, len(got), len(all))
				}
			}
		}
	}
	if full < 50 || dropping < 200 {
		t.Errorf("an outbox was full %d times, and events were dropped at %d looks: the bounds are not tested", full, dropping)
	}
}

// sessions applies records of clients to a machine.
type sessions struct {
	machine.Machine
	t    *testing.T
	seq  uint64
	last uint32
	view uint64
	time uint64
}

func newSessions(t *testing.T) (*sessions, *bulky) {
	s := &sessions{t: t, view: 1, time: 1}
	b := &bulky{Machine: &s.Machine}
	enable(&s.Machine, b)
	return s, b
}

func (s *sessions) apply(data []byte, h machine.Handler) (out machine.Result) {
	s.seq++
	s.Apply(&machine.Record{View: s.view, Seq: s.seq, Sender: 1, Time: s.time, Data: data}, h, &out)
	return out
}

// open opens another session of an account.
func (s *sessions) open(account string, timeout uint64) machine.Result {
	s.last++
	var token invoke.Token
	binary.LittleEndian.PutUint32(token[:], s.last)
	return s.apply(machine.AppendOpen(nil, machine.Header{}, token, timeout, invoke.Owner{Account: account, Identity: "ann"}), nil)
}

func (s *sessions) mustOpen(account string) uint64 {
	s.t.Helper()
	r := s.open(account, machine.MaxTimeout)
	if r.Status != invoke.Done || r.Session == 0 {
		s.t.Fatalf("session %d of %s: %v", s.last, account, r.Status)
	}
	return r.Session
}

func (s *sessions) decoded() *sessions {
	s.t.Helper()
	d := &sessions{t: s.t, seq: s.seq, last: s.last, view: s.view, time: s.time}
	if err := d.Decode(s.Append(nil)); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// TestAnAccountHasHalfOfTheSessions opens sessions to the bounds.
func TestAnAccountHasHalfOfTheSessions(t *testing.T) {
	s, _ := newSessions(t)
	var one uint64
	for range machine.MaxSessions / 2 {
		one = s.mustOpen("host 1")
	}
	s = s.decoded()
	if r := s.open("host 1", 1); r.Status != invoke.Crowded {
		t.Errorf("one more session of an account: %v", r.Status)
	}
	for i := range machine.MaxSessions / 2 {
		s.mustOpen(fmt.Sprint("host ", 2+i%2))
	}
	s = s.decoded()
	if r := s.open("host 4", 1); r.Status != invoke.Crowded || s.Sessions() != machine.MaxSessions {
		t.Errorf("one more session: %v, of %d", r.Status, s.Sessions())
	}
	if r := s.apply(machine.AppendClose(nil, machine.Header{}, one), nil); r.Status != invoke.Done {
		t.Fatal(r.Status)
	}
	s.mustOpen("host 1")
	s.time += machine.MaxTimeout
	s.apply(machine.AppendTouch(nil, machine.Header{}, nil), nil)
	if s.Sessions() != 0 {
		t.Fatalf("%d sessions are left", s.Sessions())
	}
	for range machine.MaxSessions / 2 {
		s.mustOpen("host 1")
	}
}

func (s *sessions) call(h machine.Handler, session, number, acked uint64, replyBytes int) machine.Result {
	args := bulk(nil, 'r', replyBytes)
	return s.apply(append(machine.AppendClient(nil, machine.Header{}, session, number, acked), args...), h)
}

// TestRepliesThatAreTooLargeAreNotKept has sessions keep replies to the bounds of a reply, an
// account and an object.
func TestRepliesThatAreTooLargeAreNotKept(t *testing.T) {
	s, b := newSessions(t)
	look := func(session, number uint64, want invoke.Status) {
		t.Helper()
		executed := b.executed
		if r := s.call(b, session, number, 0, 0); r.Status != want || b.executed != executed {
			t.Errorf("number %d again: %v, want %v; executed %d times more", number, r.Status, want, b.executed-executed)
		}
	}
	call := func(session, number uint64, n int) {
		t.Helper()
		if r := s.call(b, session, number, 0, n); r.Status != invoke.Done || len(r.Reply) != n {
			t.Fatalf("a reply of %d bytes: %v, %d bytes", n, r.Status, len(r.Reply))
		}
	}
	first := s.mustOpen("host 1")
	call(first, 1, machine.MaxKeptBytes+1)
	look(first, 1, invoke.NotKept)
	call(first, 2, machine.MaxKeptBytes)
	look(first, 2, invoke.Again)
	const each = machine.MaxRepliesBytes / machine.MaxKeptBytes // sessions for all replies
	for host := range 2 {
		account := fmt.Sprint("host ", 1+host)
		for range each/2 - (1 - host) {
			session := s.mustOpen(account)
			call(session, 1, machine.MaxKeptBytes)
			look(session, 1, invoke.Again)
		}
		session := s.mustOpen(account) // the account has its half
		call(session, 1, 1)
		look(session, 1, invoke.NotKept)
	}
	d := s.decoded()
	s, b.Machine = d, &d.Machine
	look(first, 1, invoke.NotKept)
	look(first, 2, invoke.Again)
	other := s.mustOpen("host 3") // the object has all
	call(other, 1, 1)
	look(other, 1, invoke.NotKept)
	if r := s.apply(machine.AppendClose(nil, machine.Header{}, first), b); r.Status != invoke.Done {
		t.Fatal(r.Status)
	}
	call(other, 2, 1)
	look(other, 2, invoke.Again)
	if n := len(s.Append(nil)); n > machine.MaxEncodedBytes/2 {
		t.Errorf("the machine takes %d bytes", n)
	}
}

// TestAnAccountHasHalfOfTheRepliesThatAreKept counts replies without bytes.
func TestAnAccountHasHalfOfTheRepliesThatAreKept(t *testing.T) {
	s, b := newSessions(t)
	var session uint64
	for range machine.MaxReplies / 2 / invoke.MaxOutstanding {
		session = s.mustOpen("host 1")
		for n := range uint64(invoke.MaxOutstanding) {
			if r := s.call(b, session, n+1, 0, 0); r.Status != invoke.Done {
				t.Fatalf("number %d: %v", n+1, r.Status)
			}
		}
	}
	another := s.mustOpen("host 1")
	if r := s.apply(machine.AppendAcknowledge(nil, machine.Header{}, session, 0, []byte{1 << 1}), b); r.Status != invoke.Done {
		t.Errorf("a reply that is not needed: %v", r.Status)
	}
	if r := s.call(b, another, 2, 0, 0); r.Status != invoke.Full { // its number is kept
		t.Errorf("one more: %v", r.Status)
	}
	if r := s.call(b, another, 1, 0, 0); r.Status != invoke.Done {
		t.Errorf("RO11: the first one of another session: %v", r.Status)
	}
	if r := s.call(b, another, 2, 0, 0); r.Status != invoke.Full {
		t.Errorf("the one after it, before that is acknowledged: %v", r.Status)
	}
	if r := s.call(b, another, 2, 1, 0); r.Status != invoke.Done {
		t.Errorf("RO11: and after that: %v", r.Status)
	}
	if r := s.call(b, s.mustOpen("host 2"), 1, 0, 0); r.Status != invoke.Done {
		t.Errorf("of another account: %v", r.Status)
	}
	if r := s.call(b, session, invoke.MaxOutstanding+1, invoke.MaxOutstanding, 0); r.Status != invoke.Done {
		t.Errorf("after an acknowledgement: %v", r.Status)
	}
	if r := s.call(b, another, 4, 1, 0); r.Status != invoke.Done {
		t.Errorf("another session after it: %v", r.Status)
	}
}

// TestASessionWithFullRepliesExecutesItsNextNumber fills what a session may keep, and acknowledges
// single replies. The memory of each is free at once, whatever is not acknowledged before it.
func TestASessionWithFullRepliesExecutesItsNextNumber(t *testing.T) {
	s, b := newSessions(t)
	session := s.mustOpen("host 1")
	const half = machine.MaxKeptBytes / 2
	call := func(number, acked uint64, want invoke.Status) {
		t.Helper()
		if r := s.call(b, session, number, acked, half); r.Status != want {
			t.Fatalf("number %d: %v, want %v", number, r.Status, want)
		}
	}
	ended := func(acked uint64, bits ...byte) invoke.Status {
		t.Helper()
		return s.apply(machine.AppendAcknowledge(nil, machine.Header{}, session, acked, bits), b).Status
	}
	call(2, 0, invoke.Done)
	call(3, 0, invoke.Done)
	call(4, 0, invoke.Done)
	call(5, 0, invoke.Full)
	call(1, 0, invoke.Done) // RO11
	call(5, 0, invoke.Full)
	if got := ended(0, 0b1110); got != invoke.Done { // 2, 3 and 4
		t.Fatal(got)
	}
	call(2, 0, invoke.NotKept) // and is not executed again
	call(1, 0, invoke.Again)
	s = s.decoded()
	b.Machine = &s.Machine
	call(3, 0, invoke.NotKept)
	call(1, 0, invoke.Again)
	call(5, 0, invoke.Done)
	call(6, 0, invoke.Done)
	call(7, 0, invoke.Full)
	if got := ended(4, 0b10); got != invoke.Done { // 1, too, and 6
		t.Fatal(got)
	}
	call(1, 0, invoke.Forgotten)
	call(5, 0, invoke.Again)
	call(6, 0, invoke.NotKept)
	call(7, 0, invoke.Done)
	if got := ended(0, make([]byte, invoke.EndedBytes+1)...); got != invoke.Malformed {
		t.Errorf("bits of more numbers than a session has: %v", got)
	}
	if got := s.apply(machine.AppendAcknowledge(nil, machine.Header{}, session, 0, nil)[:machine.CommandBytes+15], b).Status; got != invoke.Malformed {
		t.Errorf("an acknowledgement that ends early: %v", got)
	}
	if session++; ended(0) != invoke.NotThere {
		t.Error("an acknowledgement of a session that does not exist")
	}
}

// TestRO3TheTimeOfASessionBeginsAnewInEachView lets no record come for longer than a session lasts.
// The group was down: the first record after it is one of a later view.
func TestRO3TheTimeOfASessionBeginsAnewInEachView(t *testing.T) {
	s, b := newSessions(t)
	session := s.open("host 1", 100).Session
	s.view, s.time = 2, 5000
	s.apply([]byte{0}, nil) // which cannot be read
	s = s.decoded()
	b.Machine = &s.Machine
	if r := s.call(b, session, 1, 0, 0); r.Status != invoke.Done {
		t.Fatalf("after an outage: %v", r.Status)
	}
	s.time = 5099
	s.apply(machine.AppendTouch(nil, machine.Header{}, nil), nil)
	if s.Sessions() != 1 {
		t.Fatal("the session ended before its time")
	}
	s.time = 5100
	s.apply(machine.AppendTouch(nil, machine.Header{}, nil), nil)
	if s.Sessions() != 0 {
		t.Error("the session lasts longer than its time")
	}
}

// TestTheAnnouncementsOfTheLastNodesAreKept lets more nodes announce their operations than a
// machine keeps. The machine drops the oldest announcements. A node that announces again moves to
// the end. Encoding and decoding keep the order.
func TestTheAnnouncementsOfTheLastNodesAreKept(t *testing.T) {
	const most, again = 128, 2
	if most != machine.MaxAnnouncements || most < 2*views.MaxMembers {
		t.Fatalf("%d announcements are kept, and a view has up to %d members", machine.MaxAnnouncements, views.MaxMembers)
	}
	m := new(machine.Machine)
	names := []string{"op"}
	announce := func(m *machine.Machine, node uint64) {
		m.Apply(&machine.Record{View: 1, Sender: node, Data: machine.AppendKnows(nil, machine.Header{}, node, names)}, nil, new(machine.Result))
	}
	known := func(m *machine.Machine) (nodes []uint64) {
		for node := range uint64(most + 10) {
			if m.Announced(machine.Peer{Node: node, Incarnation: node}, names) {
				nodes = append(nodes, node)
			}
		}
		return nodes
	}
	for node := range uint64(most) {
		announce(m, most-1-node) // the highest one first
	}
	announce(m, most-again) // which was the second one
	if n := len(known(m)); n != most {
		t.Fatalf("of %d announcements %d are kept", most, n)
	}
	copied := new(machine.Machine)
	if err := copied.Decode(m.Append(nil)); err != nil {
		t.Fatal(err)
	}
	for i, m := range []*machine.Machine{m, copied} {
		announce(m, most)
		announce(m, most+1)
		nodes := known(m)
		if len(nodes) != most || slices.Contains(nodes, most-1) || slices.Contains(nodes, most-3) || !slices.Contains(nodes, most-again) {
			t.Errorf("machine %d knows %v", i, nodes)
		}
	}
	// Neither more of them, nor two of one node, are decoded.
	b := new(machine.Machine).Append(nil)
	const count = 2 + 9*8 + 2 + 2 // the place of the number of announcements
	encoded := func(n int, node func(i int) uint64) []byte {
		with := binary.LittleEndian.AppendUint64(slices.Clone(b[:count]), uint64(n))
		for i := range n {
			with = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(with, node(i)), 1)
			with = append(with, b[count-2:count]...) // no names
		}
		return append(with, b[count+8:]...)
	}
	each := func(i int) uint64 { return uint64(i) }
	if err := copied.Decode(encoded(most, each)); err != nil {
		t.Errorf("%d announcements: %v", most, err)
	}
	if copied.Decode(encoded(most+1, each)) == nil || copied.Decode(encoded(2, func(int) uint64 { return 7 })) == nil {
		t.Error("a malformed list of announcements was decoded")
	}
}
