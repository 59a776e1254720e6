package replicated

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// said are the errors that members send to clients, by the kind of the answer.
var said = map[relay.Said]error{
	relay.Ended: ErrSessionEnded, relay.Unknown: ErrUnknownOperation, relay.Away: invoke.ErrAway, relay.Compacted: ErrCompacted, relay.Denied: ErrDenied,
	relay.NotReached: ErrNotFinal, relay.NotKept: ErrNotKept, relay.Cut: ErrReplyNotKept, relay.Crowded: ErrTooManySessions, relay.Full: invoke.ErrFull,
	relay.TooLarge: ErrTooLarge, relay.NoKey: ErrNoKey, relay.NotPersistent: ErrNotPersistent,
}

// A client gets the error that a member has sent (TestErrorsReachClients in package member).
func TestEveryKindOfAnswerIsAnError(t *testing.T) {
	denied := relay.Refused{Action: byte(CallCommand), Identity: "eve", Object: "accounts", Name: "op", Reason: "why"}
	for kind := relay.Failed; kind <= relay.NotPersistent; kind++ {
		text := []byte("the text")
		if kind == relay.Denied {
			text = denied.AppendTo(nil)
		}
		_, _, err := parseAnswer("op", (&relay.Answer{Said: kind, Text: text}).AppendTo(nil))
		switch want := said[kind]; {
		case kind == relay.Failed:
			var handler *HandlerError
			if !errors.As(err, &handler) || *handler != (HandlerError{"op", "the text"}) {
				t.Errorf("of a handler: %v", err)
			}
		case kind == relay.Denied:
			var access *AccessError
			if !errors.As(err, &access) || !errors.Is(err, ErrDenied) || !reflect.DeepEqual(*access, AccessError{Identity: "eve", Action: CallCommand, Object: "accounts", Name: "op", Reason: "why"}) {
				t.Errorf("of an access: %v", err)
			}
		case kind == relay.Else:
			if err == nil || !strings.HasSuffix(err.Error(), "op: the text") {
				t.Errorf("another error: %v", err)
			}
		case want == nil || !errors.Is(err, want):
			t.Errorf("kind %d: %v, want %v", kind, err, want)
		case kind >= relay.TooLarge && !strings.HasSuffix(err.Error(), "op: the text"):
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	if err := refusal("op", machine.NotKept, nil); !errors.Is(err, ErrReplyNotKept) {
		t.Error(err)
	}
}

// The errors that a client shares with members are the same ones.
func TestErrorsOfTheRootAreTheSame(t *testing.T) {
	if ErrTooLarge != squall.ErrTooLarge || ErrNotPersistent != squall.ErrNotPersistent || !errors.Is(invoke.ErrElsewhere, squall.ErrLeftShard) {
		t.Error("an error of package replicated is another one than that of package squall")
	}
}

// Every exported error is either sent to clients or is listed with the reason why it is local.
func TestAnErrorReachesClientsOrIsLocal(t *testing.T) {
	local := map[string]string{
		"ErrInHandler": "of a handler", "ErrOutcomeUnknown": "of a member's own call", "ErrNoReply": "in the replies", "ErrLate": "of the client",
		"ErrNoObject": "of the client", "ErrOtherGroup": "of the client", "ErrUnreachable": "of the client",
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			one, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source = append(source, one...)
		}
	}
	reach := 0
	for _, m := range regexp.MustCompile(`(?m)^(?:var |\t)(Err[A-Z]\w*)\s+=`).FindAllSubmatch(source, -1) {
		if local[string(m[1])] == "" {
			reach++
		}
		delete(local, string(m[1]))
	}
	if want := len(said) - 2; reach != want || len(local) != 0 { // ErrAway and ErrFull are not exported
		t.Errorf("%d exported errors are not local, and %d are sent to clients; local ones that are not declared: %v", reach, want, local)
	}
}
