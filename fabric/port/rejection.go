package port

import (
	"errors"
	"fmt"
	"net"
	"os"
)

// ErrTooManyPending says that MaxPending connections were waiting for their preamble already.
var ErrTooManyPending = errors.New("too many connections without a preamble")

// Reason sorts rejections, for counters and logs.
type Reason uint8

const (
	// Garbage is a preamble that is none.
	Garbage Reason = iota
	// VersionDiffers is a peer of another ProtocolVersion.
	VersionDiffers
	// UnknownKind is a connection that nobody handles.
	UnknownKind
	// TimedOut is a peer that was silent or slow until HandshakeTimeout.
	TimedOut
	// TooMany is a connection beyond MaxPending.
	TooMany
	// TLSFailed is a peer without a certificate that verifies, or without TLS.
	TLSFailed
	// Broken is a connection that ended before its preamble did.
	Broken
	// AcceptFailed is a connection that the system could not give us; it has no remote address.
	AcceptFailed
)

var reasonNames = [...]string{
	"garbage", "version differs", "unknown kind", "timed out", "too many", "tls failed", "broken", "accept failed",
}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// Rejection is a connection that was closed instead of being handed over.
type Rejection struct {
	Remote string // the peer's host:port
	Reason Reason
	Err    error
}

func (r Rejection) String() string {
	return fmt.Sprintf("connection from %s rejected: %v: %v", r.Remote, r.Reason, r.Err)
}

// rejection names the reason of a failed handshake. A deadline comes first: it may strike inside any of the steps.
func rejection(conn net.Conn, err error) Rejection {
	r := Rejection{Remote: conn.RemoteAddr().String(), Reason: Broken, Err: err}
	var failed *tlsError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		r.Reason = TimedOut
	case errors.As(err, &failed):
		r.Reason = TLSFailed
	case errors.Is(err, ErrNotSquall):
		r.Reason = Garbage
	case errors.Is(err, ErrProtocolVersion):
		r.Reason = VersionDiffers
	case errors.Is(err, ErrKindRefused):
		r.Reason = UnknownKind
	}
	return r
}
