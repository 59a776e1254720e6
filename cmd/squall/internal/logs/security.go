package logs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// securityFlags say who this machine is, to a member that wants to know.
type securityFlags struct{ cert, key, ca string }

func (s *securityFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&s.cert, "tls-cert", "", "`file` with this machine's certificate, for a member that uses TLS")
	f.StringVar(&s.key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.ca, "tls-ca", "", "`file` with the certificates of those who signed the members' certificates")
}

// load is nil if nothing is encrypted.
func (s *securityFlags) load() (*tls.Config, error) {
	switch {
	case s.cert == "" && s.key == "" && s.ca == "":
		return nil, nil
	case s.cert == "" || s.key == "" || s.ca == "":
		return nil, errors.New("--tls-cert, --tls-key, --tls-ca: give all three or none")
	}
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
	}
	pem, err := os.ReadFile(s.ca)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: no certificate in it", s.ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool}, nil
}
