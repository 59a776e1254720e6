package member

import (
	"errors"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// appendOutcome appends the answer to a request whose record was applied.
func appendOutcome(b []byte, o *invoke.Outcome) []byte {
	if o.Err != nil {
		return (&relay.Answer{Said: relay.Away, Text: []byte(o.Err.Error())}).AppendTo(b)
	}
	return relay.AppendResult(b, uint64(o.Version.View), uint64(o.Version.Seq), o.Status, o.Session, o.Reply)
}

// appendError appends the answer to a request that failed at this member.
func appendError(b []byte, err error) []byte {
	kind := relay.Else
	var failed *replicated.HandlerError
	switch {
	case errors.As(err, &failed):
		kind = relay.Failed
	case errors.Is(err, replicated.ErrSessionEnded):
		kind = relay.Ended
	case errors.Is(err, replicated.ErrUnknownOperation):
		kind = relay.Unknown
	case errors.Is(err, replicated.ErrNotFinal):
		kind = relay.NotReached
	case errors.Is(err, replicated.ErrNotKept):
		kind = relay.NotKept
	case errors.Is(err, replicated.ErrReplyNotKept):
		kind = relay.Cut
	case errors.Is(err, invoke.ErrFull):
		kind = relay.Full
	case errors.As(err, new(*replicated.AccessError)):
		kind = relay.Denied
	case errors.Is(err, replicated.ErrTooManySessions):
		kind = relay.Crowded
	case errors.Is(err, replicated.ErrCompacted):
		kind = relay.Compacted
	case errors.Is(err, squall.ErrTooLarge):
		kind = relay.TooLarge
	case errors.Is(err, replicated.ErrNoKey):
		kind = relay.NoKey
	case errors.Is(err, squall.ErrNotPersistent):
		kind = relay.NotPersistent
	case errors.Is(err, relay.ErrMalformed): // every member would say the same
	default:
		kind = relay.Away
	}
	text := []byte(err.Error())
	if denied := (*replicated.AccessError)(nil); errors.As(err, &denied) {
		refused := relay.Refused{Action: byte(denied.Action), Identity: denied.Identity, Object: denied.Object, Name: denied.Name, Reason: denied.Reason}
		text = refused.AppendTo(nil)
	}
	return (&relay.Answer{Said: kind, Text: text}).AppendTo(b)
}
