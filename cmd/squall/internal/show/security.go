package show

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Certificates are the files with this machine's identity, of the flags --tls-cert, --tls-key and
// --tls-ca.
type Certificates struct{ Cert, Key, CA string }

// Load returns a configuration for both sides of a connection, or nil if no file is given.
func (c Certificates) Load() (*tls.Config, error) {
	switch {
	case c.Cert == "" && c.Key == "" && c.CA == "":
		return nil, nil
	case c.Cert == "" || c.Key == "" || c.CA == "":
		return nil, errors.New("--tls-cert, --tls-key, --tls-ca: give all three or none")
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.Cert, c.Key, err)
	}
	pem, err := os.ReadFile(c.CA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: no certificate in it", c.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool}, nil
}
