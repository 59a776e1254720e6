package member

import (
	"fmt"

	"github.com/squall-go/squall/internal/callers"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// inside is the goroutines that run handlers of the objects of a group. A handler does not wait:
// what would wait for the group finds out here whether such a handler calls it.
type inside struct {
	commands callers.Set // that execute commands
	queries  callers.Set // that look at a state whose lock is held
}

// inHandler returns ErrInHandler if the caller is a handler of this object, or of another one of
// the group: the group's loop may execute the commands of both, and it waits for queries.
func (o *object) inHandler() error {
	if err := o.inCommand(); err != nil {
		return err
	}
	if o.inside.queries.HasCaller() {
		return o.inQuery()
	}
	return nil
}

func (o *object) inQuery() error {
	return fmt.Errorf("replicated: object %q, in a query: %w", o.sg.Name, replicated.ErrInHandler)
}

// inCommand returns ErrInHandler if the caller is the handler of a command.
func (o *object) inCommand() error {
	if o.inside.commands.HasCaller() {
		return fmt.Errorf("replicated: object %q: %w", o.sg.Name, replicated.ErrInHandler)
	}
	return nil
}

// read runs a query of this process. The lock is held.
func (o *object) read(b *bound, r invoke.Reading) (typed bool, err error) {
	o.look(func() { typed, err = b.read(o.state, o.reading(), r) })
	return typed, err
}

// look calls f, which looks at a state whose lock is held.
//
//go:noinline
func (o *object) look(f func()) { o.inside.queries.Run(f) }

// depth returns how many queries the caller is in, of this group or others, while a query of this
// one runs: 2 if it is the handler of a query that another query's handler called.
func (o *object) depth() int {
	if o.inside.queries.IsEmpty() {
		return 0
	}
	return callers.Calls("github.com/squall-go/squall/replicated/member.(*object).look")
}
