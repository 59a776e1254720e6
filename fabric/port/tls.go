package port

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
)

// alpn is what a connection is negotiated as, so that a proxy or a web server in between cannot be
// taken for a node.
var alpn = fmt.Sprintf("squall/%d", ProtocolVersion)

var (
	// ErrNoCertificate says that a TLS configuration has no certificate to show.
	ErrNoCertificate = errors.New("the TLS configuration has no certificate")
	// ErrNoClientCAs says that a TLS configuration does not name the authority that signs the
	// peers' certificates. The machine's roots would be the default, and then any holder of a web
	// server's certificate could be a member.
	ErrNoClientCAs = errors.New("the TLS configuration has neither ClientCAs nor RootCAs")
)

// tlsError marks what went wrong before the preamble.
type tlsError struct{ error }

func (e *tlsError) Unwrap() error { return e.error }

// serverTLS is a copy of c that insists on mutual TLS 1.3. Tickets are off: connections live as
// long as a view, so a resumed session would save nothing, and it would carry an earlier
// verification into a configuration that changed.
func serverTLS(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, nil
	}
	strict := c.Clone()
	strict.ClientAuth = tls.RequireAndVerifyClientCert
	strict.MinVersion = tls.VersionTLS13
	strict.NextProtos = []string{alpn}
	strict.SessionTicketsDisabled = true
	if strict.ClientCAs == nil {
		strict.ClientCAs = strict.RootCAs
	}
	if choose := c.GetConfigForClient; choose != nil {
		strict.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return chosen(choose(hello)) }
		return strict, nil
	}
	return strict, checkServer(strict)
}

// chosen makes the configuration that GetConfigForClient returned as strict as the one it replaces.
func chosen(c *tls.Config, err error) (*tls.Config, error) {
	if c == nil || err != nil {
		return nil, err
	}
	c = c.Clone()
	c.GetConfigForClient = nil // it is not asked twice
	return serverTLS(c)
}

func checkServer(c *tls.Config) error {
	var errs []error
	if len(c.Certificates) == 0 && c.GetCertificate == nil {
		errs = append(errs, ErrNoCertificate)
	}
	if c.ClientCAs == nil {
		errs = append(errs, ErrNoClientCAs)
	}
	return errors.Join(errs...)
}

// clientTLS is a copy of c for one address. The authority that signs the dialers' certificates
// signs the listeners' too, if no other one is named: with the machine's roots, the default, any
// holder of a web server's certificate could pose as a member.
func clientTLS(c *tls.Config, addr string) (*tls.Config, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.NextProtos = []string{alpn}
	if c.RootCAs == nil {
		c.RootCAs = c.ClientCAs
	}
	if c.RootCAs == nil && !c.InsecureSkipVerify { // a configuration that skips it verifies in a callback, which needs no roots
		return nil, ErrNoClientCAs
	}
	if c.ServerName == "" {
		c.ServerName, _, _ = strings.Cut(host, "%") // certificates know no IPv6 zones
	}
	return c, nil
}

// noCertificate names the error of an acceptor to which the dialer showed no certificate that
// verifies.
func noCertificate(err error) error {
	if errors.As(err, new(x509.UnknownAuthorityError)) || strings.Contains(err.Error(), "client didn't provide a certificate") { // crypto/tls has no name for it
		return &tlsError{ErrNoCertificateShown}
	}
	return err
}

// refusedCertificate is noCertificate at the dialer, whose handshake has ended when the acceptor's
// alert arrives.
func refusedCertificate(err error) error {
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" {
		if text := alert.Err.Error(); strings.Contains(text, "certificate required") || strings.Contains(text, "unknown certificate authority") {
			return ErrNoCertificateShown
		}
	}
	return err
}

// finishTLS runs the handshake within the connection's deadline. ALPN is checked here because
// crypto/tls lets a peer pass that names no protocol.
func finishTLS(conn *tls.Conn) error {
	if err := conn.Handshake(); err != nil {
		return &tlsError{fmt.Errorf("TLS handshake: %w", err)}
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != alpn {
		return &tlsError{fmt.Errorf("TLS handshake: the peer negotiated protocol %q, not %q", got, alpn)}
	}
	return nil
}
