package replicated

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/replicated/internal/client"
)

// ErrDenied is returned to a client that may not do what it asks for.
var ErrDenied = errors.New("not allowed")

// Action is what a client asks for.
type Action uint8

// What a client asks for.
const (
	OpenSession Action = iota + 1 // before its first command
	CallCommand
	CallQuery
	WatchEvents
	DescribeObject // Client.Objects, which leaves out the objects that the client may not know of
	EnableObject   // Client.EnableOperations
)

func (a Action) String() string {
	switch a {
	case OpenSession:
		return "open a session"
	case CallCommand:
		return "call the command"
	case CallQuery:
		return "call the query"
	case WatchEvents:
		return "watch the events"
	case DescribeObject:
		return "have a description"
	case EnableObject:
		return "enable operations"
	}
	return fmt.Sprintf("action %d", uint8(a))
}

// AccessError says that a client may not do something. It is an ErrDenied.
type AccessError struct {
	Identity string // of the client
	Action   Action
	Object   string
	Name     string
	Reason   string
}

func (e *AccessError) Error() string {
	what := e.Action.String()
	if e.Name != "" {
		what = fmt.Sprintf("%s %q", what, e.Name)
	}
	return fmt.Sprintf("replicated: object %q: %q may not %s: %s", e.Object, e.Identity, what, e.Reason)
}

// Is makes it an ErrDenied.
func (e *AccessError) Is(target error) bool { return target == ErrDenied }

func parseDenied(b []byte) error {
	e, err := client.ParseRefused(b)
	if err != nil {
		return err
	}
	return &AccessError{Identity: e.Identity, Action: Action(e.Action), Object: e.Object, Name: e.Name, Reason: e.Reason}
}
