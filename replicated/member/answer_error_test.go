package member

import (
	"fmt"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// The outcome of a record that met a limit has its own kind of answer.
func TestAnAnswerSaysWhichLimitARecordMet(t *testing.T) {
	for status, want := range map[machine.Status]relay.Said{machine.NotKept: relay.Cut, machine.Crowded: relay.Crowded, machine.NotThere: relay.Ended} {
		if a, err := relay.ParseAnswer(appendOutcome(nil, &invoke.Outcome{Status: status})); a.Said != want || err != nil {
			t.Errorf("%v: an answer of the kind %d, %v", status, a.Said, err)
		}
	}
}

// Every error that a member can return to a client has its own kind of answer, which package
// replicated makes an equal error of (TestEveryKindOfAnswerIsAnError there).
func TestErrorsReachClients(t *testing.T) {
	denied := &replicated.AccessError{Identity: "eve", Action: replicated.CallCommand, Object: "accounts", Name: "op", Reason: "why"}
	for want, err := range map[relay.Said]error{
		relay.Failed: &replicated.HandlerError{Operation: "other", Text: "text"}, relay.Ended: replicated.ErrSessionEnded, relay.Unknown: replicated.ErrUnknownOperation,
		relay.Away: squall.ErrClosed, relay.Compacted: replicated.ErrCompacted, relay.Denied: denied, relay.NotReached: replicated.ErrNotFinal, relay.NotKept: replicated.ErrNotKept,
		relay.Cut: replicated.ErrReplyNotKept, relay.Crowded: replicated.ErrTooManySessions, relay.Full: invoke.ErrFull, relay.TooLarge: squall.ErrTooLarge,
		relay.NoKey: replicated.ErrNoKey, relay.NotPersistent: squall.ErrNotPersistent, relay.Else: relay.ErrMalformed,
	} {
		a, parsed := relay.ParseAnswer(appendError(nil, fmt.Errorf("replicated: object %q: %w", "accounts", err)))
		if a.Said != want || parsed != nil {
			t.Errorf("%v: an answer of the kind %d, want %d, %v", err, a.Said, want, parsed)
		}
		if e, err := relay.ParseRefused(a.Text); want == relay.Denied && (err != nil || e != relay.Refused{Action: byte(replicated.CallCommand), Identity: "eve", Object: "accounts", Name: "op", Reason: "why"}) {
			t.Errorf("what a client may not do: %+v, %v", e, err)
		}
	}
}
