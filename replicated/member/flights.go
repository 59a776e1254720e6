package member

import (
	"errors"
	"sync"

	"github.com/squall-go/squall/internal/mutant"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// errInFlight is what an earlier request for a command gets.
var errInFlight = errors.New("a later request waits for the command, which is in the order")

// flights are the records of commands from handlers that this process has sent and not applied yet.
// A command is forwarded again when its order takes long: then its record is not sent again, at
// most once in each view.
type flights struct {
	mu  sync.Mutex
	all map[origin]*flight
}

// origin is which handler's command is sent, and in which view.
type origin struct {
	source string
	at     invoke.Cursor
	view   uint64
}

// flight is the call of a record. Only the last request for the command waits for it: the member
// that forwards has given up its earlier request, or another member forwards now.
type flight struct {
	of     *flights
	origin origin
	waits  invoke.Pending
	joined bool // by a later request than that whose record it is
}

func originOf(r *client.Request, view uint64) origin {
	source, _, at := r.Forwarded()
	return origin{source, at, view}
}

// join has p wait for the record of a command. It returns nil if the record is in flight; else the
// caller sends it with the returned call.
func (f *flights) join(from origin, p invoke.Pending) *flight {
	f.mu.Lock()
	before := f.all[from]
	if before == nil || mutant.Enabled && mutant.On(mutant.OrderedTwice) {
		defer f.mu.Unlock()
		if f.all == nil {
			f.all = map[origin]*flight{}
		}
		one := &flight{of: f, origin: from, waits: p}
		f.all[from] = one
		return one
	}
	earlier := before.waits
	before.waits, before.joined = p, true
	f.mu.Unlock()
	earlier.Complete(&invoke.Outcome{Err: errInFlight})
	earlier.Signal()
	return nil
}

// land ends a flight, and returns what waits for it.
func (f *flight) land() invoke.Pending {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.all[f.origin] == f {
		delete(f.of.all, f.origin)
	}
	return f.waits
}

// unsent ends the flight of a record that was not sent. It reports whether the record's request
// still waits for it: a later request gets the error.
func (f *flight) unsent(err error) bool {
	later := f.land()
	if !f.joined {
		return true
	}
	later.Complete(&invoke.Outcome{Err: err})
	later.Signal()
	return false
}

func (f *flight) Complete(o *invoke.Outcome) { f.land().Complete(o) }

// Signal follows Complete, after which waits does not change.
func (f *flight) Signal() { f.waits.Signal() }

// Typed implements invoke.Pending.
func (f *flight) Typed() any { return nil }
