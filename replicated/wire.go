package replicated

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall"
	"github.com/squall-go/squall/replicated/internal/relay"
	"github.com/squall-go/squall/ripc"
)

// What a client asks, and a member answers, in calls of package ripc. docs/formats.md has the layout.

const (
	askOpen     = relay.Open
	askCommand  = relay.Command
	askQuery    = relay.Query
	askClose    = relay.Close
	askTouch    = relay.Touch
	askWatch    = relay.Watch
	askNow      = relay.Now
	askReplies  = relay.Replies
	askDescribe = relay.Describe
	askLocate   = relay.Locate
	askForward  = relay.Forward
	askGroup    = relay.Group
	askEnded    = relay.Acknowledge

	askAtVersion = relay.AtVersion
	askAtTime    = relay.AtTime

	saidDone      = relay.Done
	saidFailed    = relay.Failed
	saidEnded     = relay.Ended
	saidUnknown   = relay.Unknown
	saidElse      = relay.Else
	saidAway      = relay.Away
	saidCompacted = relay.Compacted
	saidDenied    = relay.Denied
	saidNotYet    = relay.NotReached
	saidNotKept   = relay.NotKept
	saidCut       = relay.Cut
	saidCrowded   = relay.Crowded
	saidFull      = relay.Full
	saidTooLarge  = relay.TooLarge
	saidNoKey     = relay.NoKey
	saidNoLog     = relay.NotPersistent

	answerHead = relay.AnswerHead
)

var errMalformed = relay.ErrMalformed

// service returns the id of the ripc service for an object of a group. It has the identity of the group: what a client asks of one group, another
// one of the same name does not answer.
func service(cluster, group, object string) ripc.ID {
	return ripc.ID("squall object\x00" + cluster + "\x00" + group + "\x00" + object)
}

// presence returns the name under which a member's endpoint can be found by processes of its host.
func presence(addr string) ripc.ID { return ripc.ID("squall objects\x00" + addr) }

// appendOutcome appends the answer to a request whose record was applied.
func appendOutcome(b []byte, o *outcome) []byte {
	if o.err != nil {
		return (&relay.Answer{Said: saidAway, Text: []byte(o.err.Error())}).AppendTo(b)
	}
	return relay.AppendResult(b, uint64(o.version.View), uint64(o.version.Seq), o.status, o.session, o.reply)
}

// appendError appends the answer to a request that failed at this member.
func appendError(b []byte, err error) []byte {
	kind := saidElse
	var failed *HandlerError
	switch {
	case errors.As(err, &failed):
		kind = saidFailed
	case errors.Is(err, ErrSessionEnded):
		kind = saidEnded
	case errors.Is(err, ErrUnknownOperation):
		kind = saidUnknown
	case errors.Is(err, ErrNotReached):
		kind = saidNotYet
	case errors.Is(err, ErrNotKept):
		kind = saidNotKept
	case errors.Is(err, ErrReplyNotKept):
		kind = saidCut
	case errors.Is(err, errFull):
		kind = saidFull
	case errors.As(err, new(*AccessError)):
		kind = saidDenied
	case errors.Is(err, ErrTooManySessions):
		kind = saidCrowded
	case errors.Is(err, ErrCompacted):
		kind = saidCompacted
	case errors.Is(err, squall.ErrTooLarge):
		kind = saidTooLarge
	case errors.Is(err, ErrNoKey):
		kind = saidNoKey
	case errors.Is(err, squall.ErrNotPersistent):
		kind = saidNoLog
	case errors.Is(err, errMalformed): // every member would say the same
	default:
		kind = saidAway
	}
	text := []byte(err.Error())
	if denied := (*AccessError)(nil); errors.As(err, &denied) {
		text = denied.appendTo(nil)
	}
	return (&relay.Answer{Said: kind, Text: text}).AppendTo(b)
}

// parseAnswer takes an answer apart. It returns errAway if another member is to be asked.
func parseAnswer(name string, b []byte) (v squall.Version, reply []byte, err error) {
	a, err := relay.ParseAnswer(b)
	if err != nil {
		return v, nil, fmt.Errorf("replicated: %w", err)
	}
	v = squall.Version{View: squall.ViewID(a.View), Seq: squall.Seq(a.Seq)}
	reply = a.Text
	switch a.Said {
	case saidDone:
		return v, reply, nil
	case saidFailed:
		return v, nil, &HandlerError{Operation: name, Text: string(reply)}
	case saidEnded:
		return v, nil, ErrSessionEnded
	case saidDenied:
		return v, nil, parseDenied(reply)
	case saidCompacted:
		return v, nil, fmt.Errorf("replicated: %w", ErrCompacted)
	case saidUnknown:
		return v, nil, fmt.Errorf("replicated: %w %q: %s", ErrUnknownOperation, name, reply)
	case saidNotYet:
		return v, nil, &saidError{ErrNotReached, string(reply)}
	case saidNotKept:
		return v, nil, &saidError{ErrNotKept, string(reply)}
	case saidCut:
		return v, nil, fmt.Errorf("replicated: %s: %w", name, ErrReplyNotKept)
	case saidCrowded:
		return v, nil, fmt.Errorf("replicated: %s: %w", name, ErrTooManySessions)
	case saidFull:
		return v, nil, errFull
	case saidAway:
		return v, nil, fmt.Errorf("%w: %s", errAway, reply)
	}
	err = fmt.Errorf("replicated: %s: %s", name, reply)
	switch a.Said {
	case saidTooLarge:
		err = &saidError{squall.ErrTooLarge, err.Error()}
	case saidNoKey:
		err = &saidError{ErrNoKey, err.Error()}
	case saidNoLog:
		err = &saidError{squall.ErrNotPersistent, err.Error()}
	}
	return v, nil, err
}

// saidError is an error of a member, in the member's words.
type saidError struct {
	kind error
	text string
}

func (e *saidError) Error() string { return e.text }
func (e *saidError) Unwrap() error { return e.kind }

// errFull says that a command was not executed, because too many replies are not acknowledged.
var errFull = errors.New("too many replies are not acknowledged")

// errAway says that a member cannot serve a client now.
var errAway = errors.New("the member cannot serve")
