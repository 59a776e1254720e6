package fabric

import (
	"errors"

	"github.com/squall-go/squall/trust"
)

// Errors of connections for rows. All but ErrRefused end the connection without an answer, which
// its dialer takes for a reason to come again.
var (
	// ErrRefused says that a peer did not accept a connection for rows.
	ErrRefused = errors.New("refused")
	// ErrGivenUp says that a peer froze the row of this member before they were connected.
	ErrGivenUp = errors.New("the peer gave this member up")
	// ErrNotAwaited says that a view is not being opened here: it belongs to other processes, or is
	// over, or was not opened in time.
	ErrNotAwaited = errors.New("no member here awaits its view")
	// ErrCrowded says that a connection was closed for a later one.
	ErrCrowded = errors.New("too many callers")
	// ErrUnproven says that a caller, or a listener, did not prove that it is the member that it
	// says it is.
	ErrUnproven = trust.ErrUnproven
	// ErrHungUp says that a peer ended a connection without an answer, or had no place for it, or that
	// the way to it is broken: it is crowded, or does not await the view yet, or dies, or is cut off.
	// The next attempt tells.
	ErrHungUp = errors.New("the peer hung up")
)
