package join

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/squall-go/squall/views"
)

// The JSON of the wire, as requests and messages of a conversation, in whatever order.
func FuzzAGateTakesWhateverIsSaid(f *testing.F) {
	f.Add([]byte(`{"cluster":"blue","member":{"id":7,"incarnation":1,"addr":"10.0.0.7:1"}}`), []byte(`{"verb":"ready","view_id":1}`), []byte(`{"verb":"still"}`))
	f.Add([]byte(`{"verb":"greet","cluster":"blue","member":{"id":3,"incarnation":1,"addr":"a:1"}}`), []byte(`{"verb":"view","view":{}}`), []byte(`{}`))
	f.Add([]byte(`{"verb":"inquire","cluster":"blue","member":{"id":3,"addr":"a:1"}}`), []byte(`{"verb":"abort","text":"x"}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, request, one, other []byte) {
		s := newGateScript(t)
		var q Request
		if json.Unmarshal(request, &q) != nil {
			return
		}
		s.gate.Ask(0, 1, q)
		q.Declarations = decls // so that some get further
		s.gate.Ask(0, 2, q)
		for _, said := range [][]byte{one, other} {
			var m Message
			if json.Unmarshal(said, &m) == nil {
				s.gate.Hear(1, 1, m)
				s.gate.Hear(2, 2, m)
			}
		}
		s.gate.Installed(3, viewOf(t, 2, "1", "2"), 0)
		s.gate.Tick(time.Minute)
		if len(s.gate.talks) != 0 {
			t.Fatalf("%d conversations outlive a minute of silence", len(s.gate.talks))
		}
	})
}

func FuzzAnApplicantTakesWhateverIsSaid(f *testing.F) {
	f.Add([]byte(`{"verb":"meet","view_id":1,"members":[{"id":2,"addr":"a:1"}]}`), []byte(`{"verb":"greeted"}`), []byte(`{"verb":"view","view":{"id":2}}`))
	f.Add([]byte(`{"verb":"redirect","addr":"a:1"}`), []byte(`{"verb":"wait"}`), []byte(`{"verb":"refuse"}`))
	view, _ := json.Marshal(Message{Verb: sayView, View: &views.View{ID: 1, Cluster: "blue", Members: []views.Member{{ID: 7}}}})
	f.Add(view, []byte(`{"verb":"later"}`), []byte(`{"verb":"still"}`))
	f.Fuzz(func(t *testing.T, one, other, third []byte) {
		s := newApplicantScript(t)
		s.step("start")
		for i, said := range [][]byte{one, other, third} {
			for ticket := Ticket(1); ticket <= s.applicant.last; ticket++ {
				s.applicant.Connected(time.Duration(i), ticket)
				var m Message
				if json.Unmarshal(said, &m) == nil {
					s.applicant.Hear(time.Duration(i), ticket, m)
				}
			}
		}
		s.applicant.Tick(time.Minute)
		if v := s.applicant.View(); v != nil && !has(v, s.applicant.config.Self) {
			t.Fatalf("a member of %+v", v)
		}
	})
}
