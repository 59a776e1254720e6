package member

import (
	"fmt"
	"slices"

	"github.com/squall-go/squall/internal/callers"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// A handler does not wait. What would wait for the group finds out here whether a handler calls it:
// the stack of a command's handler has applyAll, or rebuild if it rebuilds the past, and that of a
// query's handler has look.

// inHandler returns ErrInHandler if the caller is a handler of this object, or of another one of
// the group: the group's loop may execute the commands of both, and it waits for queries. While one
// of them executes a command, the handlers of other groups get it, too.
func (o *object) inHandler() error {
	if err := o.inCommand(); err != nil {
		return err
	}
	if o.depth() > 0 {
		return o.inQuery()
	}
	return nil
}

func (o *object) inQuery() error {
	return fmt.Errorf("replicated: object %q, in a query: %w", o.sg.Name, replicated.ErrInHandler)
}

// depth returns how many queries of the group the caller is in: 2 if it is the handler of a query
// that another query's handler called.
func (o *object) depth() int {
	if !slices.ContainsFunc(o.together, func(other *object) bool { return other.queries.Load() > 0 }) {
		return 0
	}
	return looks()
}

// inCommand returns ErrInHandler if the caller is the handler of a command.
func (o *object) inCommand() error {
	if !slices.ContainsFunc(o.together, func(other *object) bool { return other.executes.Load() > 0 }) {
		return nil
	}
	if callers.Calls(path+".(*object).applyAll", path+".(*object).rebuild") > 0 {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, replicated.ErrInHandler)
	}
	return nil
}

// read runs a query of this process. The lock is held.
func (o *object) read(b *bound, r invoke.Reading) (typed bool, err error) {
	o.queries.Add(1)
	defer o.queries.Add(-1)
	look(func() { typed, err = b.read(o.state, o.reading(), r) })
	return typed, err
}

// look calls f, which looks at a state whose lock is held.
//
//go:noinline
func look(f func()) { f() }

// looks returns how many calls of look the caller is in.
func looks() int { return callers.Calls(path + ".look") }

// path is the name by which the runtime knows this package.
const path = "github.com/squall-go/squall/replicated/member"
