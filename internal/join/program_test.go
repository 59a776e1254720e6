package join

import (
	"errors"
	"slices"
	"testing"

	"github.com/squall-go/squall/views"
)

// J15: the leader refuses a process that lacks operations before it has a conversation, and every
// other member before it gives its word.
func TestJ15AProcessThatLacksOperationsIsRefused(t *testing.T) {
	lacking := errors.New("the program lacks put2")
	for _, verb := range []Verb{Apply, Greet} {
		s := newGateScript(t)
		var judged []views.Declaration
		s.gate.config.Admit = func(joiner []views.Declaration) error {
			judged = joiner
			return lacking
		}
		q := s.request(verb, "7")
		q.Declarations = slices.Clone(decls)
		q.Declarations[0].Operations = []string{"put"}
		e := s.gate.Ask(0, 1, q)
		if got := effectsLine(e); got != "1:refuse 1! Refused" || e.Says[0].What.(Message).Text != lacking.Error() || len(s.gate.talks) != 0 {
			t.Errorf("%q: %s", verb, got)
		}
		if len(judged) != len(decls) || !slices.Equal(judged[0].Operations, []string{"put"}) {
			t.Errorf("%q: judged by %v", verb, judged)
		}
		s.gate.config.Admit = func([]views.Declaration) error { return nil }
		if e := s.gate.Ask(0, 2, q); len(e.HangUps) != 0 {
			t.Errorf("%q, with all operations: %s", verb, effectsLine(e))
		}
	}
}
