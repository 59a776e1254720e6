package replicated

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/replicated/internal/machine"
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
