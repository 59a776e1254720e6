package replicated

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/machine"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// TestAClientLearnsWhichLimitItMet sends the outcomes of records that met a limit to a client.
func TestAClientLearnsWhichLimitItMet(t *testing.T) {
	for status, want := range map[machine.Status]error{machine.NotKept: ErrReplyNotKept, machine.Crowded: ErrTooManySessions, machine.NotThere: ErrSessionEnded} {
		_, _, err := parseAnswer("op", appendOutcome(nil, &outcome{status: status}))
		if !errors.Is(err, want) {
			t.Errorf("%v: %v", status, err)
		}
		if _, _, err := parseAnswer("op", appendError(nil, want)); status != machine.Crowded && !errors.Is(err, want) {
			t.Errorf("%v of a gathering: %v", want, err)
		}
	}
	if err := refusal("op", machine.NotKept, nil); !errors.Is(err, ErrReplyNotKept) {
		t.Error(err)
	}
}

// TestErrorsReachClients sends to a client every exported error that a member can return to it. All other exported errors are listed with the reason why they are local, so that
// a new error has to be added to one of the two.
func TestErrorsReachClients(t *testing.T) {
	local := map[string]string{
		"ErrInHandler": "of a handler", "ErrOutboxFull": "of a handler", "ErrNotOpen": "of a member: it serves no object that is not open", "ErrOutcomeUnknown": "of a member's own call",
		"ErrNoReply": "in the replies", "ErrLate": "of the client", "ErrNoObject": "of the client", "ErrOtherGroup": "of the client", "ErrUnreachable": "of the client",
	}
	sent := map[string]error{
		"ErrUnknownOperation": ErrUnknownOperation, "ErrSessionEnded": ErrSessionEnded, "ErrReplyNotKept": ErrReplyNotKept, "ErrTooManySessions": ErrTooManySessions,
		"ErrNotReached": ErrNotReached, "ErrNotKept": ErrNotKept, "ErrNoKey": ErrNoKey, "ErrCompacted": ErrCompacted, "ErrDenied": &AccessError{Identity: "eve", Name: "op"},
		"squall.ErrTooLarge": squall.ErrTooLarge, "squall.ErrNotPersistent": squall.ErrNotPersistent,
	}
	for name, want := range sent {
		_, _, err := parseAnswer("op", appendError(nil, fmt.Errorf("replicated: object %q: %w", "accounts", want)))
		if denied := new(AccessError); errors.As(want, &denied) {
			if !errors.Is(err, ErrDenied) || !reflect.DeepEqual(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		} else if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for kind := saidTooLarge; kind <= saidNoLog; kind++ {
		if _, _, err := parseAnswer("op", (&relay.Answer{Said: kind, Text: []byte("the text")}).AppendTo(nil)); !strings.HasSuffix(fmt.Sprint(err), "op: the text") {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	var handler *HandlerError
	if _, _, err := parseAnswer("op", appendError(nil, &HandlerError{"other", "text"})); !errors.As(err, &handler) || *handler != (HandlerError{"op", "text"}) {
		t.Errorf("of a handler: %v", err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declares := regexp.MustCompile(`(?m)^(?:var |\t)(Err[A-Z]\w*)\s+=`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range declares.FindAllSubmatch(source, -1) {
			name := string(m[1])
			if found++; sent[name] == nil == (local[name] == "") {
				t.Errorf("%s: the error %s is listed neither as one that reaches clients nor as one that does not, or as both", file, name)
			}
		}
	}
	if want := len(local) + len(sent) - 2; found != want {
		t.Errorf("%d errors are declared, and %d are listed", found, want)
	}
}
