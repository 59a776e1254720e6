package restart

import (
	"fmt"
	"strings"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Event is something that happened during a restart. String is for people; switch on the type
// otherwise.
type Event interface{ String() string }

type (
	// Waiting: the restart cannot go on, and why. It is told when it changes.
	Waiting struct {
		For []order.NodeID // the missing processes, or the leading one
		Why string
	}
	// Learned: another process knows a newer view.
	Learned struct {
		View *views.View
		From views.Member
	}
	// Proposed: this process leads, and proposes a view to the processes that are here.
	Proposed struct {
		Ballot Ballot
		View   *views.View
	}
	// Completing: this process leads, and found a view that may have been decided before.
	Completing struct {
		Ballot Ballot
		View   *views.View
	}
	// Reconciling: this process brings its logs to the agreed ends.
	Reconciling struct {
		Ballot Ballot
		Plan   []Agreed
	}
	// Reconciled: it has, or it failed and is tried again.
	Reconciled struct {
		Ballot Ballot
		Err    error
	}
	// Superseded: another process leads with a higher ballot.
	Superseded struct{ Ballot, By Ballot }
	// Ignored: what a process says is of no use here, and why.
	Ignored struct {
		From views.Member
		Why  string
	}
	// Restarted: a view is in force, and this process is in it.
	Restarted struct{ View *views.View }
	// Found: a group runs.
	Found struct{ Addrs []string }
)

func (e Waiting) String() string {
	if len(e.For) == 0 {
		return "waiting: " + e.Why
	}
	return fmt.Sprintf("waiting for %s: %s", nodes(e.For), e.Why)
}

func (e Learned) String() string {
	return fmt.Sprintf("view %d of %s is in force, as node %d at %s says", e.View.ID, ids(e.View.Members), e.From.ID, e.From.Addr)
}

func (e Proposed) String() string {
	return fmt.Sprintf("ballot %v: proposed view %d of %s", e.Ballot, e.View.ID, ids(e.View.Members))
}

func (e Completing) String() string {
	return fmt.Sprintf("ballot %v: view %d of %s may be in force already", e.Ballot, e.View.ID, ids(e.View.Members))
}

func (e Reconciling) String() string {
	var logs []string
	for _, a := range e.Plan {
		logs = append(logs, fmt.Sprintf("%v up to %v of node %d", a.ID, a.End, a.Sources[0].Node))
	}
	return fmt.Sprintf("ballot %v: bringing logs to their agreed ends: %s", e.Ballot, strings.Join(logs, ", "))
}

func (e Reconciled) String() string {
	if e.Err != nil {
		return fmt.Sprintf("ballot %v: the logs are not at their agreed ends: %v", e.Ballot, e.Err)
	}
	return fmt.Sprintf("ballot %v: the logs are at their agreed ends", e.Ballot)
}

func (e Superseded) String() string { return fmt.Sprintf("ballot %v gives way to %v", e.Ballot, e.By) }

func (e Ignored) String() string {
	return fmt.Sprintf("node %d at %s is ignored: %s", e.From.ID, clip(e.From.Addr), e.Why)
}

func (e Restarted) String() string {
	return fmt.Sprintf("view %d of %s is in force", e.View.ID, ids(e.View.Members))
}

func (e Found) String() string { return "a group runs: " + strings.Join(e.Addrs, ", ") }

func nodes(list []order.NodeID) string {
	var text []string
	for _, id := range list {
		text = append(text, fmt.Sprintf("node %d", id))
	}
	return strings.Join(text, ", ")
}
