package viewchange

import (
	"fmt"
	"strings"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Event is a move of a view change at one member. String is for people; switch on the type
// otherwise.
type Event interface{ String() string }

type (
	// Suspected: a member is taken for failed, for good.
	Suspected struct {
		Member views.Member
		Rank   order.Rank
		Err    error
	}
	// Proposed: this member leads, and proposes the next view; none means that the group ends.
	Proposed struct {
		Ballot        Ballot
		View          *views.View
		Removed, Left []views.Member
	}
	// Wedged: nothing is sent or received in the view any more.
	Wedged struct{}
	// Decided: a decision is in this member's row, its own or its leader's.
	Decided struct {
		Ballot   Ballot
		Decision *Decision
	}
)

func (b Ballot) String() string { return fmt.Sprintf("%d of rank %d", b.Attempt(), b.Leader()) }

func (e Suspected) String() string {
	return fmt.Sprintf("node %d (rank %d, %s) is suspected: %v", e.Member.ID, e.Rank, e.Member.Addr, e.Err)
}

func (e Proposed) String() string {
	what := "the end"
	if e.View != nil {
		what = fmt.Sprintf("view %d of %s", e.View.ID, names(e.View.Members))
	}
	return fmt.Sprintf("ballot %v: proposed %s; failed: %s; left: %s", e.Ballot, what, names(e.Removed), names(e.Left))
}

func (Wedged) String() string { return "the view is wedged" }

func (e Decided) String() string {
	if e.Decision.View == nil {
		return fmt.Sprintf("ballot %v: the end is decided", e.Ballot)
	}
	return fmt.Sprintf("ballot %v: view %d is decided", e.Ballot, e.Decision.View.ID)
}

// names returns the node ids of members as text.
func names(members []views.Member) string {
	if len(members) == 0 {
		return "none"
	}
	var list []string
	for _, m := range members {
		list = append(list, fmt.Sprintf("node %d", m.ID))
	}
	return strings.Join(list, ", ")
}
