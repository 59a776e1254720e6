package member

import (
	"errors"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// appendOutcome appends the answer to a request whose record was applied.
func appendOutcome(b []byte, o *invoke.Outcome) []byte {
	if o.Err != nil {
		return (&client.Answer{Said: client.Away, Text: []byte(o.Err.Error())}).AppendTo(b)
	}
	return relay.AppendResult(b, uint64(o.Version.View), uint64(o.Version.Seq), o.Status, o.Session, o.Reply)
}

// kinds are the answers to errors, in the order in which they are looked for.
var kinds = []struct {
	err  error
	said client.Said
}{
	{replicated.ErrSessionEnded, client.Ended},
	{replicated.ErrUnknownOperation, client.Unknown},
	{replicated.ErrNotFinal, client.NotReached},
	{replicated.ErrNotKept, client.NotKept},
	{replicated.ErrReplyNotKept, client.Cut},
	{invoke.ErrFull, client.Full},
	{replicated.ErrTooManySessions, client.Crowded},
	{replicated.ErrCompacted, client.Compacted},
	{squall.ErrTooLarge, client.TooLarge},
	{replicated.ErrNoKey, client.NoKey},
	{squall.ErrNotPersistent, client.NotPersistent},
	{client.ErrMalformed, client.Else}, // every member would say the same
}

// saidOf is the kind of the answer to an error.
func saidOf(err error) client.Said {
	if errors.As(err, new(*replicated.HandlerError)) {
		return client.Failed
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.said
		}
	}
	return client.Away
}

// appendError appends the answer to a request that failed at this member.
func appendError(b []byte, err error) []byte {
	if denied := (*replicated.AccessError)(nil); errors.As(err, &denied) {
		refused := client.Refused{Action: byte(denied.Action), Identity: denied.Identity, Object: denied.Object, Name: denied.Name, Reason: denied.Reason}
		return (&client.Answer{Said: client.Denied, Text: refused.AppendTo(nil)}).AppendTo(b)
	}
	return (&client.Answer{Said: saidOf(err), Text: []byte(err.Error())}).AppendTo(b)
}
