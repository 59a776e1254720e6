package replicated

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/internal/errs"
	"github.com/squall-go/squall/replicated/internal/invoke"
)

// Errors, to be tested with errors.Is.
var (
	// ErrUnknownOperation says that an object does not have an operation, or that a member cannot
	// execute it yet.
	ErrUnknownOperation = errors.New("unknown operation")
	// ErrInHandler is returned by a call that would wait for the handler that makes it.
	ErrInHandler = errors.New("the call would wait for the handler that makes it")
	// ErrSessionEnded is returned to a client whose session has expired or was closed. Commands that
	// it had called and that were not answered may have been executed.
	ErrSessionEnded = errors.New("the session has ended")
	// ErrOutcomeUnknown is returned to a member for a command that it called on the shard it was in,
	// if it left the shard before it was given the reply: the shard may have executed the command or
	// not, and executes it once at most. It is so only in an object with Log.DeliverAfterPersist,
	// where a member that leaves is not given what waits for disks, and if the member is in no shard
	// then, or leaves the next one before its state is there. Every other command is executed once,
	// and its caller gets the reply.
	ErrOutcomeUnknown = errors.New("the command may have been executed or not")
	// ErrReplyNotKept is returned to a client for a command that was executed, and of which it did not
	// get the first answer: its reply was too large to be kept until the client has it
	// (docs/limits.md). It is a member's first answer that has such a reply.
	ErrReplyNotKept = errors.New("the command was executed, and its reply was too large to be kept")
	// ErrTooManySessions is returned to a client that opens a session of an object that has as many as
	// it may have, in all or of the client's identity, host or process (docs/limits.md). Sessions that
	// are not used end after their SessionTimeout.
	ErrTooManySessions = errors.New("the object has too many sessions")
	// ErrNoObject is returned to a client for an object that no member has, or that is not of the
	// client's Cluster, as soon as all members have answered.
	ErrNoObject = errors.New("no such object")
	// ErrOtherGroup is returned to a client when the members at its addresses are of another group
	// than the first one that it called: one with the same name, that has none of the first one's
	// state. The error has the identities of both (squall.View.Group).
	ErrOtherGroup = errs.ErrOtherGroup
	// ErrNoKey is returned by a call on an object in shards that says neither by its key nor with
	// Shard which of them is meant.
	ErrNoKey = errors.New("the object is in shards, and the operation has no key")
	// ErrTooLarge is squall.ErrTooLarge: what a client sent is larger than the object takes.
	ErrTooLarge = errs.ErrTooLarge
	// ErrNotPersistent is squall.ErrNotPersistent: an object that is not persistent has no past.
	ErrNotPersistent = errs.ErrNotPersistent
	// ErrUnreachable is returned to a client that reached no member until the context of its call
	// ended, or at once if no member will ever be reached: if at each address there is the wrong port,
	// TLS on one side only, a certificate that is not accepted or another secret. The error says why.
	ErrUnreachable = errors.New("no member can be reached")
)

// HandlerError is an error that a handler returned. It is the same at every member and every
// client.
type HandlerError struct {
	Operation string
	Text      string
}

func (e *HandlerError) Error() string { return e.Text }

// refusal returns the error that a record ended with, or nil.
func refusal(name string, s invoke.Status, reply []byte) error {
	switch s {
	case invoke.Done, invoke.Again:
		return nil
	case invoke.Failed, invoke.AgainFail:
		return &HandlerError{Operation: name, Text: string(reply)}
	case invoke.NotThere:
		return ErrSessionEnded
	case invoke.Disabled:
		return ErrUnknownOperation
	case invoke.NotKept:
		return fmt.Errorf("replicated: %s: %w", name, ErrReplyNotKept)
	case invoke.Full:
		return invoke.ErrFull
	case invoke.Elsewhere:
		return fmt.Errorf("replicated: %s: %w", name, invoke.ErrElsewhere)
	}
	return &invoke.Refusal{Operation: name, Status: s}
}
