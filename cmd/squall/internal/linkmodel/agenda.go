package linkmodel

import "time"

// The events in the life of a send, in that order.
const (
	ready   = iota // jitter is over
	begun          // the egress is free
	through        // all stages served it
	arrived        // the receiver has the block
)

// event is something that happens to a send.
type event struct {
	at   time.Duration
	turn uint64 // events of the same time happen in the order in which they were entered
	kind uint8
	flow int32 // whose send
	move int32 // which of its moves
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.turn < o.turn }

// agenda is the events to come: a binary heap. The one of the standard library would allocate for
// each of some millions.
type agenda struct {
	events []event
	turns  uint64
}

func (a *agenda) enter(e event) {
	e.turn = a.turns
	a.turns++
	a.events = append(a.events, e)
	for i := len(a.events) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.events[i].before(&a.events[parent]) {
			return
		}
		a.events[i], a.events[parent] = a.events[parent], a.events[i]
		i = parent
	}
}

// next takes the first event out. There must be one.
func (a *agenda) next() event {
	first, last := a.events[0], len(a.events)-1
	a.events[0] = a.events[last]
	a.events = a.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if a.events[child].before(&a.events[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}
