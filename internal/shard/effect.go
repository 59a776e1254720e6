package shard

import (
	"time"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Stay numbers a process's stays in the shards of a subgroup, from 1. Activity numbers what is
// under way for them; 0: nothing.
type (
	Stay     int
	Activity uint64
)

// Verb says what is to be done. The verbs up to Rest are activities: they take time, and Ended
// reports their results.
type Verb uint8

const (
	FetchState   Verb = iota + 1 // have the application restore the state that Source gives or, of a log, learn where it ends
	FillLog                      // make the log what Source has up to Last: cut what it does not have, import the rest
	EmptyLog                     // cut all of the log: the others have nothing
	SyncLog                      // wait until all of the log is durable
	CompleteLog                  // note on disk that the log lacks nothing of what came before View
	Recover                      // have the application take over the log
	RestoreEmpty                 // have the application begin with nothing
	HandOver                     // give the backlog to the log and the application until nothing is left
	Rest                         // let Pause pass

	Hold          // keep what the stay's shard delivers in a backlog
	LackLog       // note that the log lacks what came before View
	HoldLog       // count nothing in the log as persisted: activities append to it from here on
	FreeLog       // the log is complete, and the loop alone appends to it again
	AwaitApp      // say with Ready when the application has got everything of earlier views
	Drop          // forget the backlog, and whatever comes
	Silence       // hand nothing more to the application; the log still gets it
	Live          // pass deliveries on to the log and the application
	Over          // pass deliveries on to the log alone, if the log is complete
	Cancel        // end Activity early
	OfferState    // hand over the state at the boundary of View in subgroup Index to the members that are fresh there
	WithholdState // tell these members that this process does not have the state
	Thank         // tell To, the members that keep the state for this process, that it needs it no more
	Arrive        // end the waits for the state of this stay
	SourceFailed  // tell that Source did not give what it was asked for: Err
	Begun         // tell that the application began with nothing
	Restored      // tell that the application has the state, and what was delivered meanwhile
	Fail          // halt the group here: Err
)

// Effect is something to be done for a stay.
type Effect struct {
	Do       Verb
	Stay     Stay
	Activity Activity
	Source   views.Member
	Last     order.Version // zero: nothing
	View     order.ViewID
	Index    int // of the subgroup in that view
	Pause    time.Duration
	To       []views.Member // Thank
	Err      error
}

// Outcome says how an activity ended.
type Outcome uint8

const (
	Done    Outcome = iota // all of it is done
	Later                  // the source cannot give it yet
	Refused                // the source will never give it
	Failed                 // the source did not give it, and may another time
	Fatal                  // this process itself cannot go on
	Dropped                // HandOver: the backlog was dropped
)

// Result is how an activity ended.
type Result struct {
	Outcome  Outcome
	Err      error         // why it is not Done
	Last     order.Version // FetchState of a log: where the log ends; zero: it is empty
	Progress bool          // FillLog: the source gave something
}
