package replicated

import (
	"context"
	"errors"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Errors of queries about the past, to be tested with errors.Is.
var (
	// ErrNotFinal is returned by a query about a version or a time that is not final yet, when its
	// context ends. The same query can be made again. A client whose context ends before a member has
	// answered gets the error of the context alone.
	ErrNotFinal = errors.New("that is not final yet")
	// ErrNotKept is returned by a query about a version or a time before the log's snapshot: the
	// commands after it were dropped from the log of the member that was asked. Take snapshots less
	// often to keep more. Another member may have an older snapshot.
	ErrNotKept = errors.New("the log does not go back that far")
)

// At runs a query on the state that a persistent object had after a version: the version of a
// command (Future.WaitVersion, member.Context.Version), or any other position in the order. All
// commands of the message there are executed. It waits until everything up to there is on every
// member's disk. So every member gives the same answer, always.
func (q *Query[A, R]) At(ctx context.Context, t Target, v order.Version, args A) (R, error) {
	return q.past(ctx, t.Callee(), invoke.Moment{Version: v}, args)
}

// AtTime is like At, with the state after the last command whose time is not after at. It waits
// until no further command can have such a time.
func (q *Query[A, R]) AtTime(ctx context.Context, t Target, at order.Time, args A) (R, error) {
	return q.past(ctx, t.Callee(), invoke.Moment{Timed: true, Time: at}, args)
}

func (q *Query[A, R]) past(ctx context.Context, to invoke.Target, m invoke.Moment, args A) (R, error) {
	r := &read[A, R]{of: q}
	r.Args = args
	err := to.InHandler()
	for err == nil {
		var at invoke.Target
		if at, err = locate(ctx, to, q.key, args); err == nil {
			err = at.Past(ctx, q.name, m, r)
		}
		if !invoke.Retry(ctx, err) {
			break
		}
		err = nil
	}
	return r.Value, err
}
