package port

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/squall-go/squall/fabric"
	"github.com/squall-go/squall/internal/wire"
)

// ErrTooManyPending says that MaxPending newer connections were waiting for their preamble.
var ErrTooManyPending = errors.New("too many connections that say nothing")

// Reason sorts rejections, for counters and logs.
type Reason uint8

const (
	// Garbage is a preamble that is none.
	Garbage Reason = iota
	// VersionDiffers is a peer of another ProtocolVersion.
	VersionDiffers
	// UnknownKind is a connection of a kind without a handler.
	UnknownKind
	// TimedOut is a peer that was silent or slow until HandshakeTimeout.
	TimedOut
	// TooMany is a connection that was closed for newer ones.
	TooMany
	// TLSFailed is a peer without a certificate that verifies, or without TLS.
	TLSFailed
	// Broken is a connection that ended before its preamble did.
	Broken
	// AcceptFailed is a connection that the system could not give us; it has no remote address.
	AcceptFailed
	// NotMember is a connection for rows from a process that is no member of the view, or that
	// claims the rank of another member.
	NotMember
	// OtherUser is a connection through shared memory of a process that runs as another user.
	OtherUser
)

var reasonNames = [...]string{
	"garbage", "version differs", "unknown kind", "timed out", "too many", "tls failed", "broken", "accept failed",
	"not a member", "other user",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Rejection is a connection that was closed instead of being forwarded, or that its handler
// refused.
type Rejection struct {
	Remote string // the peer's host:port, or its process
	Kind   Kind   // what it was forwarded for; 0 if it was not
	Reason Reason
	Err    error
}

func (r Rejection) String() string {
	what := "connection"
	if r.Kind != kindRefused {
		what += " for " + r.Kind.String()
	}
	return fmt.Sprintf("%s from %s rejected: %v: %v", what, r.Remote, r.Reason, r.Err)
}

// rejection names the reason of a failed handshake.
func rejection(conn net.Conn, err error) Rejection {
	return Rejection{Remote: conn.RemoteAddr().String(), Reason: reasonOf(err), Err: err}
}

// NewRejection describes a connection of a kind that its handler refuses: its request did not come,
// was broken, or is of a process that may not make it.
func NewRejection(kind Kind, remote string, err error) Rejection {
	return Rejection{Remote: remote, Kind: kind, Reason: reasonOf(err), Err: err}
}

// signs tell reasons, the first that is found. A deadline comes first: it may strike inside any of
// the steps.
var signs = []struct {
	err    error
	reason Reason
}{
	{os.ErrDeadlineExceeded, TimedOut},
	{ErrTLSDiffers, TLSFailed},
	{ErrWrongPort, UnknownKind},
	{ErrNotSquall, Garbage},
	{ErrProtocolVersion, VersionDiffers},
	{ErrKindRefused, UnknownKind},
	{ErrTooManyPending, TooMany},
	{wire.ErrCorrupt, Garbage},
	{fabric.ErrViolation, Garbage},
	{fabric.ErrRefused, NotMember},
	{fabric.ErrUnproven, NotMember},
	{fabric.ErrNotAwaited, NotMember},
	{fabric.ErrCrowded, TooMany},
}

func reasonOf(err error) Reason {
	var failed *tlsError
	if errors.As(err, &failed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		return TLSFailed
	}
	for _, s := range signs {
		if errors.Is(err, s.err) {
			return s.reason
		}
	}
	return Broken
}
