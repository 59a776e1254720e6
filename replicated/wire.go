package replicated

import (
	"fmt"

	"github.com/squall-go/squall/order"
	"github.com/squall-go/squall/replicated/internal/client"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// parseAnswer takes an answer apart. It returns invoke.ErrAway if another member is to be asked.
func parseAnswer(name string, b []byte) (v order.Version, reply []byte, err error) {
	a, err := client.ParseAnswer(b)
	if err != nil {
		return v, nil, fmt.Errorf("replicated: %w", err)
	}
	v = order.Version{View: order.ViewID(a.View), Seq: order.Seq(a.Seq)}
	reply = a.Text
	switch a.Said {
	case client.Done:
		return v, reply, nil
	case client.Failed:
		return v, nil, &HandlerError{Operation: name, Text: string(reply)}
	case client.Ended:
		return v, nil, ErrSessionEnded
	case client.Denied:
		return v, nil, parseDenied(reply)
	case client.Compacted:
		return v, nil, fmt.Errorf("replicated: %w", ErrCompacted)
	case client.Unknown:
		return v, nil, fmt.Errorf("replicated: %w %q: %s", ErrUnknownOperation, name, reply)
	case client.NotReached, client.NotKept:
		return v, nil, &saidError{saidKinds[a.Said], string(reply)}
	case client.Cut, client.Crowded:
		return v, nil, fmt.Errorf("replicated: %s: %w", name, saidKinds[a.Said])
	case client.Full:
		return v, nil, invoke.ErrFull
	case client.Away:
		return v, nil, fmt.Errorf("%w: %s", invoke.ErrAway, reply)
	}
	err = fmt.Errorf("replicated: %s: %s", name, reply)
	if kind := saidKinds[a.Said]; kind != nil {
		err = &saidError{kind, err.Error()}
	}
	return v, nil, err
}

// saidKinds are the errors of answers.
var saidKinds = map[client.Said]error{
	client.NotReached: ErrNotFinal, client.NotKept: ErrNotKept, client.Cut: ErrReplyNotKept, client.Crowded: ErrTooManySessions,
	client.TooLarge: ErrTooLarge, client.NoKey: ErrNoKey, client.NotPersistent: ErrNotPersistent,
}

// saidError is an error of a member, in the member's words.
type saidError struct {
	kind error
	text string
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.kind }
