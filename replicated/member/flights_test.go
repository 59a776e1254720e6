package member

import (
	"errors"
	"testing"

	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Of the requests for a command whose record is in flight the last one gets the outcome, and each
// earlier one gets an error as the next one comes. After the outcome, and in another view, the
// record is sent again.
func TestTheLastRequestWaitsForARecordInFlight(t *testing.T) {
	var f flights
	first, second, third := &awaited{}, &awaited{}, &awaited{}
	from := origin{"shop", invoke.Cursor{View: 1, Seq: 2, Index: 3}, 1}
	one := f.join(from, first)
	if f.join(from, second) != nil || first.ended != 1 || !errors.Is(first.err, errInFlight) || first.signalled != 1 {
		t.Fatalf("joined: %+v", first)
	}
	elsewhere := origin{from.source, from.at, 2}
	if f.join(elsewhere, third) == nil {
		t.Fatal("in another view it is not sent again")
	}
	one.Complete(&invoke.Outcome{})
	one.Signal()
	if second.ended != 1 || second.err != nil || second.signalled != 1 || first.ended != 1 || third.ended != 0 {
		t.Errorf("landed: %+v, %+v, %+v", first, second, third)
	}
	again := f.join(from, first)
	if again == nil {
		t.Fatal("after the outcome it is not sent again")
	}
	if !again.unsent(errEarly) || first.ended != 1 {
		t.Error("the request whose record was not sent is told so by its caller, and by nobody else")
	}
	again = f.join(from, first)
	f.join(from, third)
	if again.unsent(errEarly) || !errors.Is(third.err, errEarly) || third.signalled != 1 {
		t.Errorf("the later request does not learn that the record was not sent: %+v", third)
	}
}
