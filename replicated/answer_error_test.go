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
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// said are the errors that members send to clients, by the kind of the answer.
var said = map[client.Said]error{
	client.Ended: ErrSessionEnded, client.Unknown: ErrUnknownOperation, client.Away: invoke.ErrAway, client.Compacted: ErrCompacted, client.Denied: ErrDenied,
	client.NotReached: ErrNotFinal, client.NotKept: ErrNotKept, client.Cut: ErrReplyNotKept, client.Crowded: ErrTooManySessions, client.Full: invoke.ErrFull,
	client.TooLarge: ErrTooLarge, client.NoKey: ErrNoKey, client.NotPersistent: ErrNotPersistent,
}

// A client gets the error that a member has sent (TestErrorsReachClients in package member).
func TestEveryKindOfAnswerIsAnError(t *testing.T) {
	denied := client.Refused{Action: byte(CallCommand), Identity: "eve", Object: "accounts", Name: "op", Reason: "why"}
	for kind := client.Failed; kind <= client.NotPersistent; kind++ {
		text := []byte("the text")
		if kind == client.Denied {
			text = denied.AppendTo(nil)
		}
		_, _, err := parseAnswer("op", (&client.Answer{Said: kind, Text: text}).AppendTo(nil))
		switch want := said[kind]; {
		case kind == client.Failed:
			var handler *HandlerError
			if !errors.As(err, &handler) || *handler != (HandlerError{"op", "the text"}) {
				t.Errorf("of a handler: %v", err)
			}
		case kind == client.Denied:
			var access *AccessError
			if !errors.As(err, &access) || !errors.Is(err, ErrDenied) || !reflect.DeepEqual(*access, AccessError{Identity: "eve", Action: CallCommand, Object: "accounts", Name: "op", Reason: "why"}) {
				t.Errorf("of an access: %v", err)
			}
		case kind == client.Else:
			if err == nil || !strings.HasSuffix(err.Error(), "op: the text") {
				t.Errorf("another error: %v", err)
			}
		case want == nil || !errors.Is(err, want):
			t.Errorf("kind %d: %v, want %v", kind, err, want)
		case kind >= client.TooLarge && !strings.HasSuffix(err.Error(), "op: the text"):
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	if err := refusal("op", invoke.NotKept, nil); !errors.Is(err, ErrReplyNotKept) {
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
		"ErrInHandler": "of a handler", "ErrOutcomeUnknown": "of a member's own call", "ErrNoReply": "in the replies", "ErrMemberTimeout": "of the client",
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
