package machine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// application is what executes commands in the tests: it keeps what was executed.
type application struct {
	executed []string // "session/number" of clients, "node:text" of members
	emit     func(topic string, data []byte)
	send     func(to machine.Destination, operation string, data []byte) bool
}

func (a *application) Execute(x *machine.Execution, args, out []byte) ([]byte, bool) {
	if x.Session == 0 {
		a.executed = append(a.executed, fmt.Sprintf("%d:%s", x.Sender, args))
		return out, false
	}
	a.executed = append(a.executed, string(args))
	if len(args) == 4 {
		a.send(target, "op", bytes.Clone(args))
	}
	for range len(args) % 3 {
		a.emit(fmt.Sprint("topic ", x.Session), bytes.Clone(args))
	}
	return fmt.Appendf(out, "reply to %s, the %d.", args, len(a.executed)), bytes.HasSuffix(args, []byte("7"))
}

// object is a machine with its application.
type object struct {
	machine.Machine
	application
	position uint64 // of the record
}

func (o *object) apply(r machine.Record) machine.Result {
	o.position++
	o.emit = func(topic string, data []byte) { o.Emit(r.View, o.position, topic, data) }
	o.send, r.Seq = o.Send, o.position
	var out machine.Result
	o.Apply(&r, &o.application, &out)
	return out
}

// enabled returns an object with one operation, in the view 1 of the nodes 1 and 2.
func enabled(t testing.TB) *object {
	t.Helper()
	o := &object{}
	for node := uint64(1); node <= 2; node++ {
		o.apply(record(1, node, machine.AppendKnows(nil, machine.Header{Time: 1}, 7, []string{"op"})))
	}
	if got := o.Ready(peers(7, 7)); !slices.Equal(got, []string{"op"}) {
		t.Fatalf("the operations %v are ready", got)
	}
	if r := o.apply(record(1, 1, machine.AppendEnable(nil, machine.Header{Time: 1}, 1, []string{"op"}))); !r.Enabled {
		t.Fatalf("the operation was not enabled: %v", r.Status)
	}
	return o
}

// peers are the nodes 1 and 2 with the incarnations of their processes.
func peers(incarnations ...uint64) (all []machine.Peer) {
	for i, n := range incarnations {
		all = append(all, machine.Peer{Node: uint64(i + 1), Incarnation: n})
	}
	return all
}

func record(view, sender uint64, data []byte) machine.Record {
	return machine.Record{View: view, Sender: sender, Data: data}
}

func client(time, session, number, acked uint64, args string) []byte {
	return append(machine.AppendClient(nil, machine.Header{Time: time}, session, number, acked), args...)
}

func openSession(time uint64, token byte, timeout uint64, identity string) []byte {
	return machine.AppendOpen(nil, machine.Header{Time: time}, invoke.Token{invoke.TokenBytes - 1: token}, timeout, invoke.Owner{Identity: identity})
}

func TestRO1RO2ACommandIsExecutedOnceAndItsReplyKept(t *testing.T) {
	o := enabled(t)
	s := o.apply(record(1, 1, openSession(10, 1, 1000, "ann"))).Session
	first := o.apply(record(1, 1, client(11, s, 1, 0, "a")))
	if first.Status != invoke.Done || string(first.Reply) != "reply to a, the 1." {
		t.Fatalf("got %v, %q", first.Status, first.Reply)
	}
	for _, relay := range []uint64{1, 2} {
		again := o.apply(record(1, relay, client(12, s, 1, 0, "a")))
		if again.Status != invoke.Again || string(again.Reply) != "reply to a, the 1." {
			t.Errorf("the second time through %d: %v, %q", relay, again.Status, again.Reply)
		}
	}
	// Numbers may come in any order, and a failure is kept, too.
	if r := o.apply(record(1, 1, client(13, s, 3, 0, "x7"))); r.Status != invoke.Failed {
		t.Errorf("got %v", r.Status)
	}
	o.apply(record(1, 1, client(13, s, 2, 0, "b")))
	if r := o.apply(record(1, 1, client(13, s, 3, 0, "x7"))); r.Status != invoke.AgainFail || string(r.Reply) != "reply to x7, the 2." {
		t.Errorf("got %v, %q", r.Status, r.Reply)
	}
	// What was acknowledged is neither kept nor executed.
	o.apply(record(1, 1, client(14, s, 4, 3, "c")))
	if r := o.apply(record(1, 2, client(15, s, 2, 0, "b"))); r.Status != invoke.Forgotten || r.Reply != nil {
		t.Errorf("got %v, %q", r.Status, r.Reply)
	}
	if want := []string{"a", "x7", "b", "c"}; !slices.Equal(o.executed, want) {
		t.Errorf("executed %v, want %v", o.executed, want)
	}
	if r := o.apply(record(1, 1, client(15, s, invoke.MaxOutstanding+4, 3, "d"))); r.Status != invoke.TooMany {
		t.Errorf("a number far ahead: %v", r.Status)
	}
}

func TestATokenStandsForOneSession(t *testing.T) {
	o := enabled(t)
	a := o.apply(record(1, 1, openSession(10, 1, 1000, "ann")))
	b := o.apply(record(1, 2, openSession(11, 1, 1000, "ann")))
	c := o.apply(record(1, 2, openSession(12, 2, 1000, "ann")))
	if a.Session == 0 || a.Session != b.Session || c.Session == a.Session || c.Session == 0 {
		t.Errorf("sessions %d, %d and %d", a.Session, b.Session, c.Session)
	}
	if r := o.apply(record(1, 2, openSession(12, 1, 1000, "eve"))); r.Status != invoke.NotThere || r.Session != 0 {
		t.Errorf("another identity with the token: %v, session %d", r.Status, r.Session)
	}
	if r := o.apply(record(1, 1, machine.AppendClose(nil, machine.Header{Time: 13}, a.Session))); r.Status != invoke.Done {
		t.Errorf("closing: %v", r.Status)
	}
	if r := o.apply(record(1, 1, client(14, a.Session, 1, 0, "a"))); r.Status != invoke.NotThere || len(o.executed) != 0 {
		t.Errorf("a command of a closed session: %v", r.Status)
	}
}

// TestTheNumberOfASessionIsAsHardToGuessAsItsToken opens sessions whose tokens differ in one bit,
// and counts the bits of their numbers that differ.
func TestTheNumberOfASessionIsAsHardToGuessAsItsToken(t *testing.T) {
	first := enabled(t).apply(record(1, 1, machine.AppendOpen(nil, machine.Header{Time: 10}, invoke.Token{}, 1000, invoke.Owner{}))).Session
	var differ [64]int
	for bit := range 8 * invoke.TokenBytes {
		var token invoke.Token
		token[bit/8] = 1 << (bit % 8)
		s := enabled(t).apply(record(1, 1, machine.AppendOpen(nil, machine.Header{Time: 10}, token, 1000, invoke.Owner{}))).Session
		for i := range differ {
			differ[i] += int((first ^ s) >> i & 1)
		}
	}
	for i, n := range differ { // of 128; of random numbers 64, with a deviation of 6
		if n < 24 || n > 104 {
			t.Errorf("bit %d of the number changes with %d of %d bits of the token", i, n, 8*invoke.TokenBytes)
		}
	}
}

func TestANumberOfASessionIsNotUsedAgain(t *testing.T) {
	o := enabled(t)
	var numbers []uint64
	for n := range uint64(3) {
		s := o.apply(record(1, 1, openSession(10+n, 1, 1000, ""))).Session
		if s == 0 || slices.Contains(numbers, s) {
			t.Errorf("the session of a token that was used before has the number %#x, after %#x", s, numbers)
		}
		numbers = append(numbers, s)
		o.apply(record(1, 1, machine.AppendClose(nil, machine.Header{Time: 10 + n}, s)))
	}
}

func TestWhatAClientMayTakeIsBounded(t *testing.T) {
	o := enabled(t)
	s := o.apply(record(1, 1, openSession(10, 1, ^uint64(0), ""))).Session
	large := string(make([]byte, machine.MaxKeptBytes/4))
	n := uint64(2)
	for ; n < 10; n++ {
		if r := o.apply(record(1, 1, client(11, s, n, 0, large))); r.Status == invoke.Full {
			break
		}
	}
	if n != 6 {
		t.Errorf("command %d was refused as its session keeps too many bytes", n)
	}
	if r := o.apply(record(1, 1, client(11, s, n, n-1, "x"))); r.Status != invoke.Done {
		t.Errorf("after it acknowledged: %v", r.Status)
	}
	if o.apply(record(1, 1, machine.AppendTouch(nil, machine.Header{Time: 20 + machine.MaxTimeout}, nil))); o.Sessions() != 0 {
		t.Error("a session lasts longer than it may")
	}
}

func TestRO3RO4SessionsEndInTheTimeOfTheObject(t *testing.T) {
	o := enabled(t)
	s := o.apply(record(1, 1, openSession(1000, 1, 100, ""))).Session
	u := o.apply(record(1, 1, openSession(1000, 2, 100, ""))).Session
	// A clock that is behind does not turn the time back.
	if o.apply(record(1, 2, machine.AppendTouch(nil, machine.Header{Time: 500}, nil))); o.Time() != 1000 {
		t.Errorf("the time is %d", o.Time())
	}
	o.apply(record(1, 1, machine.AppendTouch(nil, machine.Header{Time: 1099}, []uint64{u})))
	if o.Sessions() != 2 {
		t.Error("a session ended before its time")
	}
	if r := o.apply(record(1, 1, client(1100, s, 1, 0, "a"))); r.Status != invoke.NotThere {
		t.Errorf("at its expiry: %v", r.Status)
	}
	if r := o.apply(record(1, 1, client(1198, u, 1, 0, "a"))); r.Status != invoke.Done {
		t.Errorf("one that was touched: %v", r.Status)
	}
	if o.apply(record(1, 1, machine.AppendTouch(nil, machine.Header{Time: 1298}, nil))); o.Sessions() != 0 {
		t.Error("a session is left")
	}
}

func TestRO5AnOperationIsEnabledOnlyInTheViewThatWasLookedAt(t *testing.T) {
	o := &object{}
	o.apply(record(1, 1, machine.AppendKnows(nil, machine.Header{}, 7, []string{"new", "old"})))
	if lacking, silent := o.Lacking("new", peers(7, 7)); !slices.Equal(lacking, []uint64{2}) || !slices.Equal(silent, []uint64{2}) {
		t.Errorf("lacking %v, silent %v", lacking, silent)
	}
	o.apply(record(1, 2, machine.AppendKnows(nil, machine.Header{}, 7, []string{"old"})))
	if got := o.Ready(peers(7, 7)); !slices.Equal(got, []string{"old"}) {
		t.Errorf("%v are ready", got)
	}
	if got := o.Ready(peers(7, 8)); len(got) != 0 {
		t.Errorf("%v are ready, which a process that was started again may not know", got)
	}
	if r := o.apply(record(2, 1, machine.AppendEnable(nil, machine.Header{}, 1, []string{"old"}))); r.Enabled {
		t.Error("enabled by a record of the view before")
	}
	if r := o.apply(record(1, 1, append(machine.AppendCommand(nil, machine.Header{}), 'x'))); r.Status != invoke.Disabled || len(o.executed) != 0 {
		t.Errorf("a command that is not enabled: %v", r.Status)
	}
	o.apply(record(2, 1, machine.AppendEnable(nil, machine.Header{}, 2, []string{"old"})))
	if r := o.apply(record(2, 1, append(machine.AppendCommand(nil, machine.Header{}), 'x'))); r.Status != invoke.Done || len(o.executed) != 1 {
		t.Errorf("a command that is: %v", r.Status)
	}
}

func TestDigestsThatDifferAreTold(t *testing.T) {
	o := enabled(t)
	digest := func(node, count, sum uint64) *machine.Parted {
		return o.apply(record(1, node, machine.AppendDigest(nil, machine.Header{}, count, sum))).Parted
	}
	if digest(1, 100, 5) != nil || digest(2, 100, 5) != nil || digest(2, 200, 6) != nil || digest(1, 100, 9) != nil {
		t.Error("equal digests, or one that comes late, are told")
	}
	if p := digest(1, 200, 7); p == nil || p.Count != 200 || p.One != 2 || p.Other != 1 {
		t.Errorf("got %+v", p)
	}
}

// script is a random sequence of records, as three members would send them for some clients that
// repeat themselves.
func script(rnd *rand.Rand, n int) (records []machine.Record) {
	time := uint64(1000)
	var o object // has the sessions
	var sessions [7]uint64
	opened := 0
	for range n {
		time += rnd.Uint64N(30)
		skew := time - rnd.Uint64N(20)
		of, number := rnd.IntN(6), 1+rnd.Uint64N(40)
		session := sessions[of]
		var data []byte
		switch rnd.IntN(15) {
		case 14:
			data = machine.AppendAcknowledge(nil, machine.Header{Time: skew}, session, rnd.Uint64N(number), []byte{byte(rnd.Uint32()), byte(rnd.Uint32())})
		case 12:
			data = machine.AppendForwarded(nil, machine.Header{Time: skew}, fmt.Sprint("object ", rnd.IntN(3)), invoke.Cursor{View: 1, Seq: rnd.Uint64N(2)}, invoke.Cursor{View: 1, Seq: rnd.Uint64N(40), Index: 1})
		case 13:
			data = machine.AppendHanded(nil, machine.Header{Time: skew}, target, invoke.Cursor{View: 1, Seq: rnd.Uint64N(uint64(n))})
		case 0, 1:
			data = openSession(skew, byte(rnd.UintN(8)), 50+rnd.Uint64N(400), "somebody")
		case 2:
			data = machine.AppendTouch(nil, machine.Header{Time: skew}, []uint64{session, sessions[of+1]})
		case 3:
			data = append(machine.AppendCommand(nil, machine.Header{Time: skew}), "own"...)
		case 4:
			data = machine.AppendClose(nil, machine.Header{Time: skew}, session)
		case 5:
			data = machine.AppendKnows(nil, machine.Header{Time: skew}, 7, []string{"op", fmt.Sprint(rnd.IntN(3))})
		case 6:
			data = machine.AppendEnable(nil, machine.Header{Time: skew}, 1, []string{fmt.Sprint(rnd.IntN(3))})
		default:
			data = client(skew, session, number, rnd.Uint64N(number), fmt.Sprintf("%d/%d", of, number))
		}
		r := machine.Record{View: 1, Sender: 1 + rnd.Uint64N(3), Data: data}
		records = append(records, r)
		if s := o.apply(r).Session; s != 0 && !slices.Contains(sessions[:], s) && opened < len(sessions) {
			sessions[opened] = s
			opened++
		}
	}
	return records
}

func TestRO6ADecodedMachineGoesOnAlike(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		records := script(rnd, 400)
		a, cut := enabled(t), rnd.IntN(400)
		b := &object{}
		for i, r := range records {
			if i == cut {
				if err := b.Decode(a.Append(nil)); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				b.executed, b.position = slices.Clone(a.executed), a.position
			}
			x := a.apply(r)
			if i < cut {
				continue
			}
			if y := b.apply(r); x.Status != y.Status || x.Session != y.Session || !bytes.Equal(x.Reply, y.Reply) {
				t.Fatalf("seed %d, record %d: %v and %v", seed, i, x, y)
			}
		}
		if !bytes.Equal(a.Append(nil), b.Append(nil)) || !slices.Equal(a.executed, b.executed) {
			t.Fatalf("seed %d: the machines differ at the end", seed)
		}
	}
}

// TestRO1HoldsInRandomScripts looks at what the application saw, whatever the machine says.
func TestRO1HoldsInRandomScripts(t *testing.T) {
	total := 0
	for seed := range uint64(300) {
		o := enabled(t)
		for _, r := range script(rand.New(rand.NewPCG(seed, 1)), 600) {
			o.apply(r)
		}
		seen := map[string]bool{}
		for _, x := range o.executed {
			if x[1] == '/' {
				if seen[x] {
					t.Fatalf("seed %d: %s was executed twice", seed, x)
				}
				seen[x] = true
				total++
			}
		}
	}
	if total < 2000 {
		t.Errorf("only %d commands of clients: the scripts do not test much", total)
	}
}

func TestRO7EventsAreKeptInOrderUpToABound(t *testing.T) {
	o := enabled(t)
	const size = 100 << 10
	for i := range uint64(100) {
		o.Emit(1, 10+i/2, "t", append(make([]byte, size), byte(i)))
	}
	if _, ok := o.Events(invoke.Cursor{}); ok {
		t.Error("events from the first one on, of which some are not kept")
	}
	all, ok := o.Events(invoke.Cursor{View: 1, Seq: 40})
	if !ok || len(all) != 40 || all[0].Cursor != (invoke.Cursor{View: 1, Seq: 40, Index: 1}) || all[39].Data[size] != 99 {
		t.Fatalf("%v, %d events", ok, len(all))
	}
	for i := range all[1:] {
		if !all[i].Less(all[i+1].Cursor) {
			t.Fatalf("%v before %v", all[i].Cursor, all[i+1].Cursor)
		}
	}
	if rest, ok := o.Events(o.LastEvent()); !ok || len(rest) != 0 {
		t.Errorf("after the last one: %v, %d", ok, len(rest))
	}
	var b object
	if err := b.Decode(o.Append(nil)); err != nil {
		t.Fatal(err)
	}
	again, ok := b.Events(invoke.Cursor{View: 1, Seq: 40})
	if _, first := b.Events(invoke.Cursor{}); !ok || first || len(again) != 40 || b.LastEvent() != o.LastEvent() {
		t.Errorf("after decoding: %v, %v, %d events", ok, first, len(again))
	}
}

func FuzzRecords(f *testing.F) {
	for _, r := range script(rand.New(rand.NewPCG(1, 2)), 30) {
		f.Add(r.Data)
		f.Add(several(1, r.Data, r.Data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &object{}
		for len(data) > 0 {
			n := min(1+int(data[0]), len(data))
			rs := machine.Split(data[:n])
			for r, ok := rs.Next(); ok; r, ok = rs.Next() {
				o.apply(machine.Record{View: 1, Sender: 1, Time: rs.Time, Data: r})
			}
			data = data[n:]
		}
		b := &object{}
		if err := b.Decode(o.Append(nil)); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	o := &object{}
	for _, r := range script(rand.New(rand.NewPCG(1, 2)), 200) {
		o.apply(r)
	}
	f.Add(o.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m machine.Machine
		if m.Decode(data) == nil && !bytes.Equal(m.Append(nil), data) {
			t.Error("a machine is encoded in two ways")
		}
	})
}

func TestATruncatedRecordIsRefused(t *testing.T) {
	o := enabled(t)
	for _, full := range [][]byte{
		client(1, 1, 1, 0, ""), openSession(1, 1, 1, ""), machine.AppendClose(nil, machine.Header{}, 1),
		machine.AppendKnows(nil, machine.Header{}, 7, []string{"a", "b"}), machine.AppendEnable(nil, machine.Header{}, 1, []string{"a"}),
		machine.AppendDigest(nil, machine.Header{}, 1, 2),
		machine.AppendForwarded(nil, machine.Header{}, "a", invoke.Cursor{}, invoke.Cursor{View: 1, Seq: 1, Index: 1}),
		machine.AppendHanded(nil, machine.Header{}, target, invoke.Cursor{}),
	} {
		for n := range full {
			if r := o.apply(record(1, 1, full[:n])); r.Status != invoke.Malformed {
				t.Errorf("%d of %d bytes of kind %d: %v", n, len(full), full[0], r.Status)
			}
		}
	}
	flagged := machine.AppendClose(nil, machine.Header{Replies: true}, 1)
	if r := o.apply(record(1, 1, flagged)); r.Status != invoke.Malformed {
		t.Errorf("replies to what is no command: %v", r.Status)
	}
	answer := machine.AppendReply(nil, machine.Header{Call: 9}, 3, invoke.Returned, []byte("reply"))
	if to, call, said, reply, ok := machine.ParseReply(answer); !ok || to != 3 || call != 9 || said != invoke.Returned || string(reply) != "reply" {
		t.Errorf("a reply: %d %d %d %q %v", to, call, said, reply, ok)
	}
	if _, _, said, reply, ok := machine.ParseReply(machine.RefuseReply(answer, "no")); !ok || said != invoke.Refused || string(reply) != "no" {
		t.Errorf("an error in its place: %d %q %v", said, reply, ok)
	}
	for n := range len(answer) - len("reply") {
		if _, _, _, _, ok := machine.ParseReply(answer[:n]); ok {
			t.Errorf("%d bytes are a reply", n)
		}
	}
	unknown := machine.AppendTouch(nil, machine.Header{}, nil)
	unknown[0] = 200
	if r := o.apply(record(1, 1, unknown)); r.Status != invoke.Malformed {
		t.Errorf("an unknown kind: %v", r.Status)
	}
	binary.LittleEndian.PutUint16(unknown, 0)
	if r := o.apply(record(1, 1, unknown)); r.Status != invoke.Malformed {
		t.Errorf("the kind 0: %v", r.Status)
	}
}

// silent executes commands and returns nothing.
type silent struct{}

func (silent) Execute(_ *machine.Execution, _, out []byte) ([]byte, bool) {
	return append(out, 'x'), false
}

// silently returns a function that applies records of a node, with commands that return nothing. It
// allocates nothing.
func (o *object) silently() func(node uint64, data []byte) invoke.Status {
	r, out := new(machine.Record), new(machine.Result)
	return func(node uint64, data []byte) invoke.Status {
		*r = record(1, node, data)
		o.Apply(r, silent{}, out)
		return out.Status
	}
}

func TestASessionWithManyRepliesAllocatesNothing(t *testing.T) {
	o := enabled(t)
	s := o.apply(record(1, 1, openSession(10, 1, 1000, ""))).Session
	const under = 500
	n := uint64(0)
	var data []byte
	apply := o.silently()
	next := func() {
		n++
		data = machine.AppendClient(data[:0], machine.Header{Time: 11}, s, n, max(n, under)-under)
		if got := apply(1, data); got != invoke.Done {
			t.Fatalf("command %d: %v", n, got)
		}
	}
	for range 10 * under {
		next()
	}
	if a := testing.AllocsPerRun(10*under, next); a != 0 {
		t.Errorf("%v allocations for each command", a)
	}
	for k := n - under + 1; k <= n; k++ {
		if got := apply(2, machine.AppendClient(nil, machine.Header{Time: 11}, s, k, n-under)); got != invoke.Again {
			t.Fatalf("command %d again: %v", k, got)
		}
	}
}

func TestACommandOfASessionAllocatesNothing(t *testing.T) {
	for _, under := range []uint64{1, 64} {
		o := enabled(t)
		s := o.apply(record(1, 1, openSession(10, 1, 1000, ""))).Session
		var data []byte
		n, apply := uint64(0), o.silently()
		step := func() {
			n++
			data = machine.AppendClient(data[:0], machine.Header{Time: 11}, s, n, max(n, under)-under)
			if got := apply(1, data); got != invoke.Done {
				t.Fatalf("command %d: %v", n, got)
			}
		}
		for range 4 * under {
			step()
		}
		if got := testing.AllocsPerRun(1000, step); got != 0 {
			t.Errorf("%v allocations for a command of a session with %d in flight", got, under)
		}
	}
}

func BenchmarkCommandsOfASession(b *testing.B) {
	for _, under := range []uint64{1, 64, 500} {
		b.Run(fmt.Sprintf("in flight=%d", under), func(b *testing.B) {
			o := enabled(b)
			s := o.apply(record(1, 1, openSession(10, 1, 1000, ""))).Session
			var data []byte
			n, apply := uint64(0), o.silently()
			for b.Loop() {
				n++
				data = machine.AppendClient(data[:0], machine.Header{Time: 11}, s, n, max(n, under)-under)
				apply(1, data)
			}
		})
	}
}

// TestRO10AShardExecutesOnlyWhatIsForIt has a member that came from the shard 0 bring records along
// into the shard 1.
func TestRO10AShardExecutesOnlyWhatIsForIt(t *testing.T) {
	const own, other = 2, 1 // 1 + the number of the shard
	o := &object{}
	header := func(shard int) machine.Header { return machine.Header{Time: 1, Shard: shard} }
	token := invoke.Token{1}
	opening := func(shard int) machine.Result {
		return o.apply(record(1, 1, machine.AppendOpen(nil, header(shard), token, 1000, invoke.Owner{})))
	}
	// Nothing is executed before the leader of a view has said which shard it is, not even of the own
	// shard.
	for _, shard := range []int{0, own, other} {
		if r := opening(shard); shard != 0 && r.Status != invoke.Elsewhere {
			t.Errorf("a session for shard %d: %v", shard, r.Status)
		}
	}
	o.Machine = machine.Machine{}
	all := peers(7, 7)
	for node := uint64(1); node <= 2; node++ {
		o.apply(record(1, node, machine.AppendKnows(nil, header(other), 7, []string{"op"})))
	}
	if data, _ := o.Due(header(own), all[1], all, 1, []string{"op"}, false, nil); data != nil {
		t.Error("a member that is not the leader names the shard")
	}
	named, _ := o.Due(header(own), all[0], all, 1, []string{"op"}, false, nil)
	o.apply(record(2, 1, named)) // carried into another view: its sender may be in another shard
	if o.Shard() != 0 {
		t.Fatal("a record of an earlier view named the shard")
	}
	o.apply(record(1, 1, named))
	if o.Shard() != own || !slices.Equal(o.Enabled(), []string{"op"}) {
		t.Fatalf("the shard is %d, with %v", o.Shard(), o.Enabled())
	}
	s := opening(own).Session
	if s == 0 {
		t.Fatal("no session")
	}
	command := append(machine.AppendCommand(nil, header(other)), "x"...)
	for name, data := range map[string][]byte{
		"command":   command,
		"client":    append(machine.AppendClient(nil, header(other), s, 1, 0), "x"...),
		"no shard":  append(machine.AppendClient(nil, header(0), s, 1, 0), "x"...),
		"close":     machine.AppendClose(nil, header(other), s),
		"open":      machine.AppendOpen(nil, header(other), invoke.Token{9}, 1000, invoke.Owner{}),
		"forwarded": machine.AppendForwarded(nil, header(other), "source", invoke.Cursor{}, invoke.Cursor{View: 1, Index: 1}),
		"handed":    machine.AppendHanded(nil, header(other), target, invoke.Cursor{View: 9}),
		"digest":    machine.AppendDigest(nil, header(other), 1, 1),
		"touch":     machine.AppendTouch(nil, header(other), []uint64{s}),
		"ended":     machine.AppendAcknowledge(nil, header(other), s, 1, nil),
	} {
		if r := o.apply(record(1, 1, data)); r.Status != invoke.Elsewhere {
			t.Errorf("a %s record for another shard: %v", name, r.Status)
		}
	}
	if len(o.executed) != 0 || o.Sessions() != 1 || o.Executed() != 0 {
		t.Errorf("executed %v, %d sessions", o.executed, o.Sessions())
	}
	copied := &object{}
	if err := copied.Decode(o.Append(nil)); err != nil || copied.Shard() != own {
		t.Fatalf("a decoded machine is that of shard %d, %v", copied.Shard(), err)
	}
	for _, c := range []*object{o, copied} {
		if r := c.apply(record(1, 1, append(machine.AppendClient(nil, header(own), s, 1, 0), "x"...))); r.Status != invoke.Done {
			t.Errorf("the session's own command: %v", r.Status)
		}
	}
}

// May decides about operations that are new to an object. An object that begins has none.
func TestWhatAnObjectBeginsWithIsEnabledAtOnce(t *testing.T) {
	var m machine.Machine
	self := machine.Peer{Node: 1, Incarnation: 7}
	seq := uint64(0)
	apply := func(data []byte) invoke.Status {
		var out machine.Result
		seq++
		m.Apply(&machine.Record{View: 1, Seq: seq, Sender: self.Node, Data: data}, nil, &out)
		return out.Status
	}
	due := func(names ...string) []byte {
		apply(machine.AppendKnows(nil, machine.Header{}, self.Incarnation, names))
		data, _ := m.Due(machine.Header{}, self, []machine.Peer{self}, 1, names, false, func([]string) []string { return nil })
		return data
	}
	if apply(due("one")); !slices.Equal(m.Enabled(), []string{"one"}) {
		t.Errorf("%q are enabled", m.Enabled())
	}
	if data := due("one", "two"); data != nil {
		t.Errorf("a record is sent that enables what must wait: %x", data)
	}
}

func TestAMemberAnnouncesAsManyOperationsAsThereMayBe(t *testing.T) {
	var m machine.Machine
	var names []string
	for i := range machine.MaxOperations + 1 {
		names = append(names, fmt.Sprintf("%05d", i))
	}
	for n, want := range map[int]invoke.Status{machine.MaxOperations: invoke.Done, machine.MaxOperations + 1: invoke.Malformed} {
		var out machine.Result
		m.Apply(&machine.Record{View: 1, Seq: 1, Sender: 1, Data: machine.AppendKnows(nil, machine.Header{}, 7, names[:n])}, nil, &out)
		if out.Status != want {
			t.Errorf("%d operations: %v, want %v", n, out.Status, want)
		}
	}
}
