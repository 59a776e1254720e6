package replicated

import (
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/invoke"
	"github.com/squall-go/squall/replicated/internal/relay"
)

// parseAnswer takes an answer apart. It returns invoke.ErrAway if another member is to be asked.
func parseAnswer(name string, b []byte) (v order.Version, reply []byte, err error) {
	a, err := relay.ParseAnswer(b)
	if err != nil {
		return v, nil, fmt.Errorf("replicated: %w", err)
	}
	v = order.Version{View: order.ViewID(a.View), Seq: order.Seq(a.Seq)}
	reply = a.Text
	switch a.Said {
	case relay.Done:
		return v, reply, nil
	case relay.Failed:
		return v, nil, &HandlerError{Operation: name, Text: string(reply)}
	case relay.Ended:
		return v, nil, ErrSessionEnded
	case relay.Denied:
		return v, nil, parseDenied(reply)
	case relay.Compacted:
		return v, nil, fmt.Errorf("replicated: %w", ErrCompacted)
	case relay.Unknown:
		return v, nil, fmt.Errorf("replicated: %w %q: %s", ErrUnknownOperation, name, reply)
	case relay.NotReached, relay.NotKept:
		return v, nil, &saidError{saidKinds[a.Said], string(reply)}
	case relay.Cut, relay.Crowded:
		return v, nil, fmt.Errorf("replicated: %s: %w", name, saidKinds[a.Said])
	case relay.Full:
		return v, nil, invoke.ErrFull
	case relay.Away:
		return v, nil, fmt.Errorf("%w: %s", invoke.ErrAway, reply)
	}
	err = fmt.Errorf("replicated: %s: %s", name, reply)
	if kind := saidKinds[a.Said]; kind != nil {
		err = &saidError{kind, err.Error()}
	}
	return v, nil, err
}

// saidKinds are the errors of answers.
var saidKinds = map[relay.Said]error{
	relay.NotReached: ErrNotFinal, relay.NotKept: ErrNotKept, relay.Cut: ErrReplyNotKept, relay.Crowded: ErrTooManySessions,
	relay.TooLarge: ErrTooLarge, relay.NoKey: ErrNoKey, relay.NotPersistent: ErrNotPersistent,
}

// saidError is an error of a member, in the member's words.
type saidError struct {
	kind error
	text string
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.kind }
