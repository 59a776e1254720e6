package client

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

func TestARequestIsParsedAsItWasWritten(t *testing.T) {
	for _, r := range []Request{
		{Ask: Open, Token: invoke.Token{1, 2}, Timeout: 7},
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
		{Ask: Forward, Rest: AppendForward(nil, "kv\x003", invoke.Cursor{View: 1, Seq: 1, Index: 9}, invoke.Cursor{View: 1, Seq: 2, Index: 3}), Name: []byte("put"), Args: []byte("args")},
	} {
		b := r.AppendTo(nil)
		if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v was parsed as %+v, %v", r, got, err)
		}
	}
	for _, b := range [][]byte{nil, {0}, {99}, {byte(Open), 1}, make([]byte, 40), append([]byte{byte(Open)}, make([]byte, invoke.TokenBytes+8)...),
		append([]byte{byte(Command)}, make([]byte, 23)...), append(append([]byte{byte(Command)}, make([]byte, 24)...), 2, 'a'), {byte(Query)}, {byte(Query), AtVersion, 1, 2}, {byte(Touch), 1}, append([]byte{byte(Acknowledge)}, make([]byte, 15)...), append([]byte{byte(Acknowledge)}, make([]byte, 17+invoke.EndedBytes)...), {byte(Describe), 0}, {byte(Locate), 0}, append([]byte{byte(Forward)}, make([]byte, ForwardBytes-1)...), append(append([]byte{byte(Forward)}, make([]byte, ForwardBytes-1)...), 9)} {
		if r, err := Parse(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("% x was parsed as %+v, %v", b, r, err)
		}
	}
}

// TestAProofIsOfAllThatARequestSays alters each byte of a Forward request behind its proof, and
// where it goes.
func TestAProofIsOfAllThatARequestSays(t *testing.T) {
	r := Request{Ask: Forward, Rest: AppendForward(nil, "kv", invoke.Cursor{View: 1, Seq: 1, Index: 9}, invoke.Cursor{View: 1, Seq: 2, Index: 3}), Name: []byte("put"), Args: []byte("args")}
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

func TestAnAnswerThatIsTooShortIsRefused(t *testing.T) {
	if _, err := ParseAnswer(make([]byte, AnswerHead-1)); err == nil {
		t.Error("an answer that is too short was parsed")
	}
}
