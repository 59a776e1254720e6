package life

import (
	"fmt"
	"time"

	"github.com/squall-go/squall/internal/restart"
	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Verb is what an effect asks for.
type Verb uint8

// Effects of a Core, in the order in which a process may meet them. What is noted is durable when
// it is done.
const (
	OpenLog      Verb = iota + 1 // Log, a new one if it is not on the disk; Damaged: its end cannot be read
	NoteLack                     // Log: it lacks what other members have
	CutDamage                    // opens Log without its damaged end, Err; Damaged: nothing of it can be read
	SetAside                     // sets aside what there is of Log, and opens a new one
	ServeLogs                    // other processes may read the logs
	NoteSelf                     // the identity of this process, a new one if Anew
	Restart                      // agrees with the other members of the last view: View, or what runs in its place at Running
	FindMember                   // Addr of a member, if there is one at Ask
	CatchUp                      // Log gets what Source has, up to Last, or its end now if that is zero; Keep: nothing is dropped for that
	Join                         // asks at Ask to become a member: View
	NoteView                     // that the process is in View, where Logs lack what other members have
	Begin                        // the process is a member of View
	Fail                         // the process ends: Err
	NoteDecision                 // that View follows the one in force; nil: the group ends
	EmptyLog                     // Log is emptied; of a Reconciliation
	Rest                         // for Pause; of a Reconciliation
	Finish                       // the logs are as agreed, or Err; of a Reconciliation
)

// Effect is something to be done.
type Effect struct {
	Do     Verb
	Log    restart.LogID
	Logs   []restart.LogID
	Source restart.Source
	Last   order.Version
	Keep   bool
	Anew   bool
	Ask    []string
	View   *views.View
	Pause  time.Duration
	Err    error
}

// Outcome is how an effect came out.
type Outcome uint8

// Outcomes of an effect.
const (
	Done    Outcome = iota
	Failed          // CatchUp: the source did not give what it was asked for
	Damaged         // OpenLog, CutDamage: the log cannot be read
	Fatal           // the process itself failed
	Stopped         // CatchUp, Rest: it is not wanted any more; of a Reconciliation
)

// Result says how an effect came out, and what it brought.
type Result struct {
	Outcome  Outcome
	Err      error
	Progress bool // CatchUp: the source gave something
	View     *views.View
	Running  []string
	Addr     string
}

// NowhereElse returns the error of damage to a log that no other process has, with what can be done
// about it.
func NowhereElse(damage error) error {
	return fmt.Errorf("%w; but no other member of the last view has the log: restore the directory from a copy, or lose the damaged records with "+
		"`squall log repair DIRECTORY`, with --give-up if all of it is missing", damage)
}
