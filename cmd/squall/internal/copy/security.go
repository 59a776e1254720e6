package copy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/pflag"
)

// minTokenBytes is the length below which a token could be guessed by somebody who listens.
const minTokenBytes = 16

// security is what both commands have to show who they are.
type security struct {
	token []byte      // nil: none
	tls   *tls.Config // nil: none
}

// securityFlags are the flags that say so.
type securityFlags struct {
	tokenFile, cert, key, ca string
}

func (s *securityFlags) declare(f *pflag.FlagSet) {
	f.StringVar(&s.tokenFile, "token-file", "", fmt.Sprintf("`file` with a secret of at least %d characters that pusher and receivers share", minTokenBytes))
	f.StringVar(&s.cert, "tls-cert", "", "`file` with this machine's certificate: everything is encrypted, and both ends must show one")
	f.StringVar(&s.key, "tls-key", "", "`file` with its key")
	f.StringVar(&s.ca, "tls-ca", "", "`file` with the certificates of those who signed all machines' certificates")
}

func (s *securityFlags) load() (got security, err error) {
	var errs []error
	if s.tokenFile != "" {
		got.token, err = readToken(s.tokenFile)
		errs = append(errs, err)
	}
	switch {
	case s.cert == "" && s.key == "" && s.ca == "":
	case s.cert == "" || s.key == "" || s.ca == "":
		errs = append(errs, errors.New("--tls-cert, --tls-key, --tls-ca: give all three or none"))
	default:
		got.tls, err = s.loadTLS()
		errs = append(errs, err)
	}
	return got, errors.Join(errs...)
}

func readToken(path string) ([]byte, error) {
	token, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) < minTokenBytes {
		return nil, fmt.Errorf("--token-file %s: %d characters could be guessed; have at least %d, for instance from: head -c 32 /dev/urandom | base64",
			path, len(token), minTokenBytes)
	}
	return token, nil
}

func (s *securityFlags) loadTLS() (*tls.Config, error) {
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
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool}, nil
}

// loopback reports whether only this machine can reach an address.
func loopback(ctx context.Context, addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, err
	}
	if host == "" {
		return false, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback(), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return false, err
	}
	for _, ip := range ips {
		if !ip.Unmap().IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}
