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

// LogError is the end of a reconciliation in which one of the process's own logs failed: that log
// takes nothing any more, so no other attempt can succeed.
type LogError struct{ Err error }

// Error implements error.
func (e LogError) Error() string { return e.Err.Error() }

// Unwrap returns what the log said.
func (e LogError) Unwrap() error { return e.Err }

// Outcome is how a restart ends for a process: it is a member of a view that is in force, a group
// runs without it, or it cannot go on.
type Outcome struct {
	View *views.View
	// Running has addresses of members of a group that works. A process that joins it does so as
	// another incarnation.
	Running []string
	// Err is a LogError: the process has to end, so that the others do not wait for its logs.
	Err error
}

func (e *Effects) say(to string, m Message) { e.Sends = append(e.Sends, Send{to, m}) }
func (e *Effects) tell(event Event)         { e.Events = append(e.Events, event) }
