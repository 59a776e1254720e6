package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/squall-go/squall/internal/testutil"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// TestRL1RL2ACallIsFoundOnceByItsNumber puts and takes calls at random, beside a model.
func TestRL1RL2ACallIsFoundOnceByItsNumber(t *testing.T) {
	seed := testutil.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := Calls[int]{Lap: rnd.Uint32}
	there := map[uint64]int{}
	var numbers []uint64
	for k := range 50_000 {
		if rnd.IntN(2) == 0 {
			n, err := c.Put(k)
			if _, twice := there[n]; err != nil || twice || n == 0 {
				t.Fatalf("RL2: number %d, %v", n, err)
			}
			there[n] = k
			numbers = append(numbers, n)
		} else if len(numbers) > 0 {
			n := numbers[rnd.IntN(len(numbers))]
			call, ok := c.Take(n)
			if want, here := there[n]; ok != here || ok && call != want {
				t.Fatalf("RL1: number %d finds %d, %v; want %d, %v", n, call, ok, want, here)
			}
			delete(there, n)
		}
	}
	for _, n := range []uint64{0, 1, 1 << 32, ^uint64(0)} {
		if _, ok := c.Take(n); ok {
			t.Errorf("number %d was never given, and finds a call", n)
		}
	}
	reason := errors.New("over")
	if all := c.TakeWhere(func(n uint64, call int) bool { return there[n] == call }); len(all) != len(there) {
		t.Errorf("%d calls were taken, want %d", len(all), len(there))
	}
	for n := range there {
		if _, ok := c.Take(n); ok {
			t.Errorf("number %d finds a call after all were taken", n)
		}
	}
	clear(there)
	for k := range 10 {
		n, err := c.Put(k)
		if err != nil {
			t.Fatal(err)
		}
		there[n] = k
	}
	if all := c.GiveUp(reason); len(all) != len(there) {
		t.Errorf("%d calls were given up, want %d", len(all), len(there))
	}
	if _, err := c.Put(1); !errors.Is(err, reason) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestARequestIsParsedAsItWasWritten(t *testing.T) {
	for _, r := range []Request{
		{Ask: Open, Token: machine.Token{1, 2}, Timeout: 7},
		{Ask: Command, Session: 1 << 60, Number: 2, Acked: 1, Name: []byte("deposit"), Args: []byte("args")},
		{Ask: Query, Consistency: 1, Name: []byte("balance"), Args: []byte{}},
		{Ask: Query, Consistency: AtTime, At: struct{ View, Seq uint64 }{7, 8}, Name: []byte("balance"), Args: []byte{}},
		{Ask: Close, Session: 9},
		{Ask: Touch, Session: 9},
		{Ask: Watch, Rest: []byte("rest")},
		{Ask: Now},
		{Ask: Describe},
		{Ask: Group, Rest: []byte("bank")},
		{Ask: Acknowledge, Session: 9, Acked: 1 << 50, Rest: []byte{1, 2}},
		{Ask: Locate},
		{Ask: Forward, Rest: AppendForward(nil, "kv\x003", machine.Cursor{View: 1, Seq: 1, Index: 9}, machine.Cursor{View: 1, Seq: 2, Index: 3}), Name: []byte("put"), Args: []byte("args")},
	} {
		b := r.AppendTo(nil)
		if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v was parsed as %+v, %v", r, got, err)
		}
	}
	for _, b := range [][]byte{nil, {0}, {99}, {byte(Open), 1}, make([]byte, 40), append([]byte{byte(Open)}, make([]byte, machine.TokenBytes+8)...),
		append([]byte{byte(Command)}, make([]byte, 23)...), append(append([]byte{byte(Command)}, make([]byte, 24)...), 2, 'a'), {byte(Query)}, {byte(Query), AtVersion, 1, 2}, {byte(Touch), 1}, append([]byte{byte(Acknowledge)}, make([]byte, 15)...), append([]byte{byte(Acknowledge)}, make([]byte, 17+machine.EndedBytes)...), {byte(Describe), 0}, {byte(Locate), 0}, append([]byte{byte(Forward)}, make([]byte, ForwardBytes-1)...), append(append([]byte{byte(Forward)}, make([]byte, ForwardBytes-1)...), 9)} {
		if r, err := Parse(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("% x was parsed as %+v, %v", b, r, err)
		}
	}
}

// A record is built before its call has a number: the number is written in afterwards.
func TestTheNumberOfACallIsWrittenIntoItsRecord(t *testing.T) {
	for _, ask := range []Ask{Open, Close, Command, Acknowledge} {
		r := &Request{Ask: ask, Session: 3, Number: 4, Acked: 2, Args: []byte("arguments")}
		h := machine.Header{Operation: 7, Shard: 2}
		record := r.AppendRecord(nil, h)
		machine.SetCall(record, 1<<63+5)
		h.Call = 1<<63 + 5
		if want := r.AppendRecord(nil, h); !bytes.Equal(record, want) {
			t.Errorf("ask %v: % x, want % x", ask, record, want)
		}
	}
}

// TestAProofIsOfAllThatARequestSays alters each byte of a Forward request behind its proof, and
// where it goes.
func TestAProofIsOfAllThatARequestSays(t *testing.T) {
	r := Request{Ask: Forward, Rest: AppendForward(nil, "kv", machine.Cursor{View: 1, Seq: 1, Index: 9}, machine.Cursor{View: 1, Seq: 2, Index: 3}), Name: []byte("put"), Args: []byte("args")}
	b := r.AppendTo(nil)
	_, text := r.Proof("here")
	if _, other := r.Proof("there"); bytes.Equal(other, text) {
		t.Error("a request to another service has the same proof")
	}
	for i := 1 + ProofBytes; i < len(b); i++ {
		altered := bytes.Clone(b)
		altered[i]++
		if r, err := Parse(altered); err == nil {
			if _, other := r.Proof("here"); bytes.Equal(other, text) {
				t.Errorf("byte %d is not proved", i)
			}
		}
	}
}

// TestTheAcknowledgedNumberOfARequestIsReplaced compares requests that are sent again with ones
// that are written anew.
func TestTheAcknowledgedNumberOfARequestIsReplaced(t *testing.T) {
	for _, ask := range []Ask{Command, Replies} {
		r := Request{Ask: ask, Session: 1, Number: 1 << 40, Acked: 3, Count: 2, Name: []byte("op"), Args: []byte("args")}
		b := r.AppendTo(nil)
		r.Acked = 1 << 33
		if SetAcked(b, r.Acked); !bytes.Equal(b, r.AppendTo(nil)) {
			t.Errorf("ask %v: % x", ask, b)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add((&Request{Ask: Command, Session: 1, Number: 2, Name: []byte("n"), Args: []byte("a")}).AppendTo(nil))
	f.Add((&Request{Ask: Open, Timeout: 1}).AppendTo(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if r, err := Parse(data); err == nil && r.Ask != Now && !bytes.Equal(r.AppendTo(nil), data) {
			t.Errorf("% x was parsed as %+v", data, r)
		}
	})
}

func TestAnAnswerSaysWhatBecameOfTheRecord(t *testing.T) {
	for status, said := range map[machine.Status]Said{
		machine.Done: Done, machine.Again: Done, machine.Failed: Failed, machine.AgainFail: Failed, machine.NotThere: Ended,
		machine.Disabled: Unknown, machine.Elsewhere: Away, machine.Forgotten: Else, machine.TooMany: Else, machine.Malformed: Else,
		machine.Full: Full, machine.NotKept: Cut, machine.Crowded: Crowded, machine.Early: Else,
	} {
		a, err := ParseAnswer(AppendResult(nil, 3, 4, status, 0, []byte("reply")))
		if err != nil || a.Said != said || a.View != 3 || a.Seq != 4 {
			t.Errorf("%v is told as %+v, %v", status, a, err)
		}
		if want := "reply"; said != Else && said != Away && string(a.Text) != want {
			t.Errorf("%v has the text %q", status, a.Text)
		}
	}
	if a, _ := ParseAnswer(AppendResult(nil, 3, 4, machine.Done, 77, nil)); len(a.Text) != 8 || order.Uint64(a.Text) != 77 {
		t.Errorf("a session is told as % x", a.Text)
	}
	if _, err := ParseAnswer(make([]byte, AnswerHead-1)); err == nil {
		t.Error("an answer that is too short was parsed")
	}
}
