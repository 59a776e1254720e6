package trust

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"
)

// certificateKey is the hash of a certificate's public key: a certificate that is renewed with the
// same key keeps it.
func certificateKey(c *x509.Certificate) Digest { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// PeerCertificate is the hash of the key of the certificate that the peer of a connection showed.
// It is false for a connection without TLS.
func PeerCertificate(conn net.Conn) (key Digest, secure bool) {
	c, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return key, false
	}
	if chain := c.ConnectionState().PeerCertificates; len(chain) > 0 {
		key = certificateKey(chain[0])
	}
	return key, true
}

// CertifiedName is the name that the peer of a connection proved with a certificate that an
// authority of the TLS configuration signed: the first URI with a scheme, such as
// spiffe://prod/web; else the subject, such as CN=web,O=Squall; else the first DNS name, as in
// DNS=web.example. No name of one of these kinds reads like one of another kind. It is empty
// without TLS, and for a certificate that was not verified.
func CertifiedName(conn net.Conn) string {
	c, ok := conn.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return ""
	}
	chains := c.ConnectionState().VerifiedChains
	if len(chains) == 0 || len(chains[0]) == 0 {
		return ""
	}
	leaf := chains[0][0]
	for _, u := range leaf.URIs {
		if u.IsAbs() {
			return u.String()
		}
	}
	if subject := leaf.Subject.String(); subject != "" {
		return subject
	}
	for _, name := range leaf.DNSNames {
		return "DNS=" + name
	}
	return ""
}

// CheckCertificate makes sure that the certificate of a connection with TLS has the key that its
// member's record names (T4). A connection without TLS shows none.
func CheckCertificate(conn net.Conn, want Digest) error {
	shown, secure := PeerCertificate(conn)
	if secure && (want.IsZero() || shown != want) {
		return fmt.Errorf("%w: the key of its certificate is not the key in its record", ErrUnproven)
	}
	return nil
}

// shakeHands closes the connection below if that fails, so that the other side does not wait.
func shakeHands(c *tls.Conn) error {
	err := c.Handshake()
	if err != nil {
		c.NetConn().Close()
	}
	return err
}

// ErrCertificates says that a process would show one key as a client and another one as a server.
var ErrCertificates = errors.New("the certificate for dialing and the one for listening have different keys: members are recognised by one key, so use one for both")

// ErrNoClientCertificate says that a TLS configuration shows a certificate when it listens, and
// none when it dials.
var ErrNoClientCertificate = errors.New("the TLS configuration shows no certificate when it dials: set Certificates or GetClientCertificate")

// ownTime bounds the handshake of a configuration with itself.
const ownTime = 10 * time.Second

// bareConfig is a configuration that chooses as c would for a peer that dials host, and verifies
// nothing.
func bareConfig(c *tls.Config, host string) *tls.Config {
	bare := c.Clone()
	if bare.ServerName == "" {
		bare.ServerName = host
	}
	if choose := c.GetConfigForClient; choose != nil {
		bare.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen != nil {
				chosen = unverified(chosen)
				chosen.GetConfigForClient = nil
			}
			return chosen, err
		}
	}
	return unverified(bare)
}

// OwnCertificate is the hash of the key of the certificate that a configuration shows to others;
// zero without TLS. It lets the configuration shake hands with itself, so that its callbacks choose
// as they would for a peer that dials host; nothing is verified.
func OwnCertificate(c *tls.Config, host string) (Digest, error) {
	if c == nil {
		return Digest{}, nil
	}
	bare := bareConfig(c, host)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	// A pipe has no buffer: without an end, a side that fails and says so could wait for the other
	// one for ever.
	end := time.Now().Add(ownTime)
	here.SetDeadline(end)
	there.SetDeadline(end)
	client, server := tls.Client(here, bare), tls.Server(there, bare)
	failed := make(chan error, 1)
	go func() { failed <- shakeHands(server) }()
	if err := errors.Join(shakeHands(client), <-failed); err != nil {
		return Digest{}, fmt.Errorf("the TLS configuration cannot shake hands with itself: %w", err)
	}
	listening, _ := PeerCertificate(client)
	dialing, _ := PeerCertificate(server)
	if dialing.IsZero() {
		return Digest{}, ErrNoClientCertificate
	}
	if listening != dialing {
		return Digest{}, ErrCertificates
	}
	return listening, nil
}

func unverified(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.MinVersion, c.ClientAuth, c.InsecureSkipVerify = tls.VersionTLS13, tls.RequestClientCert, true
	c.VerifyPeerCertificate, c.VerifyConnection, c.NextProtos = nil, nil, nil
	c.ClientCAs = nil // a client shows no certificate of an authority that is not among them
	c.SessionTicketsDisabled = true
	return c
}
