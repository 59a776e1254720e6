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

// kinds are the answers to errors, in the order in which they are looked for.
var kinds = []struct {
	err  error
	said relay.Said
}{
	{replicated.ErrSessionEnded, relay.Ended},
	{replicated.ErrUnknownOperation, relay.Unknown},
	{replicated.ErrNotFinal, relay.NotReached},
	{replicated.ErrNotKept, relay.NotKept},
	{replicated.ErrReplyNotKept, relay.Cut},
	{invoke.ErrFull, relay.Full},
	{replicated.ErrTooManySessions, relay.Crowded},
	{replicated.ErrCompacted, relay.Compacted},
	{squall.ErrTooLarge, relay.TooLarge},
	{replicated.ErrNoKey, relay.NoKey},
	{squall.ErrNotPersistent, relay.NotPersistent},
	{relay.ErrMalformed, relay.Else}, // every member would say the same
}

// saidOf is the kind of the answer to an error.
func saidOf(err error) relay.Said {
	if errors.As(err, new(*replicated.HandlerError)) {
		return relay.Failed
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.said
		}
	}
	return relay.Away
}

// appendError appends the answer to a request that failed at this member.
func appendError(b []byte, err error) []byte {
	if denied := (*replicated.AccessError)(nil); errors.As(err, &denied) {
		refused := relay.Refused{Action: byte(denied.Action), Identity: denied.Identity, Object: denied.Object, Name: denied.Name, Reason: denied.Reason}
		return (&relay.Answer{Said: relay.Denied, Text: refused.AppendTo(nil)}).AppendTo(b)
	}
	return (&relay.Answer{Said: saidOf(err), Text: []byte(err.Error())}).AppendTo(b)
}
