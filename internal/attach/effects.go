package attach

import "github.com/squall-go/squall/internal/relay"

// Verb is what an effect asks for.
type Verb uint8

// Effects. Those from Attached to Silent are for the group's relay: see Tell.
const (
	Say      Verb = iota + 1 // Frame goes to the other side of Link
	Tie                      // frames and blocks that come over Link by Channel belong to Group, from the node at Place
	Untie                    // that ends
	Attached                 // the node at Place has opened Group, too: what is for it goes over Link with Channel
	Left                     // it has left Group
	Gone                     // it cannot be reached any more
	Silent                   // it has said nothing for too long
	GiveUp                   // Link ends: its peer has been silent for too long
	Await                    // call Elapsed with Timer after a quarter of FailAfter
	Stranger                 // the peer of Link has opened Group with other members
)

// Effect is something to be done.
type Effect struct {
	Do      Verb
	Link    Link
	Group   Token
	Place   int
	Channel uint32
	Differs bool // Attached: the node has another configuration of the group
	Frame   relay.Control
	Timer   Timer
}

// Tell gives news of a node to the group's relay.
func (e *Effect) Tell(r *relay.Relay, out *relay.Effects) {
	switch e.Do {
	case Attached:
		r.Attached(e.Place, e.Channel, e.Differs, out)
	case Left:
		r.Left(e.Place, out)
	case Gone:
		r.Gone(e.Place, out)
	case Silent:
		r.Silent(e.Place, out)
	}
}

// Timer is what a node waits for. Numbers of channels are not used again, so it is of one tie.
type Timer struct {
	link    Link
	channel uint32
	held    bool // the end of the link is held back; else: an offer waits for its answer
}

// Effects are what a driver has to do. The caller owns and reuses them: Node appends.
type Effects []Effect

func (e *Effects) say(l *link, c relay.Control) {
	*e = append(*e, Effect{Do: Say, Link: l.id, Frame: c})
}

// of adds an effect on a tie.
func (e *Effects) of(t *tie, do Verb, channel uint32) {
	*e = append(*e, Effect{Do: do, Link: t.link.id, Group: t.group.token, Place: t.place, Channel: channel})
}

func (e *Effects) await(t *tie, held bool) {
	*e = append(*e, Effect{Do: Await, Timer: Timer{t.link.id, t.mine, held}})
}
