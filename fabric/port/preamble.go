package port

import (
	"errors"
	"fmt"
	"io"
)

// ProtocolVersion is the version of everything that is spoken on the port after the preamble. Nodes
// of different versions do not talk to each other.
const ProtocolVersion = 2

// Kind says what a connection carries.
type Kind uint8

const (
	// kindRefused is the acceptor's answer when it will not serve the connection; no dialer asks for
	// it.
	kindRefused Kind = iota
	// KindRows carries the pushes of one pair of nodes.
	KindRows
	// KindControl carries the conversations that form and change views.
	KindControl
	// KindState carries the state of a subgroup to a member that has none.
	KindState
	// KindBlocks carries large messages, and the conversation about them.
	KindBlocks
	// KindCopy carries the conversation about a push of files.
	KindCopy
	// KindRestart carries the agreement of processes that bring a group back.
	KindRestart
	// KindLog carries reads of logs, and the parts of them that another member lacks.
	KindLog
	// KindPresence asks which process listens here, and lasts as long as that process does.
	KindPresence
	// KindServices carries messages between two services' processes.
	KindServices
	// KindStatus asks a member for what it knows of its group.
	KindStatus

	lastKind = KindStatus
)

// Answers of an acceptor that says more than kindRefused. No dialer asks for them.
const (
	kindTLSHere     Kind = 252 + iota // the acceptor uses TLS, and the dialer does not
	kindMembersPort                   // the port is for members, and the dialer is a client
	kindClientsPort                   // the port is for clients, and the dialer is no client
	kindPlainHere                     // the dialer uses TLS, and the acceptor does not
)

func (k Kind) String() string {
	switch k {
	case kindRefused:
		return "refused"
	case KindRows:
		return "rows"
	case KindControl:
		return "control"
	case KindState:
		return "state"
	case KindBlocks:
		return "blocks"
	case KindCopy:
		return "copy"
	case KindRestart:
		return "restart"
	case KindLog:
		return "log"
	case KindPresence:
		return "presence"
	case KindServices:
		return "services"
	case KindStatus:
		return "status"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var (
	// ErrNotSquall says that the other end does not speak this protocol at all.
	ErrNotSquall = errors.New("the other end is no squall process")
	// ErrProtocolVersion says that the two ends speak different versions of it.
	ErrProtocolVersion = errors.New("protocol versions differ: use the same release at both ends")
	// ErrKindRefused says that the acceptor has no handler for this kind of connection, or not yet.
	ErrKindRefused = errors.New("the process there does not serve this, or not yet")
	// ErrWrongPort says that a client was given the port of members, or a member that of clients.
	ErrWrongPort = errors.New("wrong port")
	// ErrTLSDiffers says that one end uses TLS and the other one does not.
	ErrTLSDiffers = errors.New("only one of the two ends uses TLS: set TLS at both, or at neither")
	// ErrNoCertificateShown says that a process dialed one that uses TLS and showed no certificate,
	// or one of an authority that the other end does not name.
	ErrNoCertificateShown = errors.New("the process that dialed has no certificate of an authority that the other end trusts: set its TLS Certificates to one that an authority in the other end's ClientCAs signed")
)

// preamble opens a connection in both directions.
//
//	0      1      2      3      4      5      6         7
//	'S'    'Q'    'U'    'A'    'L'    'L'    version   kind
type preamble struct {
	version uint8
	kind    Kind
}

const (
	magic         = "SQUALL"
	versionOffset = len(magic)
	kindOffset    = versionOffset + 1
	preambleBytes = kindOffset + 1
)

func (p preamble) encode() (b [preambleBytes]byte) {
	copy(b[:], magic)
	b[versionOffset] = p.version
	b[kindOffset] = uint8(p.kind)
	return b
}

// parsePreamble looks at the magic, then the version; the kind is the caller's to judge.
func parsePreamble(b [preambleBytes]byte) (preamble, error) {
	p := preamble{version: b[versionOffset], kind: Kind(b[kindOffset])}
	if b[0] == recordHandshake && b[1] == recordMajor {
		return preamble{}, fmt.Errorf("%w: this one does not", ErrTLSDiffers)
	}
	if string(b[:versionOffset]) != magic {
		return preamble{}, fmt.Errorf("%w: it began with %q", ErrNotSquall, b[:])
	}
	if p.version != ProtocolVersion {
		return p, fmt.Errorf("%w: the peer speaks version %d, this node version %d", ErrProtocolVersion, p.version, ProtocolVersion)
	}
	return p, nil
}

// The first two bytes of a connection with TLS.
const (
	recordHandshake = 22
	recordMajor     = 3
)

func readPreamble(r io.Reader) (preamble, error) {
	var b [preambleBytes]byte
	if n, err := io.ReadFull(r, b[:]); err != nil {
		return preamble{}, fmt.Errorf("the connection ended after %d of %d bytes: %w", n, preambleBytes, err)
	}
	return parsePreamble(b)
}

func writePreamble(w io.Writer, kind Kind) error {
	b := preamble{version: ProtocolVersion, kind: kind}.encode()
	if _, err := w.Write(b[:]); err != nil {
		return fmt.Errorf("sending the first bytes: %w", err)
	}
	return nil
}
