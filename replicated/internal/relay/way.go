package relay

import (
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/machine"
)

// Way is how far a member is with what the handlers of its object sent to one destination. Each
// item goes with the cursor of the one before it, and the destination executes no item before that
// one (RO8), so items need no wait for each other.
//
// Invariant: confirmed ≤ sent.
type Way struct {
	sent      invoke.Cursor // everything up to here was sent or dropped
	before    invoke.Cursor // of the last item that was sent and not dropped; zero if the next item is the oldest of the outbox
	confirmed invoke.Cursor // everything up to here was executed or dropped
	dropped   []dropped
	attempt   uint64 // counts the restarts
	lost      error  // why items of this attempt were not executed
}

// dropped is an item that no message can carry. It counts as executed when the items before it do.
type dropped struct{ before, at invoke.Cursor }

// Next returns copies of the next items, at most so many, oldest first.
func (w *Way) Next(m *machine.Machine, to machine.Destination, most int) []machine.Sent {
	all := m.Outgoing(to, invoke.Cursor{})
	next := m.Outgoing(to, w.sent)
	if len(next) == len(all) { // what came before was executed, and a record said so
		w.before = invoke.Cursor{}
	}
	return append([]machine.Sent(nil), next[:min(len(next), most)]...)
}

// Before returns the cursor of the item that the destination executes before the next one, or zero.
func (w *Way) Before() invoke.Cursor { return w.before }

// Attempt returns the number under which the outcome of the next item is reported.
func (w *Way) Attempt() uint64 { return w.attempt }

// Sent notes that the next item was sent.
func (w *Way) Sent(at invoke.Cursor) { w.sent, w.before = at, at }

// Drop passes over the next item.
func (w *Way) Drop(at invoke.Cursor) {
	w.dropped = append(w.dropped, dropped{w.sent, at})
	w.sent = at
	w.passDropped()
}

func (w *Way) passDropped() {
	for len(w.dropped) > 0 && !w.confirmed.Less(w.dropped[0].before) {
		if w.confirmed.Less(w.dropped[0].at) {
			w.confirmed = w.dropped[0].at
		}
		w.dropped = w.dropped[1:]
	}
}

// Confirm notes that an item was executed, and so were all before it.
func (w *Way) Confirm(at invoke.Cursor) {
	if w.confirmed.Less(at) {
		w.confirmed = at
		w.passDropped()
	}
}

// Confirmed returns up to where everything was executed or dropped.
func (w *Way) Confirmed() invoke.Cursor { return w.confirmed }

// Lose notes why an item of an attempt was not executed. The items behind it are sent again after
// Restart.
func (w *Way) Lose(attempt uint64, why error) {
	if attempt == w.attempt && w.lost == nil {
		w.lost = why
	}
}

// Restart begins again behind what was confirmed, if something was lost, and returns why.
func (w *Way) Restart() error {
	why := w.lost
	if why != nil {
		w.sent, w.before, w.dropped, w.lost = w.confirmed, w.confirmed, nil, nil
		w.attempt++
	}
	return why
}
