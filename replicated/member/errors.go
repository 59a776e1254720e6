package member

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall"
)

// ErrNotOpen is returned by calls on an object that no group was opened with.
var ErrNotOpen = errors.New("the object is in no open group")

// PanicError is the reason for which a group halts at a member where a handler panicked.
type PanicError struct {
	Object    string
	Operation string
	Version   squall.Version // of the command
	Value     any            // of the panic
	Stack     string
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("replicated: object %q: the handler of %q panicked at version %v: %v\n%s", e.Object, e.Operation, e.Version, e.Value, e.Stack)
}

// DivergedError says that the copies of two members differ (Object.Check).
type DivergedError struct {
	Object        string
	Commands      uint64 // that were executed when they differed
	Member, Other squall.NodeID
}

func (e *DivergedError) Error() string {
	return fmt.Sprintf("replicated: object %q: the copies of members %d and %d differ after %d commands: a handler does not do the same everywhere",
		e.Object, e.Member, e.Other, e.Commands)
}
