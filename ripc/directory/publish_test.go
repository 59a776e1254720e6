package directory

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/squall-go/squall/ripc"
	"github.com/squall-go/squall/ripc/directory/internal/registry"
)

// A lease that ended meanwhile is taken again. A service that is another process's is given up, its
// process is told once, and says nothing of it any more.
func TestALeaseIsTakenAgainOrGivenUp(t *testing.T) {
	for code, kept := range map[string]bool{"ended": true, "realm": true, "stale": true, "owned": false, "moved": false} {
		var said []registry.Action
		lost := 0
		answers := []string{"", code} // to the claim, and to its renewal
		p := &publisher{
			lease: time.Minute, live: map[publication]bool{}, lost: func(ripc.ID, error) { lost++ },
			say: func(_ context.Context, records []*registry.Record) (reply, error) {
				said = append(said, records[0].Action)
				r := reply{Results: make([]result, len(records))}
				if len(answers) > 0 {
					r.Results[0].Code, answers = answers[0], answers[1:]
				}
				return r, nil
			},
		}
		at := ripc.Place{Addr: "10.0.0.1:7100"}
		withdraw, err := p.publish(t.Context(), "name", at, false)
		must(t, err)
		for range 2 {
			if r := p.record(registry.Renew, publication{"name", registry.Place(at)}, false, 0); r != nil {
				p.renewAll(t.Context(), []*registry.Record{r})
			}
		}
		before := len(said)
		must(t, withdraw())
		must(t, withdraw())
		withdrawn := len(said) - before
		if kept && (lost != 0 || withdrawn != 1) || !kept && (lost != 1 || withdrawn != 0) {
			t.Errorf("%s: lost %d times, withdrawn %d times", code, lost, withdrawn)
		}
	}
}

// A renewal that is stale because its service was withdrawn is not repeated: the service stays
// withdrawn.
func TestAServiceThatIsWithdrawnWhileItIsRenewedStaysWithdrawn(t *testing.T) {
	var said []registry.Action
	var withdraw func() error
	p := &publisher{lease: time.Minute, live: map[publication]bool{}, lost: func(ripc.ID, error) { t.Error("lost") }}
	p.say = func(_ context.Context, records []*registry.Record) (reply, error) {
		r := reply{Results: make([]result, len(records))}
		if records[0].Action == registry.Renew {
			must(t, withdraw())
			r.Results[0].Code = "stale"
		}
		said = append(said, records[0].Action)
		return r, nil
	}
	at := ripc.Place{Addr: "10.0.0.1:7100"}
	withdraw, err := p.publish(t.Context(), "name", at, false)
	must(t, err)
	of := publication{"name", registry.Place(at)}
	p.renewAll(t.Context(), []*registry.Record{p.record(registry.Renew, of, false, 0)})
	if want := []registry.Action{registry.Claim, registry.Withdraw, registry.Renew}; !slices.Equal(said, want) {
		t.Errorf("it was said: %v, it has to be %v", said, want)
	}
	if r := p.record(registry.Renew, of, false, 0); r != nil {
		t.Errorf("a withdrawn service is renewed: %+v", r)
	}
}
