package join

import (
	"fmt"
	"sync"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/views"
)

// Event is something that happened while the first view was formed, or while a process joined.
// String is for people; switch on the type otherwise.
type Event interface{ String() string }

type (
	// JoinRequested: the first member holds a place for a process.
	JoinRequested struct {
		Member        views.Member
		Asked, Expect int // places taken, the first member's included
	}
	// Refused: the first member, or a member, refused a process: with Final permanently, and
	// otherwise until the next request.
	Refused struct {
		ID    order.NodeID
		Addr  string
		Text  string
		Final bool
	}
	// Forgotten: a process went away, or was sent away, before it was proposed as a member; its
	// place is free.
	Forgotten struct {
		Member views.Member
		Err    error
	}
	// ViewProposed: the View is on its way to its members.
	ViewProposed struct{ View *views.View }
	// ViewInstalled: every member is ready.
	ViewInstalled struct{ View *views.View }
	// Aborted: the attempt ended.
	Aborted struct{ Err error }
	// AttemptFailed: a joiner will ask again.
	AttemptFailed struct {
		Addr string
		Err  error
	}
	// Held: a joiner has its place and waits for the others.
	Held struct{ Addr string }
	// Redirected: a joiner was sent to the first member, or to the leader.
	Redirected struct{ From, To string }
	// Applied: a process asked the leader of a running group to become a member.
	Applied struct{ Member views.Member }
	// Meeting: a joiner greets the members of a view, except the member that asked it to.
	Meeting struct {
		Addr    string
		View    order.ViewID
		Members int
	}
	// Reached: a joiner has greeted all members of a view, and can be proposed.
	Reached struct {
		Member views.Member
		View   order.ViewID
	}
	// Admitted: a joiner is a member, from this view on.
	Admitted struct {
		Member views.Member
		View   order.ViewID
	}
)

func (e JoinRequested) String() string {
	return fmt.Sprintf("%s asked: %d of %d", node(e.Member.ID, e.Member.Addr), e.Asked, e.Expect)
}

func (e Refused) String() string {
	if e.Final {
		return fmt.Sprintf("%s refused: %s", node(e.ID, e.Addr), e.Text)
	}
	return fmt.Sprintf("%s told to ask again: %s", node(e.ID, e.Addr), e.Text)
}

func (e Forgotten) String() string {
	return fmt.Sprintf("%s forgotten: %v", node(e.Member.ID, e.Member.Addr), e.Err)
}

func (e ViewProposed) String() string {
	return fmt.Sprintf("view %d proposed: %s", e.View.ID, roster(e.View.Members))
}

func (e ViewInstalled) String() string {
	return fmt.Sprintf("view %d installed: %s", e.View.ID, roster(e.View.Members))
}

func (e Aborted) String() string { return e.Err.Error() }

func (e AttemptFailed) String() string { return fmt.Sprintf("asking %s failed: %v", e.Addr, e.Err) }

func (e Held) String() string { return fmt.Sprintf("place held at %s", e.Addr) }

func (e Redirected) String() string { return fmt.Sprintf("redirected from %s to %s", e.From, e.To) }

func (e Applied) String() string { return node(e.Member.ID, e.Member.Addr) + " asked to join" }

func (e Meeting) String() string {
	return fmt.Sprintf("sent by %s to greet %d other members of view %d", e.Addr, e.Members, e.View)
}

func (e Reached) String() string {
	return fmt.Sprintf("%s reached all members of view %d", node(e.Member.ID, e.Member.Addr), e.View)
}

func (e Admitted) String() string {
	return fmt.Sprintf("%s is a member from view %d on", node(e.Member.ID, e.Member.Addr), e.View)
}

// emitter calls a listener one event at a time.
type emitter struct {
	mu       sync.Mutex
	listener func(Event)
}

func (e *emitter) emit(event Event) {
	if e.listener == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listener(event)
}
