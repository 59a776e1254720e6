package join

import "github.com/squall-go/squall/views"

// Ticket names a conversation of an Acceptor, of a Joiner or of the first member. The side that
// opens it numbers it, from 1 up, and uses no number twice.
type Ticket uint64

// Effects is what the world must do now, in the order of the fields.
type Effects struct {
	Dials   []Dial   // of a Joiner
	Probes  []Probe  // of an Acceptor
	Says    []Say    // in order
	HangUps []Ticket // behind what was said; nothing more is heard from these
	Events  []Event
	Changed bool // of an Acceptor: Candidates is another list now
}

// Dial opens a conversation. It ends in Connected or Failed.
type Dial struct {
	Ticket Ticket
	Addr   string
	Member Met // the member that has to answer there; none: any process
}

// Probe tries whether a process can be reached at its address: that of a joiner, which ends in
// Probed, or the member that holds its place, which ends in HolderTried.
type Probe struct {
	Ticket Ticket
	Member views.Member
	Holds  bool
}

// Say is one message on its way: a Request opens the conversation, a Message is all that follows.
type Say struct {
	To   Ticket
	What any
}

func (e *Effects) say(to Ticket, what any) { e.Says = append(e.Says, Say{to, what}) }
func (e *Effects) tell(event Event)        { e.Events = append(e.Events, event) }
func (e *Effects) hangUp(t Ticket)         { e.HangUps = append(e.HangUps, t) }

// end says a last word.
func (e *Effects) end(to Ticket, m Message) {
	e.say(to, m)
	e.hangUp(to)
}
