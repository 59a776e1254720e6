package replicated

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// ErrNoReply is the error of a Reply of a member that failed, or left, before it answered.
var ErrNoReply = errors.New("the member did not answer")

// Reply is what one member returned.
type Reply[R any] struct {
	Member order.NodeID
	Value  R
	Err    error // of the handler, a *HandlerError; or ErrNoReply
}

// Replies has a command executed, as Call does, and yields what each member returned, as it comes:
// every member of the view in which the command has its position. The sequence ends when n of them
// have answered, or when each one has answered or failed; with an n of 0 it is the latter. Members
// that failed are yielded with ErrNoReply. An error, which is yielded alone, ends the sequence:
// that of ctx, or why the command was not executed. A client gets all replies at once, at the end.
func (c *Command[A, R]) Replies(ctx context.Context, t Target, args A, n int) iter.Seq2[Reply[R], error] {
	return func(yield func(Reply[R], error) bool) {
		more, some := true, false
		to := t.Callee()
		err := to.InHandler()
		for err == nil {
			var at invoke.Target
			if at, err = locate(ctx, to, c.key, args); err != nil {
				break
			}
			err = at.Replies(ctx, c.name, &call[A, R]{of: c, args: args}, n, func(a invoke.Reply) bool {
				some = true
				more = yield(c.replied(a), nil)
				return more
			})
			if refused := (*invoke.Refusal)(nil); errors.As(err, &refused) {
				err = refusal(refused.Operation, refused.Status, refused.Reply)
			}
			if some || !invoke.Retry(ctx, err) {
				break
			}
			err = nil
		}
		if err != nil && more {
			yield(Reply[R]{}, err)
		}
	}
}

// replied decodes what one member answered.
func (c *Command[A, R]) replied(a invoke.Reply) Reply[R] {
	r := Reply[R]{Member: order.NodeID(a.Member)}
	switch a.Said {
	case invoke.Returned:
		r.Err = invoke.Decode(c.reply, a.Data, &r.Value, "reply", c.name)
	case invoke.Refused:
		r.Err = &HandlerError{Operation: c.name, Text: string(a.Data)}
	default:
		r.Err = fmt.Errorf("replicated: member %d: %w", a.Member, ErrNoReply)
	}
	return r
}
