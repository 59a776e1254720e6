package restart

import "github.com/squall-go/squall/views"

// Effects is what the world must do now, in the order of the fields. If it cannot keep State, the
// process stops.
type Effects struct {
	State     *State // to be made durable before anything below is done; nil: it did not change
	Stop      bool   // the reconciliation under way ends; Reconciled says when it has
	Reconcile *Reconciliation
	Sends     []Send
	Events    []Event
	Outcome   *Outcome // the end; nothing comes out any more
}

// Send is one message on its way to an address. It may be lost.
type Send struct {
	To      string
	Message Message
}

// Reconciliation brings this process's logs to the agreed ends. It ends in Core.Reconciled, with
// the same ballot.
type Reconciliation struct {
	Ballot Ballot
	Plan   []Agreed
}

// Outcome is how a restart ends for a process: it is a member of a view that is in force, or a
// group runs without it.
type Outcome struct {
	View *views.View
	// Running has addresses of members of a group that works. A process that joins it does so as
	// another incarnation.
	Running []string
}

func (e *Effects) say(to string, m Message) { e.Sends = append(e.Sends, Send{to, m}) }
func (e *Effects) tell(event Event)         { e.Events = append(e.Events, event) }
