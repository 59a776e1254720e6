package rdmc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/squall-go/squall/internal/relay"
)

func TestFailuresAreThoseOfThisPackage(t *testing.T) {
	for code := relay.Gone; code <= relay.Discarded; code++ {
		err := fmt.Errorf("sending: %w", public(&relay.Failure{Node: 7, Code: code, Text: "said so"}))
		var f *Failure
		if !errors.As(err, &f) || *f != (Failure{Node: 7, Code: FailureCode(code), Text: "said so"}) || f.Code.String() != code.String() {
			t.Errorf("%v: %#v of %v", code, f, err)
		}
		if !errors.Is(err, ErrFailed) || errors.Is(err, ErrDiscarded) != (f.Code == FailureDiscarded) {
			t.Errorf("%v is ErrFailed %v, ErrDiscarded %v", code, errors.Is(err, ErrFailed), errors.Is(err, ErrDiscarded))
		}
	}
	if err := public(relay.ErrNotRoot); err != ErrNotRoot {
		t.Error(err)
	}
}
