package replicated

import (
	"context"
	"errors"
	"iter"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Event is what a handler emitted with member.Context.Emit.
type Event struct {
	Cursor Cursor
	Topic  string
	Data   []byte // it must not be changed
}

// Cursor is a place in the events of an object: after one of them. It is the same at every member.
// The zero Cursor is before the first event.
type Cursor struct {
	Version order.Version // of the command that emitted the event
	Index   uint64        // among the events of all commands of that message, from 1
}

// ErrCompacted is returned by Watch when events after the cursor are not kept any more. To start
// over, read the state with a query and watch from Now on, which is asked for before the query.
var ErrCompacted = errors.New("the events are not kept any more")

// Watch yields the events of an object after a cursor whose topics begin with prefix, in their
// order and each once, until ctx ends. A client's watch goes on when its member fails. An error
// ends the sequence: ErrCompacted if the watcher is too late, or that of ctx.
func Watch(ctx context.Context, t Target, after Cursor, prefix string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		to, at := t.Callee(), after.machine()
		for {
			events, next, err := to.Events(ctx, at, prefix)
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Event{}, err)
				return
			}
			for i := range events {
				e := &events[i]
				if !yield(Event{Cursor: cursorOf(e.Cursor), Topic: e.Topic, Data: e.Data}, nil) {
					return
				}
			}
			at = next
		}
	}
}

// Now returns the cursor after every event of commands that were answered before the call.
func Now(ctx context.Context, t Target) (Cursor, error) {
	c, err := t.Callee().Latest(ctx)
	return cursorOf(c), err
}

func cursorOf(c invoke.Cursor) Cursor {
	return Cursor{Version: order.Version{View: order.ViewID(c.View), Seq: order.Seq(c.Seq)}, Index: c.Index}
}

func (c Cursor) machine() invoke.Cursor {
	return invoke.Cursor{View: uint64(c.Version.View), Seq: uint64(c.Version.Seq), Index: c.Index}
}
