package ripc

import (
	"errors"
	"fmt"

	"github.com/squall-go/squall/ripc/internal/table"
)

// Errors. What functions return wraps one of them and says where.
var (
	// ErrClosed says that the endpoint, or the service, is closed.
	ErrClosed = errors.New("closed")
	// ErrNoService says that no service of that id is to be found.
	ErrNoService = errors.New("no such service")
	// ErrUnreachable says that a service is known, and no transport reaches it from here.
	ErrUnreachable = errors.New("unreachable")
	// ErrTooLarge says that a message is larger than the pair takes.
	ErrTooLarge = errors.New("message too large")
	// ErrFull says that there is no space for a message now.
	ErrFull = errors.New("no space now")
	// ErrNotConnected says that TrySend has no connection yet: Connect makes one.
	ErrNotConnected = errors.New("not connected")
	// ErrPeerGone says that the process with the service ended, or the service in it. The error is a
	// *GoneError.
	ErrPeerGone = errors.New("the peer is gone")
	// ErrRefused says that a service did not answer a call, or that a process does not let this one
	// connect. The error says why.
	ErrRefused = errors.New("refused")
	// ErrNoWindow says that a service has no window for a long message, and does not let it wait.
	ErrNoWindow = errors.New("no receive window")
	// ErrLimit says that a limit was reached; the error says which.
	ErrLimit = table.ErrLimit
)

// GoneError says what became of messages to a service that is gone. It is an ErrPeerGone.
type GoneError struct {
	Service ID
	// Unreceived is how many messages the service has not received: the last ones that were sent to
	// it. Of a call it is 1 if the request was not received; requests are not counted otherwise.
	Unreceived int
	// Exact says that no more were received. Over TCP the peer may have received messages of which it
	// could not tell any more.
	Exact bool
	// Cause is why the connection ended.
	Cause error
}

func (e *GoneError) Error() string {
	exact := "exactly"
	if !e.Exact {
		exact = "at most"
	}
	return fmt.Sprintf("ripc: %s: %v: %s %d messages were not received (%v)", e.Service, ErrPeerGone, exact, e.Unreceived, e.Cause)
}

// Is makes a GoneError an ErrPeerGone.
func (e *GoneError) Is(target error) bool { return target == ErrPeerGone }

// Unwrap returns the cause.
func (e *GoneError) Unwrap() error { return e.Cause }
