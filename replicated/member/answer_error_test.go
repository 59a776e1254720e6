package member

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// The outcome of a record that met a limit has its own kind of answer.
func TestAnAnswerSaysWhichLimitARecordMet(t *testing.T) {
	for status, want := range map[invoke.Status]client.Said{invoke.NotKept: client.Cut, invoke.Crowded: client.Crowded, invoke.NotThere: client.Ended} {
		if a, err := client.ParseAnswer(appendOutcome(nil, &invoke.Outcome{Status: status})); a.Said != want || err != nil {
			t.Errorf("%v: an answer of the kind %d, %v", status, a.Said, err)
		}
	}
}

// Every error that a member can return to a client has its own kind of answer, which package
// replicated makes an equal error of (TestEveryKindOfAnswerIsAnError there).
func TestErrorsReachClients(t *testing.T) {
	denied := &replicated.AccessError{Identity: "eve", Action: replicated.CallCommand, Object: "accounts", Name: "op", Reason: "why"}
	for want, err := range map[client.Said]error{
		client.Failed: &replicated.HandlerError{Operation: "other", Text: "text"}, client.Ended: replicated.ErrSessionEnded, client.Unknown: replicated.ErrUnknownOperation,
		client.Away: squall.ErrClosed, client.Compacted: replicated.ErrCompacted, client.Denied: denied, client.NotReached: replicated.ErrNotFinal, client.NotKept: replicated.ErrNotKept,
		client.Cut: replicated.ErrReplyNotKept, client.Crowded: replicated.ErrTooManySessions, client.Full: invoke.ErrFull, client.TooLarge: squall.ErrTooLarge,
		client.NoKey: replicated.ErrNoKey, client.NotPersistent: squall.ErrNotPersistent, client.Else: client.ErrMalformed,
	} {
		a, parsed := client.ParseAnswer(appendError(nil, fmt.Errorf("replicated: object %q: %w", "accounts", err)))
		if a.Said != want || parsed != nil {
			t.Errorf("%v: an answer of the kind %d, want %d, %v", err, a.Said, want, parsed)
		}
		if e, err := client.ParseRefused(a.Text); want == client.Denied && (err != nil || e != client.Refused{Action: byte(replicated.CallCommand), Identity: "eve", Object: "accounts", Name: "op", Reason: "why"}) {
			t.Errorf("what a client may not do: %+v, %v", e, err)
		}
	}
}
