package port

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/squall-go/squall/internal/descriptors"
	"github.com/squall-go/squall/internal/wire"
	"github.com/squall-go/squall/trust"
)

// Dial connects to a node's port and says what the connection is for. The context bounds connect,
// TLS and preamble; it has no hold on the connection that is returned. With a nil configuration the
// connection is plain, otherwise mutual TLS. Errors name the address and wrap ErrNotSquall,
// ErrProtocolVersion, ErrKindRefused or the context's cause.
func Dial(ctx context.Context, addr string, kind Kind, tlsConfig *tls.Config) (net.Conn, error) {
	conn, err := dial(ctx, addr, kind, tlsConfig)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return conn, nil
}

func dial(ctx context.Context, addr string, kind Kind, tlsConfig *tls.Config) (net.Conn, error) {
	var dialer net.Dialer
	raw, err := descriptors.Retry(func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
	if err != nil {
		return nil, wire.Because(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) }) // long ago: whatever waits, stops
	conn, err := introduce(raw, addr, kind, tlsConfig)
	if !stop() && err == nil {
		err = errTooLate
	}
	if err != nil {
		raw.Close()
		return nil, wire.Because(ctx, err)
	}
	return conn, nil
}

// plainThere names the error of a handshake with an acceptor that answered without TLS.
func plainThere(err error) error {
	var header tls.RecordHeaderError
	if errors.As(err, &header) && string(header.RecordHeader[:]) == magic[:len(header.RecordHeader)] {
		return fmt.Errorf("%w: this one does", ErrTLSDiffers)
	}
	return err
}

// errTooLate is a connection that stood only after its context had ended, and that the deadline has
// spoilt.
var errTooLate = errors.New("connected too late")

// introduce is the dialer's side of the handshake.
func introduce(raw net.Conn, addr string, kind Kind, tlsConfig *tls.Config) (net.Conn, error) {
	conn := raw
	if tlsConfig != nil {
		config, err := clientTLS(tlsConfig, addr)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(raw, config)
		if err := finishTLS(secure); err != nil {
			return nil, plainThere(err)
		}
		conn = secure
	}
	err := writePreamble(conn, kind)
	if err == nil {
		err = readAnswer(conn, kind)
	}
	if err != nil {
		return nil, refusedCertificate(err)
	}
	return conn, nil
}

// Final reports whether a dial that failed in this way fails whenever it is made, until the
// configuration of one of the two processes changes.
func Final(err error) bool {
	for _, final := range [...]error{ErrWrongPort, ErrTLSDiffers, ErrNoCertificateShown, trust.ErrSecret} {
		if errors.Is(err, final) {
			return true
		}
	}
	return errors.As(err, new(*tls.CertificateVerificationError))
}

func readAnswer(conn net.Conn, kind Kind) error {
	theirs, err := readPreamble(conn)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the process there closed the connection without an answer: %w", err)
	case err != nil:
		return err
	case theirs.kind == kindMembersPort:
		return fmt.Errorf("%w: it is for the members of the group: use the address at which a member serves clients", ErrWrongPort)
	case theirs.kind == kindClientsPort:
		return fmt.Errorf("%w: it is for clients: use the address at which members listen for each other", ErrWrongPort)
	case theirs.kind == kindTLSHere:
		return fmt.Errorf("%w: this one does not", ErrTLSDiffers)
	case theirs.kind == kindRefused:
		return fmt.Errorf("%w: %v", ErrKindRefused, kind)
	case theirs.kind != kind:
		return fmt.Errorf("%w: asked for %v, it answered %v", ErrNotSquall, kind, theirs.kind)
	}
	return nil
}
